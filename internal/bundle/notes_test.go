package bundle

import (
	"os"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// Whoever takes a bundle with a card's backend reads in it which settings of memory there
// are, and when to use each.
func TestMemoryNotes(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	managed := []string{"GGML_CUDA_ALLOC_FALLBACK_MANAGED", "GGML_CUDA_POOL_USE_MANAGED", "GGML_CUDA_MANAGED_MAX_MIB"}
	for target, trim := range map[string]string{
		"rocm-gfx1201": "GGML_CUDA_POOL_TRIM is on (grow)", "win7-vxkex-cuda11.4": "GGML_CUDA_POOL_TRIM is on (grow)",
		"linux-cuda": "GGML_CUDA_POOL_TRIM=grow, where the card has no virtual memory",
	} {
		rec, err := repo.Recipe(target)
		if err != nil {
			t.Fatal(err)
		}
		// What the notes say is what the recipe compiles in.
		compiled := strings.Contains(strings.Join(append(rec.CUDAFlags, rec.HIPFlags...), " "),
			"-DGGML_CUDA_POOL_TRIM_DEFAULT=1")
		if compiled != strings.Contains(trim, "is on") {
			t.Errorf("%s: %q, and the flags are %q %q", target, trim, rec.CUDAFlags, rec.HIPFlags)
		}
		i := Info{Upstream: spec.LlamaCpp, Tag: "b8833", Target: target, Series: &spec.Series{}}
		for _, note := range rec.Bundle.Notes {
			i.Notes = append(i.Notes, strings.TrimSpace(note))
		}
		pages := map[string][]byte{"README.md": bundlePage(i), "NOTES.md": notesPage(i, Packed{Archive: "x"})}
		if rec.Verify.PE != nil {
			i.Windows = rec.Verify.PE.OS
			pages[win7Readme] = i.win7Page()
		}
		for name, page := range pages {
			text := strings.Join(strings.Fields(strings.ReplaceAll(string(page), "`", "")), " ")
			for _, want := range append([]string{trim, "-fit off", "--cache-ram N: llama-server keeps up to 8192 MiB"},
				managed...) {
				if !strings.Contains(text, want) {
					t.Errorf("%s, %s: no %q", target, name, want)
				}
			}
			if out := rec.Without["managed-fallback"] != ""; out != strings.Contains(text, "is not in: on Windows") {
				t.Errorf("%s, %s: it does not say whether managed memory is in", target, name)
			}
		}
	}
}
