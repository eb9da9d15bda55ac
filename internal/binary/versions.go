package binary

import (
	"debug/elf"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// VersionNeed is a version of symbols that a library must have: without it the loader
// refuses the file that needs it, whatever its symbols are.
type VersionNeed struct{ Lib, Version string }

// VersionNeeds returns the versions that the file demands of its libraries, weak ones
// aside.
func (out *File) VersionNeeds() []VersionNeed { return out.needs }

// Demands returns which versions of symbols the files demand of each library that is not
// among them: of those that differ in a number the highest, and every other one.
func Demands(files []*File) map[string][]string {
	inside := map[string]bool{}
	for _, f := range files {
		inside[path.Base(f.Name)], inside[f.SOName] = true, true
	}
	out := map[string][]string{}
	for _, f := range files {
		for _, need := range f.needs {
			if !inside[need.Lib] {
				out[need.Lib] = demand(out[need.Lib], need.Version)
			}
		}
	}
	for _, versions := range out {
		slices.Sort(versions)
	}
	return out
}

// demand adds a version to a list, where no higher one of its family is there.
func demand(list []string, version string) []string {
	family := func(v string) (name, number string) {
		if i := strings.LastIndexByte(v, '_'); i >= 0 && !Less(v[i+1:], "0") {
			return v[:i], v[i+1:]
		}
		return v, ""
	}
	name, number := family(version)
	for i, have := range list {
		if n, is := family(have); n == name {
			if Less(is, number) {
				list[i] = version
			}
			return list
		}
	}
	return append(list, version)
}

// VersionDefs returns the names of the versions that the file's own symbols have.
func (out *File) VersionDefs() []string { return out.defines }

// Highest returns the highest version of each symbol family, such as GLIBC or GLIBCXX,
// that the file defines.
func (out *File) Highest() map[string]string {
	highest := &File{Versions: map[string]string{}}
	for _, name := range out.defines {
		highest.raise(name)
	}
	return highest.Versions
}

// Takes returns the symbols that the file takes from others, weak ones aside: name, or
// name@version.
func (out *File) Takes() []string { return out.takes }

// Gives returns the symbols that others can use: name@version, or name@ for one without
// a version, which serves whoever asks for any.
func (out *File) Gives() []string { return out.gives }

// definitions notes which versions the file defines.
func (out *File) definitions(f *elf.File) error {
	if f.SectionByType(elf.SHT_GNU_VERDEF) == nil {
		return nil
	}
	defs, err := f.DynamicVersions()
	if err != nil {
		return fmt.Errorf("defined versions: %w", err)
	}
	for _, d := range defs {
		out.defines = append(out.defines, d.Name)
	}
	return nil
}

// ReadLibrary reads what a shared library gives to others and needs: symbols, versions,
// libraries. It reads less than Inspect does. Errors name the file.
func ReadLibrary(path string) (out *File, err error) {
	defer func() { // as in Read
		if p := recover(); p != nil {
			err = fmt.Errorf("symbols of %s: malformed ELF file: %v", path, p)
		}
	}()
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("symbols of %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	out = &File{Name: filepath.Base(path), Machine: f.Machine.String(), Versions: map[string]string{}}
	if err := out.dynamic(f); err != nil {
		return nil, fmt.Errorf("symbols of %s: %w", path, err)
	}
	return out, nil
}
