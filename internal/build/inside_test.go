package build

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/buildenv"
)

// In a build root the folders have a fixed path, so that nothing of what is made hangs
// on where they lie; the digest is that of a build without a root.
func TestPlanInside(t *testing.T) {
	plain := smallInput(t, t.TempDir())
	plain.Facts.Tools = maps.Clone(plain.Facts.Tools)
	want := mustPlan(t, plain).Digest
	var argv []string
	for range 2 {
		in := plain
		dir := t.TempDir()
		in.Source, in.Dir = filepath.Join(dir, "src"), filepath.Join(dir, "build")
		in.Facts.Root = &RootFact{Name: "kit", Digest: "0123456789ab", Dir: "/cache/env/kit-0123456789ab"}
		in.Touched = map[string][]string{"ggml/src/a.cu": {"a-fix"}}
		p := mustPlan(t, in)
		if p.Digest != want {
			t.Errorf("digest %s, without a root %s", p.Digest, want)
		}
		all := slices.Concat(p.Steps[0].Argv, p.Steps[1].Argv, []string{p.Steps[0].Dir, p.Steps[1].Dir})
		if text := strings.Join(all, " "); strings.Contains(text, dir) ||
			!strings.Contains(text, "-S /llpatch/src -B /llpatch/build") {
			t.Errorf("%s", text)
		}
		if argv != nil && !slices.Equal(argv, all) {
			t.Errorf("another folder has other commands:\n%q\n%q", argv, all)
		}
		argv = all
		if got := p.Folders(); got[0] != (buildenv.Folder{Outside: in.Source, Inside: "/llpatch/src"}) ||
			got[1] != (buildenv.Folder{Outside: in.Dir, Inside: "/llpatch/build"}) {
			t.Errorf("folders %v", got)
		}
		// What compilers say is of the paths inside.
		for _, file := range []string{
			"/llpatch/src/ggml/src/a.cu", "../src/ggml/src/a.cu",
			filepath.Join(in.Source, "ggml/src/a.cu"),
		} {
			f := p.failed(Compile, cause{kind: KindCompiler, file: file, line: 3})
			if f.File != "ggml/src/a.cu" || !slices.Equal(f.Fixes, []string{"a-fix"}) {
				t.Errorf("%s became %s, of %v", file, f.File, f.Fixes)
			}
		}
	}
}

// A nvcc that can be told a seed puts no number of a process into names; the plan is the
// same one.
func TestSeed(t *testing.T) {
	in := inputFor(t, "linux-cuda", "b8833")
	want := mustPlan(t, in)
	if slices.ContainsFunc(want.Steps[0].Argv, func(a string) bool { return strings.Contains(a, "--frandom-seed") }) {
		t.Error("nvcc 11.8 has no such option")
	}
	in.Facts.CUDA.Seed = true
	p := mustPlan(t, in)
	if !slices.ContainsFunc(p.Steps[0].Argv, func(a string) bool {
		return strings.HasPrefix(a, "-DCMAKE_CUDA_FLAGS=--objdir-as-tempdir --frandom-seed=llpatch ")
	}) || p.Digest != want.Digest {
		t.Errorf("%q, digest %s and %s", p.Steps[0].Argv, p.Digest, want.Digest)
	}
	for help, seed := range map[string]bool{"--objdir-as-tempdir": false, "--frandom-seed <seed>": true} {
		tc, rec, _ := toolkit(t, func(files map[string]string) {
			files["bin/nvcc"] = strings.Replace(files["bin/nvcc"], "--objdir-as-tempdir   (-objtemp)", help, 1)
		})
		f, err := Probe(t.Context(), tc, rec)
		if err != nil || f.CUDA.Seed != seed || f.CUDA.ObjTemp == seed {
			t.Errorf("help %s: %+v, %v", help, f.CUDA, err)
		}
	}
}
