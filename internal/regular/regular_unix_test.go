//go:build unix

package regular

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What is no regular file is refused at once, whoever sits at its other end.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	if err := errors.Join(os.WriteFile(name("file"), []byte("text"), 0o600), os.Symlink("file", name("link")),
		os.Symlink("pipe", name("to-pipe")), syscall.Mkfifo(name("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", name("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, file := range []string{"file", "link"} {
		if got, err := ReadFile(name(file)); err != nil || string(got) != "text" {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	for _, file := range []string{"pipe", "to-pipe", "socket", "."} {
		done := make(chan error, 1)
		go func() { _, err := Open(name(file)); done <- err }()
		select {
		case err := <-done:
			if !errors.Is(err, ErrNot) || !strings.Contains(err.Error(), name(file)+": it is not a regular file") {
				t.Errorf("%s: %v", file, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("it waits for %s", file)
		}
	}
	if _, err := Open("/dev/zero"); !errors.Is(err, ErrNot) {
		t.Errorf("a device: %v", err)
	}
	if _, err := ReadFile(name("none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	text := strings.NewReader("text")
	b := make([]byte, 2)
	if n, err := Until(ctx, text).Read(b); n != 2 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if n, err := UntilAt(ctx, text).ReadAt(b, 2); n != 2 || err != nil || string(b) != "xt" {
		t.Errorf("%d %v %s", n, err, b)
	}
	cancel()
	if _, err := io.ReadAll(Until(ctx, text)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := UntilAt(ctx, text).ReadAt(b, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
