// Package stage lays out what a bundle will hold, so that what is checked is what is
// shipped: the programs that were built with the closure of their libraries, those that a
// full bundle carries and their licences, and the inventory of it all.
package stage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// closure returns the files of the folder bin that belong into a bundle: the
// programs, the files of made that the recipe's globs name, and every library
// of the folder that one of them needs, with the links that lead to it. Windows
// finds its libraries in upper and lower case alike, and its programs end in .exe.
// Whatever else an earlier build left there stays out.
func closure(bin string, made, programs, globs []string) ([]string, error) {
	var names []string
	anyCase := map[string]string{}
	for _, name := range made {
		anyCase[strings.ToLower(name)] = name
	}
	take := func(name string) error {
		for range 10 {
			if slices.Contains(names, name) {
				return nil
			}
			info, err := os.Lstat(filepath.Join(bin, name))
			if err != nil {
				return err
			}
			names = append(names, name)
			if info.Mode()&fs.ModeSymlink == 0 {
				return nil
			}
			to, err := os.Readlink(filepath.Join(bin, name))
			if err != nil {
				return err
			}
			if !regular.Beside(to) {
				return &binary.Rejected{File: filepath.Join(bin, name), Fault: fmt.Sprintf("is a link to %s, out of its folder",
					to)}
			}
			name = to
		}
		return fmt.Errorf("%s: too many links", filepath.Join(bin, name))
	}
	for _, p := range programs {
		if exe := p + ".exe"; slices.Contains(made, exe) {
			p = exe
		}
		if err := take(p); err != nil {
			return nil, fmt.Errorf("program %s was not built: %w", p, err)
		}
	}
	for _, g := range globs {
		found := false
		for _, name := range made {
			ok, err := path.Match(g, name)
			if err != nil {
				return nil, fmt.Errorf("bundle.files %q: %w", g, err)
			}
			if ok {
				found = true
				if err := take(name); err != nil {
					return nil, err
				}
			}
		}
		if !found {
			return nil, &spec.Error{File: "bundle.files", Msg: fmt.Sprintf("%q matches nothing that was built in %s", g, bin)}
		}
	}
	// names grows while it is walked: a library may need another.
	for i := 0; i < len(names); i++ {
		f, err := binary.Inspect(filepath.Join(bin, names[i]))
		if errors.Is(err, binary.ErrNotELF) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, lib := range f.Needed {
			if f.PE != nil {
				lib = cmp.Or(anyCase[strings.ToLower(lib)], lib)
			}
			if _, err := os.Lstat(filepath.Join(bin, lib)); err != nil {
				continue // from the system; verify decides whether it may be
			}
			if err := take(lib); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Lay lays out the bundle's programs and libraries in the new folder to, those of the
// toolkit too in a full one, and verifies them there. libs is the root that those are taken
// from; empty: this machine. It returns what the binaries say of themselves.
func Lay(art build.Artifacts, to string, rec spec.Recipe, libs string) ([]*binary.File, error) {
	bin := filepath.Join(art.Dir, "bin")
	var made []string
	for _, f := range art.Files {
		made = append(made, path.Base(f.Path))
	}
	names, err := closure(bin, made, rec.Programs, rec.Bundle.Files)
	if err != nil {
		return nil, err
	}
	if err := fill(to, bin, names); err != nil {
		return nil, err
	}
	if rec.Bundle.Runtime == spec.Full {
		dirs, err := LibraryDirs(art.Dir, libs, rec.Bundle)
		if err != nil {
			return nil, err
		}
		carried, err := carry(to, names, rec.Bundle, dirs)
		if err != nil {
			return nil, err
		}
		names = append(names, carried...)
		if rec.Verify.PE == nil {
			rec.Verify.Needed = slices.Concat(rec.Verify.Needed, glibc)
		}
	}
	return binary.Verify(to, names, rec.Verify)
}

// LayDropIn is Lay for the one library that goes beside the programs of another package.
func LayDropIn(art build.Artifacts, to, name string, v spec.Verify) ([]*binary.File, error) {
	if err := fill(to, filepath.Join(art.Dir, "bin"), []string{name}); err != nil {
		return nil, err
	}
	v.Needed = append(slices.Clone(v.Needed), "libggml-base.so*", "ggml-base.dll") // the package's own
	return binary.Verify(to, []string{name}, v)
}

// fill makes the folder to anew, with copies of the named files of bin.
func fill(to, bin string, names []string) error {
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		return err
	}
	for _, name := range names {
		if err := Copy(filepath.Join(bin, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("stage %s: %w", name, err)
		}
	}
	return nil
}

// glibc are the libraries of the system that NVIDIA's need, whatever the recipe's own
// programs do: the C library's parts, and the compiler's run time.
var glibc = []string{
	"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
	"librt.so.1",
	"libgcc_s.so.1", "libstdc++.so.6",
}

// Copy copies a file or a link; a file keeps only whether it is executable.
func Copy(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	// A strict umask must not take the right to execute away.
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// Inventory lists every entry of a staged folder but those at its top that skip names: its
// kind, whether it is executable, and its content's SHA-256 or where its link leads.
// Whatever differs from one packing to the next shows in it.
func Inventory(top string, skip func(name string) bool) (map[string]string, error) {
	m := map[string]string{}
	err := fs.WalkDir(os.DirFS(top), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		p := filepath.Join(top, name)
		if first, _, _ := strings.Cut(name, "/"); skip(first) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			m[name] = "link to " + to
			return err
		case !info.Mode().IsRegular():
			m[name] = info.Mode().Type().String()
			return nil
		}
		sum, err := build.SumFile(p)
		m[name] = fmt.Sprintf("%s executable=%v", sum, info.Mode()&0o111 != 0)
		return err
	})
	return m, err
}

// Sum is the SHA-256 that an entry of an inventory names, and false where it is no file.
func Sum(entry string) (sum string, file bool) {
	sum, _, file = strings.Cut(entry, " executable=")
	return sum, file
}

// Licenses are the paths of a tree that the patterns of bundle.licenses name.
func Licenses(tree *source.Tree, patterns []string) ([]string, error) {
	var names []string
	for _, e := range tree.Files() {
		for _, p := range patterns {
			ok, err := doublestar.Match(p, e.Path)
			if err != nil {
				return nil, fmt.Errorf("bundle.licenses %q: %w", p, err)
			}
			if ok {
				names = append(names, e.Path)
				break
			}
		}
	}
	return names, nil
}
