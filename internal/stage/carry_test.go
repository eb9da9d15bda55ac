package stage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// put writes a file and the folders above it.
func put(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// compile makes a shared library that needs others.
func compile(t *testing.T, file string, needs ...string) {
	t.Helper()
	src := put(t, filepath.Join(t.TempDir(), "a.c"), "int f(void) { return 1; }\n")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-shared", "-fPIC", "-nostdlib", "-o", file, "-Wl,-soname," + filepath.Base(file),
		"-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", src,
	}
	if out, err := exec.Command("gcc", append(args, needs...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
}

func TestLicenceOf(t *testing.T) {
	top := filepath.Join(t.TempDir(), "odd [name]")
	for name, lib := range map[string]string{
		"debian":         "deb/usr/lib/x86_64-linux-gnu/libcudart.so.11.8.89",
		"debian, merged": "merged/usr/lib/libcudart.so.12",
		"python":         "site/nvidia/cuda_runtime/lib/libcudart.so.12",
		"toolkit":        "opt/cuda/targets/x86_64-linux/lib/libcudart.so.12",
		"empty":          "empty/lib/libcudart.so.12",
		"another's":      "others/usr/lib/libcudart.so.12",
		"root":           "root/usr/lib/x86_64-linux-gnu/libcublasLt.so.11",
		"root, digit":    "root/usr/lib/libname7.so.2",
		"root, without":  "root/usr/lib/libcudart.so.11.0",
	} {
		put(t, filepath.Join(top, lib), name)
	}
	put(t, filepath.Join(top, "deb/var/lib/dpkg/info/libcudart11.0:amd64.list"),
		"/.\n/usr\n/usr/lib/x86_64-linux-gnu/libcudart.so.11.8.89\n")
	put(t, filepath.Join(top, "deb/usr/share/doc/libcudart11.0/copyright"), "debian")
	put(t, filepath.Join(top, "deb/usr/LICENSE"), "not this")
	put(t, filepath.Join(top, "merged/var/lib/dpkg/info/a.list"), "/lib/libcudart.so.12\n")
	put(t, filepath.Join(top, "merged/usr/share/doc/a/copyright"), "debian, merged")
	put(t, filepath.Join(top, "site/nvidia_cuda_runtime_cu12-12.9.79.dist-info/RECORD"),
		"nvidia/cuda_runtime/lib/libcudart.so.12,sha256=x,3\n")
	put(t, filepath.Join(top, "site/nvidia_cuda_runtime_cu12-12.9.79.dist-info/licenses/License.txt"), "python")
	put(t, filepath.Join(top, "site/numpy-1.dist-info/RECORD"), "numpy/core.so,sha256=x,3\n")
	put(t, filepath.Join(top, "site/numpy-1.dist-info/License.txt"), "not this")
	put(t, filepath.Join(top, "opt/cuda/EULA.txt"), "toolkit")
	put(t, filepath.Join(top, "empty/EULA.txt"), "")
	put(t, filepath.Join(top, "empty/var/lib/dpkg/info/a.list"), "/lib/libc.so.6\n")
	put(t, filepath.Join(top, "others/var/lib/dpkg/info/a.list"), "/lib/libc.so.6\n")
	put(t, filepath.Join(top, "others/usr/share/doc/a/copyright"), "not this")
	put(t, filepath.Join(top, "root/usr/share/doc/libcublaslt11/copyright"), "root")
	put(t, filepath.Join(top, "root/usr/share/doc/libname7-2/copyright"), "root, digit")
	put(t, filepath.Join(top, "root/EULA.txt"), "not this")
	put(t, filepath.Join(top, "EULA.txt"), "above a system of its own: not this")
	for lib, want := range map[string]string{
		"deb/usr/lib/x86_64-linux-gnu/libcudart.so.11.8.89": "debian",
		"merged/usr/lib/libcudart.so.12":                    "debian, merged",
		"site/nvidia/cuda_runtime/lib/libcudart.so.12":      "python",
		"opt/cuda/targets/x86_64-linux/lib/libcudart.so.12": "toolkit",
		"empty/lib/libcudart.so.12":                         "",
		"others/usr/lib/libcudart.so.12":                    "",
		"root/usr/lib/x86_64-linux-gnu/libcublasLt.so.11":   "root",
		"root/usr/lib/libname7.so.2":                        "root, digit",
		"root/usr/lib/libcudart.so.11.0":                    "",
	} {
		got, err := licenceOf(filepath.Join(top, lib))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", lib, got, err, want)
		}
	}
}

func TestCarry(t *testing.T) {
	kit := filepath.Join(t.TempDir(), "cuda")
	put(t, filepath.Join(kit, "EULA.txt"), "terms")
	lib := filepath.Join(kit, "lib64")
	compile(t, filepath.Join(lib, "libcuda.so.1"))
	compile(t, filepath.Join(lib, "libnccl.so.2"))
	compile(t, filepath.Join(lib, "libcublasLt.so.12"))
	compile(t, filepath.Join(lib, "libcublas.so.12"), filepath.Join(lib, "libcublasLt.so.12"))
	real := filepath.Join(lib, "libcublas.so.12.4.5")
	if err := os.Rename(filepath.Join(lib, "libcublas.so.12"), real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(real), filepath.Join(lib, "libcublas.so.12")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		needs []string
		carry []string
		dirs  []string
		want  string // names, or what the error says
	}{
		"with what it needs": {
			[]string{"libcublas.so.12"},
			[]string{"libcublas.so.*", "libcublasLt.so.*"},
			[]string{t.TempDir(), lib},
			"libcublas.so.12 libcublasLt.so.12",
		},
		"named only":     {[]string{"libcublas.so.12"}, []string{"libcublas.so.12"}, []string{lib}, "libcublas.so.12"},
		"nothing needed": {nil, []string{"lib*"}, []string{lib}, ""},
		"the driver's": {
			[]string{"libcuda.so.1"},
			[]string{"libcuda*"},
			[]string{lib},
			"libcuda.so.1: belongs to the driver of the user's machine",
		},
		"not on the list": {
			[]string{"libnccl.so.2"},
			[]string{"libnccl.so.2"},
			[]string{lib},
			"libnccl.so.2: is not among the libraries that NVIDIA lets others pass on",
		},
		"not there": {
			[]string{"libcublas.so.12"},
			[]string{"libcu*"},
			[]string{kit},
			"libcublas.so.12: a full bundle holds it, and it is in none of the folders",
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			var needs []string
			for _, n := range c.needs {
				needs = append(needs, filepath.Join(lib, n))
			}
			compile(t, filepath.Join(to, "libggml-cuda.so"), needs...)
			put(t, filepath.Join(to, "note"), "no ELF file")
			got, err := carry(to, []string{"libggml-cuda.so", "note"}, spec.Bundle{Carry: c.carry}, c.dirs)
			if err != nil {
				var r *binary.Rejected
				if !errors.As(err, &r) || !strings.Contains(err.Error(), c.want) || c.want == "" {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				return
			}
			var files []*binary.File
			for _, name := range got {
				if st, err := os.Lstat(filepath.Join(to, name)); err != nil || !st.Mode().IsRegular() {
					t.Errorf("%s: %v, %v", name, st, err)
				}
				f, err := binary.Inspect(filepath.Join(to, name))
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("carried %v, want %q", got, c.want)
			}
			cache := put(t, filepath.Join(t.TempDir(), "CMakeCache.txt"), "CUDA_cublas_LIBRARY:FILEPATH="+lib+
				"/stubs/libcublas.so\nOTHER:FILEPATH=/bin/true\n")
			dirs, err := LibraryDirs(filepath.Dir(cache), "", spec.Bundle{})
			if err != nil {
				t.Fatal(err)
			}
			terms, err := Terms(files, spec.Bundle{Runtime: spec.Full, Carry: c.carry}, dirs)
			if err != nil || len(terms) != len(got) {
				t.Errorf("%d licences for %v: %v", len(terms), got, err)
			}
			for name, text := range terms {
				if string(text) != "terms" {
					t.Errorf("%s: %q", name, text)
				}
			}
		})
	}
}

// A licence has at least a byte and at most maxLicence; what has not is passed over.
func TestLicenceSize(t *testing.T) {
	for size, taken := range map[int64]bool{0: false, 1: true, maxLicence: true, maxLicence + 1: false} {
		dir := t.TempDir()
		lib := put(t, filepath.Join(dir, "lib64", "libcudart.so.12"), "")
		if err := os.Truncate(put(t, filepath.Join(dir, "EULA.txt"), ""), size); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "LICENSE"), "the next one")
		got, err := licenceOf(lib)
		if err != nil || (int64(len(got)) == size) != taken || !taken && string(got) != "the next one" {
			t.Errorf("of %d bytes: %d, %v", size, len(got), err)
		}
	}
}
