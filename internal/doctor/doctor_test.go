package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

func TestMain(m *testing.M) {
	run.Supervise()
	os.Exit(m.Run())
}

func put(t *testing.T, file, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func gcc(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, out)
	}
}

// makeBundle compiles a program, a library that it needs under two names, and with cuda
// a backend with device code for sm_75, sm_86 and PTX of compute_86.
func makeBundle(t *testing.T, cuda bool) string {
	t.Helper()
	src, dir := t.TempDir(), filepath.Join(t.TempDir(), "llama-b1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lib := put(t, filepath.Join(src, "lib.c"), "#include <string.h>\nint number(char *s) { return (int)strlen(s); }\n",
		0o644)
	main := put(t, filepath.Join(src, "main.c"),
		"int number(char *);\nint main(int c, char **v) { (void)c; return number(v[0]); }\n", 0o644)
	gcc(t, "-shared", "-fPIC", "-Wl,-soname,libggml.so.0", "-o", filepath.Join(dir, "libggml.so.0.1"), lib)
	if err := os.Symlink("libggml.so.0.1", filepath.Join(dir, "libggml.so.0")); err != nil {
		t.Fatal(err)
	}
	gcc(t, "-o", filepath.Join(dir, "llama-server"), "-Wl,-rpath,$ORIGIN", main, "-L"+dir, "-l:libggml.so.0")
	put(t, filepath.Join(dir, "README.md"), "read", 0o644)
	put(t, filepath.Join(dir, "LICENSES/x"), "a", 0o644)
	if !cuda {
		return dir
	}
	fatbins, err := filepath.Abs("../binary/testdata/fatbin")
	if err != nil {
		t.Fatal(err)
	}
	asm := put(t, filepath.Join(src, "device.s"), `.section .nv_fatbin,"a",@progbits
.align 8
.incbin "cuda-11.8-lz4.fatbin"
.section .nvFatBinSegment,"aw",@progbits
.quad 0,0,0
.section .note.GNU-stack,"",@progbits
`, 0o644)
	host := put(t, filepath.Join(src, "host.c"), "const char *text = \"cudaErrorCudartUnloading\";\n", 0o644)
	gcc(t, "-shared", "-fPIC", "-I"+fatbins, "-o", filepath.Join(dir, "libggml-cuda.so"), asm, host)
	return dir
}

// smi is the environment with an nvidia-smi that lists one card.
func smi(t *testing.T, name, driver, capability string) []string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "nvidia-smi"), fmt.Sprintf("#!/bin/sh\ncase $* in\n*driver_version*) echo '0, GPU-1, %s, "+
		"%s' ;;\n*compute_cap*) echo 'GPU-1, %s' ;;\nesac\n", name, driver, capability), 0o755)
	return []string{"PATH=" + dir + ":/usr/bin:/bin"}
}

// none is an environment without a card.
func none(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"ldconfig"} {
		if p, err := run.LookPath(name, "/usr/sbin:/sbin:/usr/bin"); err == nil {
			if err := os.Symlink(p, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return []string{"PATH=" + dir}
}

// has reports whether a line of the report says all of it.
func has(r *Report, status Status, about, says string) bool {
	for _, f := range r.Findings {
		if f.Status == status && f.About == about && strings.Contains(f.Says+" ["+f.Fix+"]", says) {
			return true
		}
	}
	return false
}

func TestBundle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cuda  bool
		spoil func(t *testing.T, dir string)
		env   func(t *testing.T) []string
		able  bool
		want  []Finding // About, Status, a part of Says
	}{
		"plain": {false, nil, none, true, []Finding{
			{About: "machine", Status: OK, Says: "It is for Linux and X86_64"},
			{About: "bundle", Status: OK, Says: "Its 2 files find one another"},
			{About: "library", Status: OK, Says: "libc.so.6"},
			{About: "libc.so.6", Status: OK, Says: "It needs glibc 2."},
			{About: "card", Status: OK, Says: "It needs no card"},
		}},
		"a library is missing": {false, func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "libggml.so.0")))
		}, none, false, []Finding{{
			About: "library", Status: Missing,
			Says: "llama-server needs libggml.so.0, which is not here",
		}}},
		"a link that leads nowhere": {false, func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "libggml.so.0.1")))
		}, none, false, []Finding{{
			About: "bundle", Status: Missing,
			Says: "libggml.so.0 is a link to libggml.so.0.1, which is not in the bundle",
		}}},
		"a link out of it": {false, func(t *testing.T, dir string) {
			must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "libevil.so")))
			must(t, os.Symlink("../../x", filepath.Join(dir, "LICENSES/y")))
		}, none, false, []Finding{
			{About: "bundle", Status: Missing, Says: "libevil.so is a link to /etc/passwd, out of the bundle"},
			{About: "bundle", Status: Missing, Says: "LICENSES/y is a link to ../../x, out of the bundle"},
		}},
		"a RUNPATH of another machine": {false, func(t *testing.T, dir string) {
			main := put(t, filepath.Join(t.TempDir(), "main.c"),
				"int number(char *);\nint main(int c, char **v) { (void)c; return number(v[0]); }\n", 0o644)
			gcc(t, "-o", filepath.Join(dir, "llama-server"), "-Wl,-rpath,/opt/build/bin:", main, "-L"+dir, "-l:libggml.so.0")
		}, none, false, []Finding{
			{About: "bundle", Status: Missing, Says: "llama-server does not find what it needs of the bundle (libggml.so.0): " +
				"its RUNPATH does not lead there. [put its folder into LD_LIBRARY_PATH]"},
			{About: "bundle", Status: Missing, Says: "llama-server looks for libraries in /opt/build/bin, a folder of the " +
				"machine that built it"},
			{About: "bundle", Status: Missing, Says: "its RUNPATH has an empty entry"},
		}},
		"a library that nobody has": {false, func(t *testing.T, dir string) {
			src := t.TempDir()
			c := put(t, filepath.Join(src, "a.c"), "int f(void) { return 1; }\n", 0o644)
			gcc(t, "-shared", "-fPIC", "-Wl,-soname,libcublas.so.12", "-o", filepath.Join(src, "libcublas.so.12"), c)
			gcc(t, "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", filepath.Join(dir, "libggml-x.so"), c,
				filepath.Join(src, "libcublas.so.12"))
		}, none, false, []Finding{{About: "library", Status: Missing, Says: "libggml-x.so needs libcublas.so.12, which is " +
			"not here. [on Debian and Ubuntu: apt-get install libcublas12, or take the full bundle of this release, which " +
			"has them inside]"}}},
		"a loader that is not here": {false, func(t *testing.T, dir string) {
			main := put(t, filepath.Join(t.TempDir(), "main.c"), "int main(void) { return 0; }\n", 0o644)
			gcc(t, "-o", filepath.Join(dir, "llama-cli"), "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1", main)
		}, none, false, []Finding{{
			About: "loader", Status: Missing,
			Says: "llama-cli asks for the loader /lib/ld-musl-x86_64.so.1",
		}}},
		"another processor": {false, func(t *testing.T, dir string) {
			file := filepath.Join(dir, "llama-server")
			data, err := os.ReadFile(file)
			must(t, err)
			data[18] = 183 // EM_AARCH64
			must(t, os.WriteFile(file, data, 0o755))
		}, none, false, []Finding{{
			About: "machine", Status: Missing,
			Says: "It is for EM_AARCH64, and this machine is EM_X86_64",
		}}},
		"a broken program": {false, func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, "libggml.so.0.1"), 3000))
		}, none, false, []Finding{{About: "bundle", Status: Missing, Says: "libggml.so.0.1 cannot be read"}}},
		"no card": {true, nil, none, false, []Finding{{
			About: "card", Status: Missing,
			Says: "It is for NVIDIA cards and would use the processor alone: there is no NVIDIA driver",
		}}},
		"a card and driver that serve": {true, nil, func(t *testing.T) []string {
			return smi(t, "RTX 4090", "470.1", "8.9")
		}, true, []Finding{
			{About: "card", Status: OK, Says: "libggml-cuda.so runs on card 0, RTX 4090, of compute capability 8.9, by sm_86"},
			{About: "driver", Status: OK, Says: "libggml-cuda.so needs driver 450.80.02 or later, and card 0 has 470.1"},
		}},
		"a card that needs its PTX compiled": {true, nil, func(t *testing.T) []string {
			return smi(t, "H100", "470.1", "9.0")
		}, false, []Finding{
			{About: "card", Status: OK, Says: "of compute capability 9.0, by compute_86"},
			{About: "driver", Status: Missing, Says: "libggml-cuda.so needs driver 520.61.05 or later (PTX 7.8"},
		}},
		"a card of tomorrow": {true, nil, func(t *testing.T) []string {
			return smi(t, "B999", "700.1", "15.0")
		}, true, []Finding{
			{About: "card", Status: OK, Says: "of compute capability 15.0, by PTX"},
		}},
		"an old card": {true, nil, func(t *testing.T) []string {
			return smi(t, "GTX 1080", "580.1", "6.1")
		}, false, []Finding{{
			About: "card", Status: Missing,
			Says: "libggml-cuda.so holds nothing for card 0, GTX 1080, of compute capability 6.1",
		}}},
		"an old driver": {true, nil, func(t *testing.T) []string {
			return smi(t, "RTX 3060", "440.1", "8.6")
		}, false, []Finding{{
			About: "driver", Status: Missing,
			Says: "needs driver 450.80.02 or later (any CUDA 11 runtime",
		}}},
		"a driver that does not tell": {true, nil, func(t *testing.T) []string {
			return smi(t, "RTX 3060", "470.1", "[N/A]")
		}, true, []Finding{
			{About: "card", Status: Unknown, Says: "whether libggml-cuda.so runs on it is not known"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := makeBundle(t, c.cuda)
			if c.spoil != nil {
				c.spoil(t, dir)
			}
			env := c.env(t)
			packed := filepath.Join(t.TempDir(), "llama-b1-llp1-bin-linux-cpu-x64.tar.gz")
			if out, err := exec.Command("tar", "-C", filepath.Dir(dir), "-czf", packed,
				filepath.Base(dir)).CombinedOutput(); err != nil {
				t.Fatalf("tar: %v\n%s", err, out)
			}
			// The folder and its archive are the same to a user.
			for _, file := range []string{dir, packed} {
				r, err := Bundle(t.Context(), env, spec.Advisories{}, file)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range c.want {
					if !has(r, w.Status, w.About, w.Says) {
						t.Errorf("nothing says %s %s: %q", w.Status, w.About, w.Says)
					}
				}
				if r.Able != c.able || (r.Err() == nil) != c.able {
					t.Errorf("able %v, %v; want %v", r.Able, r.Err(), c.able)
				}
				if t.Failed() {
					t.Fatal("\n" + r.Text())
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The glibc that a bundle needs is compared with the one that is here: a program is
// made to need a version of the future.
func TestNewerGlibc(t *testing.T) {
	t.Parallel()
	dir := makeBundle(t, false)
	for _, name := range []string{"libggml.so.0.1", "llama-server"} {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		must(t, err)
		data = bytes.ReplaceAll(data, []byte("GLIBC_2.2.5\x00"), []byte("GLIBC_2.995\x00"))
		must(t, os.WriteFile(file, data, 0o755))
	}
	r, err := Bundle(t.Context(), none(t), spec.Advisories{}, dir)
	must(t, err)
	if !has(r, Missing, "libc.so.6", "needs glibc 2.995") || !has(r, Missing, "libc.so.6", "and this machine has 2.") ||
		r.Able {
		t.Errorf("\n%s", r.Text())
	}
}

// A program alone is judged with the libraries that lie beside it.
func TestFile(t *testing.T) {
	t.Parallel()
	dir := makeBundle(t, false)
	r, err := Bundle(t.Context(), none(t), spec.Advisories{}, filepath.Join(dir, "llama-server"))
	must(t, err)
	if r.Kind != KindFile || !r.Able || !has(r, OK, "bundle", "find one another") {
		t.Errorf("\n%s", r.Text())
	}
	must(t, os.Remove(filepath.Join(dir, "libggml.so.0")))
	if r, err = Bundle(t.Context(), none(t), spec.Advisories{}, filepath.Join(dir, "llama-server")); err != nil || r.Able {
		t.Errorf("%v\n%s", err, r.Text())
	}
	// A program of this machine needs nothing that is not here.
	self, err := os.Executable()
	must(t, err)
	for _, file := range []string{self, "/bin/ls"} {
		if r, err = Bundle(t.Context(), none(t), spec.Advisories{}, file); err != nil || !r.Able {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Parts are read as one archive, and one that is missing is named.
func TestParts(t *testing.T) {
	t.Parallel()
	dir := makeBundle(t, false)
	at := t.TempDir()
	whole := filepath.Join(at, "llama.tar.gz")
	if out, err := exec.Command("tar", "-C", filepath.Dir(dir), "-czf", whole,
		filepath.Base(dir)).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	data, err := os.ReadFile(whole)
	must(t, err)
	must(t, os.Remove(whole))
	size := len(data)/3 + 1
	part := func(n int) string { return fmt.Sprintf("%s.part%03d", whole, n) }
	for n := range 3 {
		must(t, os.WriteFile(part(n+1), data[n*size:min(len(data), (n+1)*size)], 0o644))
	}
	for n := range 3 {
		r, err := Bundle(t.Context(), none(t), spec.Advisories{}, part(n+1))
		if err != nil || !r.Able || !has(r, OK, "bundle", "Its 2 files") {
			t.Errorf("by part %d: %v", n+1, err)
		}
	}
	lacks := func(n int, say string) {
		t.Helper()
		_, err := Bundle(t.Context(), none(t), spec.Advisories{}, part(n))
		var bad *NotBundle
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), say) {
			t.Errorf("got %v, want %q", err, say)
		}
	}
	third, err := os.ReadFile(part(3))
	must(t, err)
	must(t, os.Remove(part(3)))
	lacks(1, "the archive ends too early; after part 2 there must be another")
	put(t, filepath.Join(at, "SHA256SUMS"), fmt.Sprintf("%064d  llama.tar.gz\n%064d  llama.tar.gz.part001\n%064d  "+
		"llama.tar.gz.part002\n%064d  llama.tar.gz.part003\n", 1, 2, 3, 4), 0o644)
	lacks(1, "llama.tar.gz.part003 is not beside it: all parts are needed")
	must(t, os.WriteFile(part(3), third, 0o644))
	must(t, os.Remove(part(2)))
	lacks(3, "llama.tar.gz.part002 is not beside it")
}

func TestNotBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pack := func(name string, headers ...tar.Header) string {
		var b bytes.Buffer
		gz := gzip.NewWriter(&b)
		tw := tar.NewWriter(gz)
		for _, h := range headers {
			must(t, tw.WriteHeader(&h))
			if h.Typeflag == tar.TypeReg {
				_, err := tw.Write(make([]byte, h.Size))
				must(t, err)
			}
		}
		must(t, errors.Join(tw.Close(), gz.Close()))
		return put(t, filepath.Join(dir, name), b.String(), 0o644)
	}
	whole := pack("empty.tar.gz")
	data, err := os.ReadFile(pack("full.tar.gz", tar.Header{
		Name: "a/b", Typeflag: tar.TypeReg, Size: 1 << 20,
		Mode: 0o644,
	}))
	must(t, err)
	for file, say := range map[string]string{
		whole: "holds no program and no library for Linux",
		put(t, filepath.Join(dir, "text"), "some text",
			0o644): "is neither a folder, a tar.gz, a part of one, nor a program",
		put(t, filepath.Join(dir, "short"), "x", 0o644): "is too short",
		put(t, filepath.Join(dir, "win.zip"), "PK\x03\x04",
			0o644): "is a zip, as bundles for Windows are",
		put(t, filepath.Join(dir, "cut.tar.gz"), string(data[:len(data)/2]), 0o644): "the archive ends too early",
		put(t, filepath.Join(dir, "sum.tar.gz"), string(data[:len(data)-8])+"12345678",
			0o644): "is not a tar.gz that can be read",
		put(t, filepath.Join(dir, "raw.gz"), "\x1f\x8b\x00garbage and more of it", 0o644): "is not a tar.gz that can be read",
		"/dev/null": "is neither a file nor a folder",
		t.TempDir(): "holds no program",
	} {
		_, err := Bundle(t.Context(), none(t), spec.Advisories{}, file)
		var bad *NotBundle
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: got %v, want %q", file, err, say)
		}
	}
	// Names and entries that no bundle has are said, and nothing is written outside.
	evil := pack("evil.tar.gz",
		tar.Header{Name: "../../evil", Typeflag: tar.TypeReg, Size: 8, Mode: 0o644},
		tar.Header{Name: "top/pipe", Typeflag: tar.TypeFifo, Mode: 0o644},
		tar.Header{Name: "top/link", Typeflag: tar.TypeSymlink, Linkname: "../../../etc", Mode: 0o777})
	h, err := func() (*held, error) {
		h := newHeld(KindBundle)
		return h, h.file(t.Context(), evil, nil)
	}()
	must(t, err)
	if got := strings.Join(h.faults, "\n"); got != "../../evil is a name out of the bundle\npipe is neither a file, a "+
		"folder nor a link\nlink is a link to ../../../etc, out of the bundle" {
		t.Errorf("faults:\n%s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Bundle(ctx, none(t), spec.Advisories{}, whole); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzArchive(f *testing.F) {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	if err := errors.Join(
		tw.WriteHeader(&tar.Header{Name: "top/a", Typeflag: tar.TypeSymlink, Linkname: "b"}),
		tw.WriteHeader(&tar.Header{Name: "top/b", Typeflag: tar.TypeReg, Size: 0, Mode: 0o644}),
		tw.Close(), gz.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHeld(KindBundle)
		if err := h.archive(t.Context(), "fuzz", bytes.NewReader(data)); err == nil {
			h.resolve()
		}
	})
}
