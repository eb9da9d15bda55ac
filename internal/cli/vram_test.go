package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/cli"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/gguf"
)

// writeHeader writes a GGUF file that is its header alone.
func writeHeader(t *testing.T, tensors []gguf.Tensor, meta ...gguf.Entry) string {
	t.Helper()
	b, err := gguf.EncodeHeader(meta, tensors)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A figure that may be wrong is none: 7, with the way to the right one. What has no context needs no --ctx.
func TestVRAMRefused(t *testing.T) {
	gemma := writeHeader(t, nil, gguf.Entry{Key: "general.architecture", Value: "gemma4"},
		gguf.Entry{Key: "gemma4.block_count", Value: 35}, gguf.Entry{Key: "gemma4.embedding_length", Value: 1536})
	adapter := writeHeader(t, []gguf.Tensor{{Name: "a", Type: gguf.F16, Dims: []uint64{1 << 20}}},
		gguf.Entry{Key: "general.architecture", Value: "gemma4"}, gguf.Entry{Key: "general.type", Value: "adapter"})
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{gemma}, exit.NotRun, "", "for gemma4 no formula"},
		{[]string{gemma, "--ctx", "4096"}, exit.NotRun, "", "hint: --tag TAG"},
		{[]string{adapter}, exit.OK, "a LoRA adapter", ""},
	} {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"vram"}, c.args...), &out, &errs)
		if code != c.code || !strings.Contains(out.String(), c.stdout) || !strings.Contains(errs.String(), c.stderr) {
			t.Errorf("%v: %d\n%s%s", c.args, code, &out, &errs)
		}
	}
}
