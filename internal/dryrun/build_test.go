//go:build linux

package dryrun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/source"
)

// tree writes a folder that looks like llama.cpp's, as far as Build looks.
func tree(t *testing.T, header string) *source.Tree {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"include/llama.h": header,
		"ggml/src/ggml-cuda/ggml-cuda.cu": "static bool ggml_backend_cuda_device_supports_op(int op) {\n    return op;\n}\n" +
			"static size_t ggml_backend_cuda_buffer_type_get_alloc_size(int t) {\n    return t;\n}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := source.Folder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Close() })
	return got
}

const newHeader = "struct llama_model_params {\n    bool no_alloc;\n};\n"

// toolchain puts stand-ins for cmake, ninja and g++ on a PATH of their own. ninja writes down its targets, fails where
// a file fail-TARGET or full-TARGET lies beside it, waits where there is a file wait-TARGET, and makes a program
// that answers.
func toolchain(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	for name, text := range map[string]string{
		"g++":   "#!/bin/sh\n",
		"cmake": "#!/bin/sh\nwhile [ \"$1\" != -B ]; do shift; done\n/bin/mkdir -p \"$2\"\n",
		"ninja": `#!/bin/sh
here=${0%/*}
echo "$5" >>"$here/targets"
echo "[1/2] one"
if [ -e "$here/fail-$5" ]; then echo "slice.inc:7:3: error: no such thing"; exit 1; fi
if [ -e "$here/full-$5" ]; then echo "slice.o: No space left on device"; exit 1; fi
while [ -e "$here/wait-$5" ]; do /bin/sleep 0.05; done
[ "$5" = card ] || { printf '#!/bin/sh\necho "{}"\n' >"$2/dryrun"; /bin/chmod +x "$2/dryrun"; }
`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	return bin
}

func targets(t *testing.T, bin string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(bin, "targets"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

func put(t *testing.T, parts ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(parts...), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A program is built once; then it needs no compiler.
func TestBuildOnce(t *testing.T) {
	bin := toolchain(t)
	o, of := Options{Cache: t.TempDir()}, tree(t, newHeader)
	p, err := Build(t.Context(), o, "b9999", of)
	if err != nil || targets(t, bin) != "card dryrun" {
		t.Fatalf("%v, %s", err, targets(t, bin))
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(p.Path), "work")); err == nil {
		t.Error("what it was built in is still there")
	}
	t.Setenv("PATH", t.TempDir())
	again, err := Build(t.Context(), o, "b9999", of)
	if err != nil || again.Path != p.Path || targets(t, bin) != "card dryrun" {
		t.Errorf("again: %v, %s, %s", err, again.Path, targets(t, bin))
	}
}

func TestBuildRefused(t *testing.T) {
	for _, c := range []struct {
		name, header string
		break_       func(bin string)
		code         int
		says, hint   string
		targets      string
	}{
		{"old", "// no_alloc is for later\n", nil, exit.NotRun, "b9999 cannot lay a model out", "newer --tag", ""},
		{
			"no compiler", newHeader, func(bin string) { _ = os.Remove(filepath.Join(bin, "g++")) }, exit.NotRun,
			"there is no g++ or clang++", "apt-get install g++", "",
		},
		{
			"no cmake", newHeader, func(bin string) { _ = os.Remove(filepath.Join(bin, "cmake")) }, exit.NotRun, "no cmake",
			"apt-get install cmake", "",
		},
		// Closed: without what the tag's card takes there is no answer, the host's neither.
		{
			"uncut", newHeader, func(bin string) { put(t, bin, "fail-card") }, exit.NotRun, "nothing is said of a card",
			"another --tag", "card",
		},
		{
			"full disk", newHeader, func(bin string) { put(t, bin, "full-card") }, exit.Build, "No space left", "",
			"card",
		},
		{
			"failed", newHeader, func(bin string) { put(t, bin, "fail-dryrun") }, exit.Build, "build.log", "",
			"card dryrun",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin := toolchain(t)
			if c.break_ != nil {
				c.break_(bin)
			}
			o := Options{Cache: t.TempDir()}
			p, err := Build(t.Context(), o, "b9999", tree(t, c.header))
			if exit.Code(err) != c.code || !strings.Contains(err.Error(), c.says) || !strings.Contains(exit.Hint(err), c.hint) {
				t.Errorf("%d: %v (%s)", exit.Code(err), err, exit.Hint(err))
			}
			if got := targets(t, bin); got != c.targets {
				t.Errorf("built %q", got)
			}
			if found, _ := filepath.Glob(filepath.Join(o.Cache, "dryrun", "*", "dryrun")); len(found) != 0 || p.built() {
				t.Errorf("it left %v", found)
			}
		})
	}
	// A ggml-cuda without the functions.
	toolchain(t)
	of := tree(t, newHeader)
	of, err := of.With(map[string]*source.File{
		"ggml/src/ggml-cuda/ggml-cuda.cu": {Mode: source.Regular, Data: []byte("int x;\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Build(t.Context(), Options{Cache: t.TempDir()}, "b9999", of)
	if _, ok := errors.AsType[*Uncut](err); !ok {
		t.Errorf("no functions: %v", err)
	}
}

// An interrupted build leaves no program, and the next goes on with what is there.
func TestBuildInterrupted(t *testing.T) {
	bin := toolchain(t)
	put(t, bin, "wait-dryrun")
	o, of := Options{Cache: t.TempDir()}, tree(t, newHeader)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for targets(t, bin) != "card dryrun" && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := Build(ctx, o, "b9999", of); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if found, _ := filepath.Glob(filepath.Join(o.Cache, "dryrun", "*", "dryrun")); len(found) != 0 {
		t.Fatalf("it left %v", found)
	}
	found, _ := filepath.Glob(filepath.Join(o.Cache, "dryrun", "*", "work", "build"))
	if len(found) != 1 {
		t.Fatalf("what was built is gone: %v", found)
	}
	if err := os.Remove(filepath.Join(bin, "wait-dryrun")); err != nil {
		t.Fatal(err)
	}
	if p, err := Build(t.Context(), o, "b9999", of); err != nil || !p.built() {
		t.Errorf("%v", err)
	}
}

// Of two at a time one builds, and the other takes what it made.
func TestBuildTwo(t *testing.T) {
	bin := toolchain(t)
	o, of := Options{Cache: t.TempDir()}, tree(t, newHeader)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			if p, err := Build(t.Context(), o, "b9999", of); err != nil || !p.built() {
				t.Errorf("%v", err)
			}
		})
	}
	wait.Wait()
	if got := targets(t, bin); got != "card dryrun" {
		t.Errorf("built %q", got)
	}
}

// A build of somebody else's: its libraries and its sources must be there.
func TestBuildWith(t *testing.T) {
	bin := toolchain(t)
	dir, src := t.TempDir(), t.TempDir()
	of := tree(t, newHeader)
	if _, err := of.CheckoutOwn(t.Context(), src, nil); err != nil {
		t.Fatal(err)
	}
	o := Options{Cache: t.TempDir()}
	refused := func(says string) {
		t.Helper()
		if _, err := BuildWith(t.Context(), o, dir); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	refused("no folder that CMake built")
	cache := filepath.Join(dir, "CMakeCache.txt")
	for _, text := range []string{
		"X:INTERNAL=y\n", "GGML_BACKEND_DL:BOOL=ON\nCMAKE_HOME_DIRECTORY:INTERNAL=" + src + "\n",
	} {
		if err := os.WriteFile(cache, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text[0] == 'X' {
			refused("does not name the sources")
		}
	}
	refused("not shared ones")
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, lib := range []string{"libllama.so", "libggml.so", "libggml-base.so"} {
		put(t, dir, "bin", lib)
	}
	refused("no libggml-cpu")
	put(t, dir, "bin", "libggml-cpu-zen4.so")
	put(t, dir, "bin", "libggml-cpu-x64.so")
	p, err := BuildWith(t.Context(), o, dir)
	if err != nil || len(p.Backends) != 1 || filepath.Base(p.Backends[0]) != "libggml-cpu-x64.so" {
		t.Fatalf("%v, %v", err, p.Backends)
	}
	// Other libraries are another build.
	if err := os.WriteFile(filepath.Join(dir, "bin", "libllama.so"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := BuildWith(t.Context(), o, dir); err != nil || other.Path == p.Path {
		t.Errorf("%v, %s", err, other.Path)
	}
	if got := targets(t, bin); got != "card dryrun card dryrun" {
		t.Errorf("built %q", got)
	}
	if err := os.RemoveAll(src); err != nil {
		t.Fatal(err)
	}
	refused("its sources are not there")
}
