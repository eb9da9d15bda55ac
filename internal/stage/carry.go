package stage

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// redistributable are the libraries for Linux that NVIDIA lets an application carry,
// without their versions: the CUDA Toolkit End User License Agreement, section 2.6
// (Attachment A), as it comes with CUDA 12.9.
var redistributable = []string{
	"libcudart.so", "libcublas.so", "libcublasLt.so", "libnvblas.so", "libcufft.so", "libcufftw.so",
	"libcusparse.so", "libcusolver.so", "libcurand.so", "libnvrtc.so", "libnvrtc-builtins.so",
}

// redistributableDLL are those for Windows, of the same list, whose files have a number for
// the bits and one for the version in their names: cudart64_110.dll is cudart.dll.
var redistributableDLL = []string{
	"cudart", "cublas", "cublaslt", "nvblas", "cufft", "cufftw", "cusparse", "cusolver", "curand", "nvrtc",
	"nvrtc-builtins",
}

var dllRE = regexp.MustCompile(`^([a-z-]+)64_[0-9]+\.dll$`)

// CanCarry reports whether a library is on the list of those that NVIDIA lets others
// pass on.
func CanCarry(lib string) bool {
	if m := dllRE.FindStringSubmatch(strings.ToLower(lib)); m != nil {
		return slices.Contains(redistributableDLL, m[1])
	}
	base, _, _ := strings.Cut(lib, ".so")
	return slices.Contains(redistributable, base+".so")
}

// carry copies into the staged folder to, whose files are names, the libraries that
// bundle.carry names and that one of the files, or of the libraries themselves,
// needs. They are looked for in dirs. A library that may not be passed on, one that
// is not there and one without its licence are a *binary.Rejected. It returns their
// names.
func carry(to string, names []string, b spec.Bundle, dirs []string) ([]string, error) {
	var carried []string
	var errs []error
	reject := func(lib, format string, args ...any) {
		errs = append(errs, &binary.Rejected{File: lib, Fault: fmt.Sprintf(format, args...)})
	}
	queue := slices.Clone(names)
	asked := map[string]bool{}
	inside := func(lib string) bool {
		return slices.ContainsFunc(queue, func(have string) bool { return sameLibrary(have, lib) })
	}
	for i := 0; i < len(queue); i++ {
		f, err := binary.Inspect(filepath.Join(to, queue[i]))
		if errors.Is(err, binary.ErrNotELF) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, lib := range f.Needed {
			if asked[lib] || inside(lib) || !Carries(b, lib) {
				continue
			}
			asked[lib] = true
			switch from := binary.LibrariesIn(dirs...).Find(lib, f.Machine); {
			case binary.FromDriver(lib):
				reject(lib, "belongs to the driver of the user's machine and is never part of a bundle; take it out of "+
					"bundle.carry")
			case !CanCarry(lib):
				reject(lib, "is not among the libraries that NVIDIA lets others pass on (CUDA EULA, Attachment A); take it out "+
					"of bundle.carry")
			case from == "":
				reject(lib, "a full bundle holds it, and it is in none of the folders that the build took libraries from (%s); "+
					"install it, or make the bundle with --bundle thin", strings.Join(dirs, ", "))
			default:
				terms, err := termsOf(from)
				if err != nil {
					return nil, err
				}
				if len(terms) == 0 {
					reject(lib, "its licence was not found beside %s, and has to go with it; make the bundle with --bundle thin", from)
					continue
				}
				if err := copyReal(from, filepath.Join(to, lib)); err != nil {
					return nil, fmt.Errorf("carry %s: %w", from, err)
				}
				carried = append(carried, lib)
				queue = append(queue, lib)
			}
		}
	}
	slices.Sort(carried)
	return carried, errors.Join(errs...)
}

// sameLibrary compares names as the loader does: Windows takes upper and lower case alike.
func sameLibrary(a, b string) bool {
	return a == b || isDLL(a) && strings.EqualFold(a, b)
}

func isDLL(name string) bool { return strings.EqualFold(filepath.Ext(name), ".dll") }

// Carries reports whether a library is one that a full bundle carries.
func Carries(b spec.Bundle, name string) bool {
	if isDLL(name) {
		name = strings.ToLower(name)
	}
	return slices.ContainsFunc(b.Carry, func(p string) bool {
		if isDLL(p) {
			p = strings.ToLower(p)
		}
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// copyReal copies what a name leads to.
func copyReal(from, to string) error {
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	return Copy(real, to)
}

// termsOf returns the licence of a library, which lies beside the file or beside a
// link that leads to it; nil: there is none.
func termsOf(lib string) ([]byte, error) {
	real, err := filepath.EvalSymlinks(lib)
	if err != nil {
		return nil, err
	}
	for _, file := range []string{real, lib} {
		if terms, err := licenceOf(file); err != nil || len(terms) > 0 {
			return terms, err
		}
	}
	return nil, nil
}

// Terms returns the licences of the libraries of a toolkit that a full bundle
// holds, by their names, from the folders that they were taken from.
func Terms(files []*binary.File, b spec.Bundle, dirs []string) (map[string][]byte, error) {
	terms := map[string][]byte{}
	for _, f := range files {
		if !Carries(b, f.Name) || !CanCarry(f.Name) {
			continue
		}
		from := binary.LibrariesIn(dirs...).Find(f.Name, f.Machine)
		if from == "" {
			return nil, &binary.Rejected{File: f.Name, Fault: "it was staged from one of " + strings.Join(dirs, ", ") +
				" and is there no more, nor is its licence"}
		}
		var err error
		if terms[f.Name], err = termsOf(from); err != nil {
			return nil, err
		}
	}
	return terms, nil
}

// licenceNames are what NVIDIA calls the terms in what it distributes: EULA.txt at the
// top of an installed toolkit, LICENSE in the archives of its parts.
var licenceNames = []string{"EULA.txt", "LICENSE", "LICENSE.txt", "License.txt"}

// maxLicence bounds what is taken for a licence; CUDA's have some 100 KiB.
const maxLicence = 4 << 20

// licenceOf returns the terms that lie beside a library: of the Debian or Python
// package that it belongs to, or in a folder above it. Nil: there are none.
func licenceOf(lib string) ([]byte, error) {
	for dir := filepath.Dir(lib); ; dir = filepath.Dir(dir) {
		rel, err := filepath.Rel(dir, lib)
		if err != nil {
			return nil, err
		}
		var names []string
		// The top of a system, which may be one of its own in a folder.
		system := isDir(filepath.Join(dir, "var/lib/dpkg/info"))
		if system {
			if names, err = debianLicence(dir, rel); err != nil {
				return nil, err
			}
		} else if isDir(filepath.Join(dir, "usr/share/doc")) {
			// A build root, which has no list of what belongs to which package.
			names, system = []string{filepath.Join(dir, "usr/share/doc", debianPackage(filepath.Base(lib)), "copyright")}, true
		} else if filepath.Dir(dir) != dir && filepath.Base(dir) != "usr" {
			if names, err = pythonLicence(dir, rel); err != nil {
				return nil, err
			}
			for _, name := range licenceNames {
				names = append(names, filepath.Join(dir, name))
			}
		}
		for _, name := range names {
			st, err := os.Stat(name)
			if err != nil || !st.Mode().IsRegular() || st.Size() == 0 || st.Size() > maxLicence {
				continue
			}
			return os.ReadFile(name)
		}
		if system || filepath.Dir(dir) == dir {
			return nil, nil
		}
	}
}

// debianLicence names the copyright file of the package that has a library.
func debianLicence(root, rel string) ([]string, error) {
	lists, err := fs.Glob(os.DirFS(root), "var/lib/dpkg/info/*.list")
	if err != nil {
		return nil, err
	}
	// /lib is a link to /usr/lib, and packages may name either.
	want := []string{"/" + filepath.ToSlash(rel), strings.TrimPrefix("/"+filepath.ToSlash(rel), "/usr"), "/usr/" +
		filepath.ToSlash(rel)}
	for _, list := range lists {
		has, err := hasLine(filepath.Join(root, list), func(line string) bool { return slices.Contains(want, line) })
		if err != nil {
			return nil, err
		}
		if has {
			name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(list), ".list"), ":")
			return []string{filepath.Join(root, "usr/share/doc", name, "copyright")}, nil
		}
	}
	return nil, nil
}

// debianPackage is the package of a shared library by its soname (Debian Policy, 8.1):
// libcublasLt.so.11 is in libcublaslt11.
func debianPackage(soname string) string {
	name, version, _ := strings.Cut(strings.ToLower(soname), ".so.")
	if name != "" && name[len(name)-1] >= '0' && name[len(name)-1] <= '9' {
		name += "-"
	}
	return name + version
}

// pythonLicence names the licence files of the Python package that has a library.
func pythonLicence(dir, rel string) ([]string, error) {
	records, err := fs.Glob(os.DirFS(dir), "*.dist-info/RECORD")
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		has, err := hasLine(filepath.Join(dir, record), func(line string) bool {
			return strings.HasPrefix(line, filepath.ToSlash(rel)+",")
		})
		if err != nil {
			return nil, err
		}
		if has {
			info := filepath.Join(dir, filepath.Dir(record))
			return []string{filepath.Join(info, "licenses/License.txt"), filepath.Join(info, "License.txt")}, nil
		}
	}
	return nil, nil
}

func hasLine(file string, is func(string) bool) (bool, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // removed in this moment
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if is(s.Text()) {
			return true, nil
		}
	}
	return false, s.Err()
}

func isDir(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}
