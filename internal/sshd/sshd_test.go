package sshd

import (
	"os"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestMain(m *testing.M) {
	run.Supervise()
	os.Exit(m.Run())
}

func TestServer(t *testing.T) {
	s := Start(t)
	for range 3 {
		out, err := run.Output(t.Context(), run.Cmd{Argv: run.SSH(Box, `echo "a  b"`), Env: s.Env})
		if err != nil || string(out) != "a  b\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
	file := t.TempDir() + "/copy of x"
	err := run.Run(t.Context(), run.Cmd{
		Argv: run.SFTP(Box), Env: s.Env,
		Stdin: strings.NewReader("put sshd.go \"" + file + "\"\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
