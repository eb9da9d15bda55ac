package binary

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
)

// Rejected says that a built file is not what the recipe's [verify] asks for.
type Rejected struct {
	File  string
	Fault string
}

// Error names the file and the fault.
func (e *Rejected) Error() string { return fmt.Sprintf("%s: %s", e.File, e.Fault) }

// ExitCode is exit.Build.
func (e *Rejected) ExitCode() int { return exit.Build }

// Hint says what to do.
func (e *Rejected) Hint() string {
	return "the recipe's [verify], or the buildenv's, says what a binary may need"
}

// Verify inspects the files of a bundle, paths below dir, against a recipe's
// [verify]. Files that are neither ELF nor PE files are passed over, and without
// [verify.pe] so are PE files. A library that is needed must be among the files,
// where its search path finds it, or match a name in v.Needed. The error joins one
// *Rejected per fault.
func Verify(dir string, files []string, v spec.Verify) ([]*File, error) {
	var found []*File
	var errs []error
	inside := map[string]bool{}
	for _, name := range files {
		inside[path.Base(name)] = true
		f, err := Inspect(filepath.Join(dir, name))
		if errors.Is(err, ErrNotELF) {
			continue
		}
		if err != nil {
			errs = append(errs, &Rejected{File: name, Fault: err.Error()})
			continue
		}
		f.Name = name
		found = append(found, f)
	}
	for _, f := range found {
		if f.PE != nil {
			continue // verifyPE looks at all of them together
		}
		for _, fault := range f.faults(v, inside) {
			errs = append(errs, &Rejected{File: f.Name, Fault: fault})
		}
	}
	if v.PE != nil {
		errs = append(errs, verifyPE(found, v)...)
	}
	for _, u := range Unreachable(found) {
		errs = append(errs, &Rejected{File: u.File, Fault: u.Error()})
	}
	if v.CUDA != nil {
		errs = append(errs, verifyDevice(found, v.CUDA.Files, func(f *File) []string { return f.cudaFaults(*v.CUDA) })...)
	}
	if v.HIP != nil {
		errs = append(errs, verifyDevice(found, v.HIP.Files, func(f *File) []string { return f.hipFaults(v.HIP.Archs) })...)
	}
	return found, errors.Join(errs...)
}

// CutOrigin returns what follows the file's own folder in a search path, and whether the path
// begins there; ld.so knows two spellings (ld.so(8), "Dynamic string tokens").
func CutOrigin(p string) (below string, ok bool) {
	first, below, _ := strings.Cut(p, "/")
	return below, first == "$ORIGIN" || first == "${ORIGIN}"
}

func (f *File) faults(v spec.Verify, inside map[string]bool) []string {
	var faults []string
	if v.Machine != "" && f.Machine != v.Machine {
		faults = append(faults, fmt.Sprintf("is for %s, not for %s", f.Machine, v.Machine))
	}
	for _, limit := range []struct{ family, key, max string }{
		{"GLIBC", "glibc-max", v.GlibcMax}, {"GLIBCXX", "glibcxx-max", v.GlibcxxMax},
	} {
		if have := f.Versions[limit.family]; limit.max != "" && Less(limit.max, have) {
			faults = append(faults, fmt.Sprintf("needs %s_%s%s, above the %s that [verify] allows; build on an older system "+
				"or raise %s",
				limit.family, have, f.neededFor(limit.family), limit.max, limit.key))
		}
	}
	for _, p := range f.RunPath {
		switch _, own := CutOrigin(p); {
		case own:
		case p == "":
			// ld.so takes an empty entry for the folder in which the user happens to be.
			faults = append(faults, "looks for libraries in the current folder: its RUNPATH has an empty entry")
		default:
			faults = append(faults, fmt.Sprintf("looks for libraries in %s, a folder of the build machine", p))
		}
	}
	for _, lib := range f.Needed {
		allowed := slices.ContainsFunc(v.Needed, func(g string) bool {
			ok, err := path.Match(g, lib)
			return err == nil && ok
		})
		if !inside[lib] && !allowed {
			faults = append(faults, fmt.Sprintf("needs %s, which is neither in the bundle nor in the recipe's verify.needed",
				lib))
		}
	}
	return faults
}

// neededFor names the symbols that need the highest version of a family.
func (f *File) neededFor(family string) string {
	if names := f.VersionsBy[family]; len(names) > 0 {
		return " for " + strings.Join(names, ", ")
	}
	return ""
}

// Floor returns the highest version of a symbol family, such as GLIBC, that
// any of the files needs: what the user's system must have at least. It is
// empty where no file needs one.
func Floor(files []*File, family string) string {
	floor := ""
	for _, f := range files {
		if v := f.Versions[family]; v != "" && Less(floor, v) {
			floor = v
		}
	}
	return floor
}

// Outside returns the sorted names of the libraries that the files need and
// that are not among them.
func Outside(files []*File) []string {
	name := func(f *File, lib string) string {
		if f.PE != nil { // Windows' file names are the same in upper and lower case
			return strings.ToLower(lib)
		}
		return lib
	}
	inside := map[string]bool{}
	for _, f := range files {
		inside[name(f, path.Base(f.Name))] = true
	}
	var out []string
	for _, f := range files {
		for _, lib := range f.Needed {
			if lib = name(f, lib); !inside[lib] && !slices.Contains(out, lib) {
				out = append(out, lib)
			}
		}
	}
	slices.Sort(out)
	return out
}
