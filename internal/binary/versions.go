package binary

import (
	"debug/elf"
	"fmt"
	"path/filepath"
)

// VersionNeed is a version of symbols that a library must have: without it the loader
// refuses the file that needs it, whatever its symbols are.
type VersionNeed struct{ Lib, Version string }

// VersionNeeds returns the versions that the file demands of its libraries, weak ones
// aside.
func (out *File) VersionNeeds() []VersionNeed { return out.needs }

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
