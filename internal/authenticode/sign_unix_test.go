//go:build unix

package authenticode

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/llpatch/llpatch/internal/regular"
)

// A pipe in the place of a certificate is refused, and not waited for.
func TestSigningPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.p12")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var cannot *CannotSign
	if _, err := (&Signer{Cert: pipe}).Check(t.Context()); !errors.Is(err, regular.ErrNot) || !errors.As(err, &cannot) {
		t.Error(err)
	}
}
