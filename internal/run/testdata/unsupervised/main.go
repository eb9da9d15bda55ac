// A program that starts another one and forgot to call run.Supervise.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/llpatch/llpatch/internal/run"
)

func main() {
	err := run.Run(context.Background(), run.Cmd{Argv: []string{"true"}, Env: os.Environ(), Stderr: os.Stderr})
	fmt.Fprintln(os.Stderr, err)
	if err != nil {
		os.Exit(1)
	}
}
