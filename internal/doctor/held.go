package doctor

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/regular"
)

// NotBundle is something that is neither a bundle nor a program.
type NotBundle struct {
	Path string
	Why  string
	cut  bool // an archive ends before its end
}

// Error names the file and what is wrong with it.
func (e *NotBundle) Error() string { return patch.Printable(e.Path + ": " + e.Why) }

// ExitCode is exit.Usage.
func (e *NotBundle) ExitCode() int { return exit.Usage }

// Hint says what to do.
func (e *NotBundle) Hint() string {
	return "llpatch doctor takes a target, a bundle (its folder, its tar.gz or a part of that), or a program"
}

func notBundle(path, format string, args ...any) *NotBundle {
	return &NotBundle{Path: path, Why: fmt.Sprintf(format, args...)}
}

// held is what a bundle holds of programs and libraries, links among them under their
// own names, and what is wrong with it as a bundle.
type held struct {
	kind   string
	files  []*binary.File
	links  map[string]string
	names  map[string]bool        // of every regular file
	modes  map[string]fs.FileMode // of programs and libraries
	others []string               // object files
	dirs   map[string]bool        // folders that may be empty
	faults []string

	info []byte // of its BUILD_INFO.json

	elsewhere  []string // folders of this machine that RUNPATHs name
	unfinished string   // the folder with a CMakeCache.txt that it lies in
}

func newHeld(kind string) *held {
	return &held{
		kind: kind, links: map[string]string{}, names: map[string]bool{}, modes: map[string]fs.FileMode{},
		dirs: map[string]bool{},
	}
}

// read reads a folder, an archive, one of its parts, or a single file with what it
// needs from its own folder.
func read(ctx context.Context, file string, libs *binary.Libraries) (*held, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	h := newHeld(KindBundle)
	switch {
	case st.IsDir():
		// A link to a folder is not walked into by itself.
		dir, e := filepath.EvalSymlinks(file)
		if e != nil {
			return nil, e
		}
		if err = h.folder(ctx, dir); err == nil {
			err = h.whole(dir)
		}
	case !st.Mode().IsRegular():
		return nil, notBundle(file, "is neither a file nor a folder")
	default:
		if whole, ok := bundle.PartOf(file); ok {
			err = h.parts(ctx, file, whole)
		} else {
			err = h.file(ctx, file, libs)
		}
	}
	if err != nil {
		return nil, err
	}
	h.linux()
	h.resolve()
	if len(h.files) == 0 && len(h.others) > 0 {
		return nil, notBundle(file, "holds object files (%s) alone, which are no programs: they are linked into one",
			h.others[0])
	}
	if len(h.files) == 0 && len(h.faults) > 0 {
		return nil, notBundle(file, "%s", strings.Join(h.faults, "; "))
	}
	if len(h.files) == 0 {
		return nil, notBundle(file, "holds no program and no library for Linux")
	}
	return h, nil
}

func (h *held) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// folder reads an unpacked bundle.
func (h *held) folder(ctx context.Context, dir string) error {
	n := 0
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > bundle.MaxEntries {
			return notBundle(dir, "holds more than %d files: it is no bundle", bundle.MaxEntries)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			h.dirs[name] = true
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			if err == nil {
				h.link(name, filepath.ToSlash(to))
			}
			return err
		}
		if !d.Type().IsRegular() {
			h.fault("%s is neither a file, a folder nor a link", name)
			return nil
		}
		if d.Name() == "CMakeCache.txt" {
			return notBundle(dir, "is or holds a folder to build in (%s), whether half or whole; a bundle is its archive, or "+
				"what that was packed from (stage/NAME where llpatch made it)", name)
		}
		h.names[name] = true
		st, err := d.Info()
		if err != nil {
			return err
		}
		h.modes[name] = st.Mode()
		return h.inspect(ctx, name, p)
	})
}

// whole looks for what an unpacked bundle should have: the files that its SHA256SUMS
// names. A folder without one may be anything, and in a folder to build in it may be half
// built.
func (h *held) whole(dir string) error {
	named, err := summed(filepath.Join(dir, bundle.SumsFile))
	if err != nil {
		return err
	}
	for _, name := range named {
		if !h.names[name] && h.links[name] == "" && filepath.IsLocal(name) {
			h.fault("%s is not there, and SHA256SUMS names it", name)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	for dir != filepath.Dir(dir) && h.unfinished == "" {
		if dir = filepath.Dir(dir); isThere(filepath.Join(dir, "CMakeCache.txt")) {
			h.unfinished = dir
		}
	}
	return nil
}

// summed are the names in a file as sha256sum writes it, none where it is not there.
func summed(file string) ([]string, error) {
	f, err := open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxInfo))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range bundle.Sums(text) {
		names = append(names, s.Name)
	}
	return names, nil
}

// maxInfo is more than any BUILD_INFO.json has.
const maxInfo = 16 << 20

// inspect takes a file in where it is a program or a library, or says how they were made.
func (h *held) inspect(ctx context.Context, name, file string) error {
	if name == bundle.InfoFile {
		f, err := open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		h.info, err = io.ReadAll(io.LimitReader(f, maxInfo))
		return err
	}
	f, err := binary.InspectContext(ctx, file)
	switch {
	case errors.Is(err, binary.ErrNotELF):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		h.fault("%s cannot be read: %s", name, cause(err))
		return nil
	case f.Type() == elf.ET_REL, f.Type() == elf.ET_CORE:
		h.others = append(h.others, name) // beside a program it harms nobody
		return nil
	}
	f.Name = name
	if f.Short() {
		h.fault("%s ends before what it wants loaded: it was cut", name)
	}
	h.files = append(h.files, f)
	return nil
}

// link notes a link; one that leaves the bundle is a fault.
func (h *held) link(name, to string) {
	where, ok := regular.Inside(name, to)
	if !ok {
		h.fault("%s is a link to %s, out of the bundle", name, to)
		return
	}
	h.links[name] = where
}

// file reads an archive, or a program.
func (h *held) file(ctx context.Context, name string, libs *binary.Libraries) error {
	f, err := open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return notBundle(name, "is too short to be a bundle or a program")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	switch {
	case string(magic) == elf.ELFMAG:
		h.kind = KindFile
		return h.single(ctx, name, libs)
	case foreign(ctx, name):
		h.kind = KindFile
		return h.take(ctx, filepath.Base(name), name)
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return h.archive(ctx, name, f)
	case bytes.HasPrefix(magic, []byte("PK")):
		return notBundle(name, "is a zip, as bundles for Windows are, and doctor judges those for Linux; unpack it: "+
			windowsBundle)
	}
	return notBundle(name, "is neither a folder, a tar.gz, a part of one, nor a program")
}

// foreign reports whether a file is a program or library for another system.
func foreign(ctx context.Context, name string) bool {
	f, err := binary.InspectContext(ctx, name)
	return err == nil && (f.PE != nil || f.MachO != nil || f.Wasm != nil)
}

// linux leaves out what lies beside programs for Linux and is for Apple's systems or WebAssembly, such as the parts
// of a web page.
func (h *held) linux() {
	isOther := func(f *binary.File) bool { return f.MachO != nil || f.Wasm != nil }
	if slices.ContainsFunc(h.files, func(f *binary.File) bool { return !isOther(f) }) {
		h.files = slices.DeleteFunc(h.files, isOther)
	}
}

// parts reads the archive whole that the part name belongs to, from all of its parts.
func (h *held) parts(ctx context.Context, name, whole string) error {
	named, err := namedParts(whole)
	if err != nil {
		return err
	}
	var readers []io.Reader
	var files []string
	for n := 1; n <= 999; n++ {
		part := fmt.Sprintf("%s.part%03d", whole, n)
		if !isThere(part) {
			break
		}
		files = append(files, part)
	}
	for _, p := range append(named, name) {
		if !slices.Contains(files, filepath.Join(filepath.Dir(whole), filepath.Base(p))) {
			missing := fmt.Sprintf("%s.part%03d", filepath.Base(whole), len(files)+1)
			return notBundle(name, "%s is not beside it: all parts are needed", missing)
		}
	}
	var starts []int64
	size := int64(0)
	for i, part := range files {
		if len(named) > 0 && !slices.Contains(named, filepath.Base(part)) {
			return notBundle(name, "%s does not belong to it: SHA256SUMS does not name it", filepath.Base(part))
		}
		f, err := open(part)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if i > 0 {
			starts = append(starts, size)
		}
		size += st.Size()
		readers = append(readers, f)
	}
	err = h.archive(ctx, whole, io.MultiReader(readers...), starts...)
	if extra := surplus(0); errors.As(err, &extra) {
		return notBundle(name, "%s does not belong to it: the archive ends before", filepath.Base(files[extra]))
	}
	if bad := new(NotBundle); errors.As(err, &bad) && bad.cut {
		return notBundle(name, "%s; after part %d there must be another", bad.Why, len(files))
	}
	return err
}

// namedParts are the parts of an archive that the SHA256SUMS beside it names.
func namedParts(whole string) ([]string, error) {
	named, err := summed(filepath.Join(filepath.Dir(whole), bundle.SumsFile))
	return slices.DeleteFunc(named, func(name string) bool {
		of, ok := bundle.PartOf(name)
		return !ok || of != filepath.Base(whole)
	}), err
}
