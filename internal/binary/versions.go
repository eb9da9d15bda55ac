package binary

import (
	"cmp"
	"debug/elf"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Symbol is a symbol that a file imports or exports. One that is exported without a version
// serves whoever imports any.
type Symbol struct{ Name, Version string }

// String returns name@version, or the name.
func (s Symbol) String() string { return strings.TrimSuffix(s.Name+"@"+s.Version, "@") }

func (s Symbol) compare(t Symbol) int {
	return cmp.Or(strings.Compare(s.Name, t.Name), strings.Compare(s.Version, t.Version))
}

// Imports returns the symbols that an ELF file takes from others, weak ones aside, sorted.
func (out *File) Imports() []Symbol { return out.imports }

// Exports returns the symbols that others can use, sorted.
func (out *File) Exports() []Symbol { return out.exports }

// Names returns the names of symbols, without their versions.
func Names(symbols []Symbol) []string {
	var names []string
	for _, s := range symbols {
		names = append(names, s.Name)
	}
	return names
}

// ImportedVersion is a version of symbols that a library must have: without it the loader
// refuses the file that imports it, whatever its symbols are.
type ImportedVersion struct{ Lib, Version string }

// ImportedVersions returns the versions that the file demands of its libraries, weak ones
// aside.
func (out *File) ImportedVersions() []ImportedVersion { return out.importedVersions }

// OutsideVersions returns which versions of symbols the files import of each library that is
// not among them: of those that differ in a number the highest, and every other one.
func OutsideVersions(files []*File) map[string][]string {
	inside := map[string]bool{}
	for _, f := range files {
		inside[path.Base(f.Name)], inside[f.SOName] = true, true
	}
	out := map[string][]string{}
	for _, f := range files {
		for _, need := range f.importedVersions {
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

// ExportedVersions returns the names of the versions that the file's own symbols have.
func (out *File) ExportedVersions() []string { return out.exportedVersions }

// Highest returns the highest version of each symbol family, such as GLIBC or GLIBCXX,
// that the file exports.
func (out *File) Highest() map[string]string {
	highest := &File{Versions: map[string]string{}}
	for _, name := range out.exportedVersions {
		highest.raise(name)
	}
	return highest.Versions
}

// exportVersions notes which versions the file exports.
func (out *File) exportVersions(f *elf.File) error {
	if f.SectionByType(elf.SHT_GNU_VERDEF) == nil {
		return nil
	}
	defs, err := f.DynamicVersions()
	if err != nil {
		return fmt.Errorf("exported versions: %w", err)
	}
	for _, d := range defs {
		out.exportedVersions = append(out.exportedVersions, d.Name)
	}
	return nil
}

// ReadLibrary reads what a shared library exports and imports: symbols, versions,
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
