//go:build linux

package leak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

// programs holds what the tests build.
var programs string

func TestMain(m *testing.M) {
	run.Supervise()
	dir, err := os.MkdirTemp("", "leak-test")
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the tests' server once. It is a program of its own, without the
// race detector, whose own records grow with every request.
var build = sync.OnceValues(func() (string, error) {
	name := filepath.Join(programs, "llama-server")
	c := exec.Command("go", "build", "-o", name, "testdata/server/main.go")
	out, err := c.CombinedOutput()
	if err != nil {
		err = &exec.Error{Name: string(out), Err: err}
	}
	return name, err
})

func serverPath(t *testing.T) string {
	t.Helper()
	name, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// mark is in the command line of a test's programs, and of no others.
func mark(t *testing.T) string { return fmt.Sprintf("%s %d", t.Name(), os.Getpid()) }

// noProcess fails the test if a helper of that mark is left.
func noProcess(t *testing.T, mark string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		if err == nil && strings.HasSuffix(string(b), "\x00"+mark+"\x00") {
			t.Errorf("%s is left: %q", d, b)
		}
	}
}
