package buildenv

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/llpatch/llpatch/internal/exit"
)

// over is what packages of other suites have laid over a root.
type over struct {
	pkg   string            // the package at hand
	suite string            // that it is of; empty: the root's own
	laid  map[string]string // path in the root -> the package of another suite that brought it there
}

// lay notes a file of the package at hand. The error is an *Unfit where the root has it already: what is
// built in the root is held to what the root's own packages have.
func (o *over) lay(name string, there bool) error {
	switch {
	case o.suite == "":
		return nil
	case there:
		return &Unfit{Package: o.pkg, Suite: o.suite, File: name}
	case o.laid == nil:
		o.laid = map[string]string{}
	}
	o.laid[name] = o.pkg
	return nil
}

// Unfit is a file of another suite's package that must not be in the root, or cannot run there.
type Unfit struct {
	Package string
	Suite   string // that Package is of
	File    string // path in the root
	Version string // of symbols that File needs, such as GLIBC_2.36; empty: the root has File already
	Library string // of the root, which has no such version: libc.so.6
}

// Error names the file, what it needs, and the ways out.
func (e *Unfit) Error() string {
	if e.Version == "" {
		return fmt.Sprintf("package %s of %s would replace %s, which the root has of its own; leave the package out, or "+
			"the file by exclude", e.Package, e.Suite, e.File)
	}
	return fmt.Sprintf("package %s of %s is too new for the root: %s needs %s, which the root's %s does not have; take the "+
		"package of an older suite or, where no build runs or links the file, leave it out by exclude", e.Package, e.Suite,
		e.File, e.Version, e.Library)
}

// ExitCode is exit.Declaration.
func (e *Unfit) ExitCode() int { return exit.Declaration }

// fits looks at every program and shared library that was laid over the root, as the loader
// does: a version of symbols that it needs of one of the root's libraries must be there. Libraries
// that the root lacks do not count, since packages are unpacked whatever they depend on. The error
// is an *Unfit.
func (u *unpacker) fits() error {
	have := map[library][]string{} // the versions that the root's own has
	for _, name := range slices.Sorted(maps.Keys(u.laid)) {
		pkg := u.laid[name]
		machine, needs, err := u.needs(name)
		if err != nil {
			return fmt.Errorf("buildenv %s: package %s: %s: %w", u.decl.Name, pkg, name, err)
		}
		for _, need := range needs {
			lib := library{need.Name, machine}
			if _, known := have[lib]; !known {
				if have[lib], err = u.versions(lib); err != nil {
					return fmt.Errorf("buildenv %s: %s: %w", u.decl.Name, need.Name, err)
				}
			}
			for _, v := range need.Needs {
				if len(have[lib]) > 0 && v.Flags&elf.VER_FLG_WEAK == 0 && !slices.Contains(have[lib], v.Dep) {
					e := &Unfit{pkg, u.decl.suiteOf(pkg), name, v.Dep, need.Name}
					return fmt.Errorf("buildenv %s: %w", u.decl.Name, e)
				}
			}
		}
	}
	return nil
}

// library is what the loader looks for: a name, for one kind of machine.
type library struct {
	name    string
	machine elf.Machine
}

// open opens a file of the root as ELF; nil where it is something else.
func (u *unpacker) open(name string) (*os.File, *elf.File, error) {
	f, err := u.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != elf.ELFMAG {
		return nil, nil, f.Close()
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, e, nil
}

// needs returns which versions of symbols a file of the root needs, by library.
func (u *unpacker) needs(name string) (elf.Machine, []elf.DynamicVersionNeed, error) {
	if st, err := u.root.Lstat(name); err != nil || !st.Mode().IsRegular() {
		return 0, nil, err
	}
	f, e, err := u.open(name)
	if e == nil {
		return 0, nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	if e.SectionByType(elf.SHT_GNU_VERNEED) == nil {
		return 0, nil, nil
	}
	needs, err := e.DynamicVersionNeeds()
	return e.Machine, needs, err
}

// versions returns the versions of symbols that a library of the root's own packages has; none
// where there is no such library.
func (u *unpacker) versions(lib library) (all []string, err error) {
	if path.Base(lib.name) != lib.name {
		return nil, nil
	}
	dirs, err := fs.Glob(u.root.FS(), "usr/lib/*-linux-gnu*")
	for _, dir := range append(dirs, "usr/lib", "usr/lib64") {
		name := path.Join(dir, lib.name)
		if _, not := u.root.Stat(name); not != nil || u.laid[name] != "" {
			continue
		}
		f, e, err := u.open(name)
		if e == nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it was read
		if e.Machine != lib.machine || e.SectionByType(elf.SHT_GNU_VERDEF) == nil {
			continue
		}
		defs, err := e.DynamicVersions()
		for _, d := range defs {
			all = append(all, d.Name)
		}
		return all, err
	}
	return nil, err
}
