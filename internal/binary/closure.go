package binary

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// driverLibraries are what NVIDIA's driver installs: no toolkit has them, and a
// bundle must not (CUDA Toolkit Release Notes, "CUDA Driver"; libcuda.so.1 of one
// driver does not work with the kernel module of another).
var driverLibraries = []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}

// FromDriver reports whether a library comes with NVIDIA's driver, and with nothing
// else.
func FromDriver(lib string) bool { return slices.Contains(driverLibraries, lib) }

// Roots returns the files that a bundle's user or its programs load by name:
// programs, and libraries that no other file of the bundle needs.
func Roots(files []*File) []*File {
	needed := map[string]bool{}
	for _, f := range files {
		for _, lib := range f.Needed {
			needed[lib] = true
		}
	}
	var roots []*File
	for _, f := range files {
		if len(f.Needed) > 0 && !needed[path.Base(f.Name)] && !needed[f.SOName] {
			roots = append(roots, f)
		}
	}
	return roots
}

// Unfound is a library that lies in a bundle and is not found by a file that needs it.
type Unfound struct {
	File    string
	Lib     string
	RunPath []string // the file's
}

// Error says what the file needs and where it looks.
func (u Unfound) Error() string {
	return fmt.Sprintf("needs %s of the bundle and does not find it: its RUNPATH is %q, and must lead there from $ORIGIN",
		u.Lib, strings.Join(u.RunPath, ":"))
}

// Unreachable says which libraries lie among the files and are still not found when
// one of the Roots is loaded, because the file that needs them has no search path
// that leads there: a RUNPATH holds for its own file only. It follows ld.so(8): a
// library that is loaded already is not looked for, and what a file needs itself is
// loaded before what its libraries need. Windows looks beside the program, whatever a file says:
// its files are left out.
func Unreachable(files []*File) []Unfound {
	files = slices.DeleteFunc(slices.Clone(files), func(f *File) bool { return f.PE != nil })
	byPath := map[string]*File{}
	inside := map[string]bool{}
	for _, f := range files {
		byPath[f.Name] = f
		inside[path.Base(f.Name)] = true
	}
	var lost []Unfound
	said := map[[2]string]bool{}
	roots, plugins := Roots(files), []*File{}
	roots = slices.DeleteFunc(roots, func(f *File) bool {
		if f.Exported("ggml_backend_init") {
			plugins = append(plugins, f)
			return true
		}
		return false
	})
	// A backend is loaded into a program that has ggml's libraries already; into which of them is the user's
	// choice, so what counts as there is what each has.
	var before map[string]bool
	for i, root := range slices.Concat(roots, plugins) {
		loaded := map[string]bool{path.Base(root.Name): true, root.SOName: true}
		if i >= len(roots) {
			maps.Copy(loaded, before)
		}
		queue := []*File{root}
		for i := 0; i < len(queue); i++ {
			f := queue[i]
			for _, lib := range f.Needed {
				if loaded[lib] {
					continue
				}
				loaded[lib] = true
				if g := f.search(lib, byPath); g != nil {
					loaded[g.SOName] = true
					queue = append(queue, g)
					continue
				}
				if key := [2]string{f.Name, lib}; inside[lib] && !said[key] {
					said[key] = true
					lost = append(lost, Unfound{f.Name, lib, f.RunPath})
				}
			}
		}
		switch {
		case i >= len(roots) || !loadsBackends(loaded, queue):
		case before == nil:
			before = loaded
		default:
			maps.DeleteFunc(before, func(lib string, _ bool) bool { return !loaded[lib] })
		}
	}
	return lost
}

// loadsBackends reports whether a program that has loaded these libraries, and these files of the bundle, has
// ggml, and so may load backends.
func loadsBackends(loaded map[string]bool, files []*File) bool {
	for lib := range loaded {
		if strings.HasPrefix(lib, "libggml") {
			return true
		}
	}
	return slices.ContainsFunc(files, func(f *File) bool { return f.Exported("ggml_backend_load_all") })
}

// search looks for a library along a file's own search path, below the bundle's top.
func (f *File) search(lib string, byPath map[string]*File) *File {
	for _, p := range f.RunPath {
		if below, ok := CutOrigin(p); ok {
			if g := byPath[path.Join(path.Dir(f.Name), below, lib)]; g != nil {
				return g
			}
		}
	}
	return nil
}
