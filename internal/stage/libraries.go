package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// systemLibs are the folders that a loader on Linux looks into by itself or by the
// files that distributions and NVIDIA's driver put below /etc/ld.so.conf.d.
var systemLibs = []string{
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
}

// Libraries is where programs find the libraries of the toolkit that they were built with,
// which the system does not have.
type Libraries struct {
	HostEnv []string // environment for programs on a machine with no driver or card
	CardEnv []string // for those on a card
	How     []string // a line each
}

// CUDALibraries lets the programs that checks start find the CUDA libraries of the
// toolkit that built them, as a user's installed CUDA would give them. On a machine
// with no NVIDIA driver the toolkit's stub stands for libcuda.so.1: the backend is
// then opened and asked, and finds no device. dir is made anew.
func CUDALibraries(dir string, files []*binary.File, cuda build.CUDAFact) (l Libraries, err error) {
	if cuda.Version == "" {
		return l, nil
	}
	real, stub := filepath.Join(dir, "cuda"), filepath.Join(dir, "stub")
	l.CardEnv = []string{"LD_LIBRARY_PATH=" + real}
	l.HostEnv = []string{"LD_LIBRARY_PATH=" + real + ":" + stub}
	isCUDA := func(lib string) bool { return strings.HasPrefix(lib, "libcu") }
	l.How, err = gather(dir, real, stub, files, isCUDA, cuda.Libs, "the toolkit")
	return l, err
}

// HIPLibraries is CUDALibraries for HIP: whatever the files need that the system does not have
// is taken from the ROCm that built them.
func HIPLibraries(dir string, files []*binary.File, hip build.HIPFact) (l Libraries, err error) {
	if hip.Version == "" {
		return l, nil
	}
	l.HostEnv = []string{"LD_LIBRARY_PATH=" + dir}
	l.CardEnv = l.HostEnv
	l.How, err = gather(dir, dir, dir, files, func(string) bool { return true }, hip.Libs, "the ROCm that built it")
	return l, err
}

// gather makes the folder dir anew, with links in real to the libraries that files need, or
// one of the libraries themselves, and in stub to what stands for them. Those that take refuses,
// that are among the files or that the system has are left out; from are the toolkit's folders.
func gather(
	dir, real, stub string, files []*binary.File, take func(string) bool, from []string, kit string,
) (how []string, err error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(real, 0o755), os.MkdirAll(stub, 0o755)); err != nil {
		return nil, err
	}
	var names []string
	want := func(f *binary.File) {
		for _, n := range f.Needed {
			// LD_LIBRARY_PATH would come before what a full bundle has inside.
			inside := slices.ContainsFunc(files, func(f *binary.File) bool { return f.Name == n })
			if take(n) && !inside && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for _, f := range files {
		want(f)
	}
	for i := 0; i < len(names); i++ { // grows: cuBLAS needs cublasLt, hipBLAS rocBLAS
		name := names[i]
		if OnSystem(name) {
			continue
		}
		file, to := find(from, name), real
		if file == "" {
			base, _, _ := strings.Cut(name, ".so")
			file, to = find(stubs(from), base+".so"), stub
		}
		if file == "" {
			how = append(how, name+" is neither on this machine nor in "+kit)
			continue
		}
		f, err := binary.Inspect(file)
		if err != nil {
			return how, err
		}
		if f.SOName != "" && f.SOName != name {
			how = append(how, fmt.Sprintf("%s is not on this machine; the toolkit's %s is %s", name, file, f.SOName))
			continue
		}
		want(f)
		if err := os.Symlink(file, filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return how, err
		}
		if to == stub && stub != real {
			how = append(how, "the toolkit's stub stands for "+name)
		}
	}
	return how, nil
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

// LibraryDirs are the folders that a full bundle's libraries are taken from: those that the
// build in the folder dir linked with, below root where it is not empty; or every folder of
// root, where the recipe's bundle names it.
func LibraryDirs(dir, root string, b spec.Bundle) ([]string, error) {
	if root != "" && b.Libraries != "" {
		return foldersBelow(root)
	}
	dirs, err := build.LibraryDirs(dir)
	if root != "" {
		for i := range dirs {
			dirs[i] = filepath.Join(root, dirs[i])
		}
	}
	return dirs, err
}

// foldersBelow lists the folders of a root that hold files, in lexical order.
func foldersBelow(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if dir := filepath.Dir(p); err == nil && !d.IsDir() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return err
	})
	return dirs, err
}

// ownCUDA matches a backend for CUDA and what it needs of NVIDIA's: beside the
// simulated one it would be a second device, or be taken in its place.
var ownCUDA = regexp.MustCompile(`^(?:lib)?(?:ggml-cuda|cudart|cublas|cublaslt|cuda|nvcuda)(?:64_|[-.])`)

// WithoutCUDA returns the folder with the programs of stage for the simulated device:
// stage itself, or a copy in bin without its own CUDA. An older copy is gone.
func WithoutCUDA(stage, bin string) (string, error) {
	entries, err := os.ReadDir(stage)
	if err != nil {
		return "", err
	}
	own := func(e fs.DirEntry) bool { return ownCUDA.MatchString(strings.ToLower(e.Name())) }
	if !slices.ContainsFunc(entries, own) {
		return stage, os.RemoveAll(bin)
	}
	var keep []string
	for _, e := range entries {
		if !own(e) && !e.IsDir() {
			keep = append(keep, e.Name())
		}
	}
	return bin, fill(bin, stage, keep)
}
