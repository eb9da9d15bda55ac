package release

import (
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
	top := t.TempDir()
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
	c := &Chain{Options: Options{Sign: &authenticode.Signer{Cert: "none", Env: []string{"PATH="}}, Log: slog.New(slog.DiscardHandler)}}
	if _, err := c.sign(t.Context(), top, files); err == nil {
		t.Error("a file of ours was not to be signed")
	}
	c.Recipe.Bundle = spec.Bundle{Carry: []string{"cudart64_*.dll"}}
	if got, err := c.sign(t.Context(), top, files); err != nil || len(got.Unsigned) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
