//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// The password goes to nothing but what signs: no program that is run later gets it.
func TestSignPassword(t *testing.T) {
	t.Setenv(passwordEnv, "pass word")
	var c cobra.Command
	read := signFlags(&c)
	if err := c.Flags().Set("sign", "cert.p12"); err != nil {
		t.Fatal(err)
	}
	s, err := read()
	if err != nil || string(s.Password) != "pass word" {
		t.Fatalf("%+v, %v", s, err)
	}
	if all := strings.Join(append(os.Environ(), s.Env...), "\n"); strings.Contains(all, "pass word") {
		t.Error("the password is still in the environment")
	}
}

// A file with a password may be a pipe, and may be the wrong file.
func TestFirstLine(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"unix": "pass word\nmore\n", "dos": "pass word\r\n", "bare": "pass word"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if line, err := firstLine(t.Context(), file); err != nil || string(line) != "pass word" {
			t.Errorf("%s: %q, %v", name, line, err)
		}
	}
	if _, err := firstLine(t.Context(), "/dev/zero"); err == nil ||
		!strings.Contains(err.Error(), "/dev/zero has more than") {
		t.Errorf("%v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := firstLine(ctx, pipe); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a pipe to which nobody writes: %v", err)
	}
	pipe += "2" // the other may still be opened
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("pass word\n"), 0o600) }()
	if line, err := firstLine(t.Context(), pipe); err != nil || string(line) != "pass word" {
		t.Errorf("a pipe: %q, %v", line, err)
	}
}
