package chain

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// What others made and a full bundle carries gets no signature: nothing is tried, though
// the certificate is none.
func TestCarriedIsNotSigned(t *testing.T) {
	top, e := t.TempDir(), Workspace{Log: slog.New(slog.DiscardHandler)}
	data, err := os.ReadFile("../binary/testdata/pe/helper.dll")
	if err != nil {
		t.Fatal(err)
	}
	file := put(t, filepath.Join(top, "cudart64_110.dll"), string(data))
	f, err := binary.Inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	files := []*binary.File{f}
	signer := &authenticode.Signer{Cert: "none", Env: []string{"PATH="}}
	if _, err := sign(t.Context(), e, spec.Bundle{}, top, files, signer); err == nil {
		t.Error("a file of ours was not to be signed")
	}
	carry := spec.Bundle{Carry: []string{"cudart64_*.dll"}}
	if got, err := sign(t.Context(), e, carry, top, files, signer); err != nil || len(got.Unsigned) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	var bad *BadOption
	if err := CheckSigner(t.Context(), e, Order{Recipe: spec.Recipe{Name: "linux-cpu"}}, signer); !errors.As(err, &bad) {
		t.Errorf("a target for Linux: %v", err)
	}
}
