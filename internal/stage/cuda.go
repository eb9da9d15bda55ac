package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
)

// systemLibs are the folders that a loader on Linux looks into by itself or by the
// files that distributions and NVIDIA's driver put below /etc/ld.so.conf.d.
var systemLibs = []string{
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
}

// Libraries is where the libraries come from that a CUDA backend needs and the system
// does not have.
type Libraries struct {
	Host []string // environment for programs on a machine with no driver or card
	Card []string // for those on a card
	How  []string // a line each
}

// CUDALibraries lets the programs that checks start find the CUDA libraries of the
// toolkit that built them, as a user's installed CUDA would give them. On a machine
// with no NVIDIA driver the toolkit's stub stands for libcuda.so.1: the backend is
// then opened and asked, and finds no device. dir is made anew.
func CUDALibraries(dir string, needs []*binary.File, cuda build.CUDAFact) (Libraries, error) {
	var l Libraries
	if cuda.Version == "" {
		return l, nil
	}
	real, stub := filepath.Join(dir, "cuda"), filepath.Join(dir, "stub")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(real, 0o755), os.MkdirAll(stub, 0o755)); err != nil {
		return l, err
	}
	var names []string
	inside := func(n string) bool { // a full bundle's own; LD_LIBRARY_PATH would come before it
		return slices.ContainsFunc(needs, func(f *binary.File) bool { return f.Name == n })
	}
	want := func(f *binary.File) {
		for _, n := range f.Needed {
			if strings.HasPrefix(n, "libcu") && !slices.Contains(names, n) && !inside(n) {
				names = append(names, n)
			}
		}
	}
	for _, f := range needs {
		want(f)
	}
	for i := 0; i < len(names); i++ { // grows: cublas needs cublasLt
		name := names[i]
		if file := find(systemLibs, name); file != "" {
			continue
		}
		file, to := find(cuda.Libs, name), real
		if file == "" {
			base, _, _ := strings.Cut(name, ".so")
			file, to = find(stubs(cuda.Libs), base+".so"), stub
		}
		if file == "" {
			l.How = append(l.How, name+" is neither on this machine nor in the toolkit")
			continue
		}
		f, err := binary.Inspect(file)
		if err != nil {
			return l, err
		}
		if f.SOName != name {
			l.How = append(l.How, fmt.Sprintf("%s is not on this machine; the toolkit's %s is %s", name, file, f.SOName))
			continue
		}
		want(f)
		if err := os.Symlink(file, filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return l, err
		}
		if to == stub {
			l.How = append(l.How, "the toolkit's stub stands for "+name)
		}
	}
	l.Card = []string{"LD_LIBRARY_PATH=" + real}
	l.Host = []string{"LD_LIBRARY_PATH=" + real + ":" + stub}
	return l, nil
}

// OnSystem reports whether a loader finds a library by itself.
func OnSystem(lib string) bool { return find(systemLibs, lib) != "" }

func stubs(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return filepath.Base(d) != "stubs" })
}

func find(dirs []string, name string) string {
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
			return file
		}
	}
	return ""
}
