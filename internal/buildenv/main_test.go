//go:build linux

package buildenv

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

// childVar makes the test program do one job and exit: to be killed, or to be
// another user.
const childVar = "LLPATCH_ENV_TEST_CHILD"

type childJob struct {
	Decl   Decl
	Lock   *Lock
	Cache  string
	Mirror string
	Folder string // not empty: run /usr/bin/probe inside, with this folder
}

func TestMain(m *testing.M) {
	run.Supervise()
	if text := os.Getenv(childVar); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if dir, err := pool(); err == nil {
		_ = os.RemoveAll(dir) // a temporary folder
	}
	os.Exit(code)
}

func child(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var j childJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	j.Decl.Lock = j.Lock
	if _, err := Create(ctx, j.Decl, Options{Cache: j.Cache, Mirror: j.Mirror}); err != nil || j.Folder == "" {
		return err
	}
	e, err := Open(ctx, j.Cache, j.Decl, nil)
	if err != nil {
		return err
	}
	c, err := e.Wrap(run.Cmd{
		Argv: []string{"/usr/bin/probe", "write", j.Folder + "/by-user"},
		Env:  []string{"PATH=/usr/bin"}, Dir: j.Folder,
	}, Same(j.Folder)...)
	if err == nil {
		err = run.Run(ctx, c)
	}
	if err != nil {
		return err
	}
	return e.Close()
}
