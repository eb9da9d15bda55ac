// Command llpatch turns a llama.cpp tag into fixed, proven, releasable
// binaries for targets that upstream does not serve.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/llpatch/llpatch/internal/cli"
	"github.com/llpatch/llpatch/internal/run"
)

func main() {
	run.Supervise()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once, whatever it hangs on.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // the one place where the program ends
}
