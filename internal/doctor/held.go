package doctor

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/release"
)

// Bounds for files of others: upstream's largest bundles hold some hundred files, and a
// full one with CUDA some 2 GiB.
const (
	maxFiles = 10_000
	maxBytes = 16 << 30
)

// NotBundle is something that is neither a bundle nor a program.
type NotBundle struct {
	Path string
	Why  string
	cut  bool // an archive ends before its end
}

// Error names the file and what is wrong with it.
func (e *NotBundle) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Why) }

func notBundle(path, format string, args ...any) *NotBundle {
	return &NotBundle{Path: path, Why: fmt.Sprintf(format, args...)}
}

// held is what a bundle holds of programs and libraries, links among them under their
// own names, and what is wrong with it as a bundle.
type held struct {
	kind   string
	files  []*binary.File
	links  map[string]string
	names  map[string]bool // of every regular file
	faults []string
}

// read reads a folder, an archive, one of its parts, or a single file with what it
// needs from its own folder.
func read(ctx context.Context, file string, libs *binary.Libraries) (*held, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	h := &held{kind: KindBundle, links: map[string]string{}, names: map[string]bool{}}
	switch {
	case st.IsDir():
		err = h.folder(ctx, file)
	case !st.Mode().IsRegular():
		return nil, notBundle(file, "is neither a file nor a folder")
	default:
		if whole, ok := release.PartOf(file); ok {
			err = h.parts(ctx, file, whole)
		} else {
			err = h.file(ctx, file, libs)
		}
	}
	if err != nil {
		return nil, err
	}
	h.resolve()
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
		if n++; n > maxFiles {
			return notBundle(dir, "holds more than %d files: it is no bundle", maxFiles)
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || d.IsDir() {
			return err
		}
		name := filepath.ToSlash(rel)
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
		h.names[name] = true
		return h.inspect(ctx, name, p)
	})
}

// inspect takes a file in where it is a program or a library.
func (h *held) inspect(ctx context.Context, name, file string) error {
	f, err := binary.InspectContext(ctx, file)
	switch {
	case errors.Is(err, binary.ErrNotELF):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		h.fault("%s cannot be read: %v", name, errors.Unwrap(err))
		return nil
	}
	f.Name = name
	h.files = append(h.files, f)
	return nil
}

// link notes a link; one that leaves the bundle is a fault.
func (h *held) link(name, to string) {
	if path.IsAbs(to) || !filepath.IsLocal(path.Join(path.Dir(name), to)) {
		h.fault("%s is a link to %s, out of the bundle", name, to)
		return
	}
	h.links[name] = path.Join(path.Dir(name), to)
}

// resolve gives each link the file that it leads to.
func (h *held) resolve() {
	for name, to := range h.links {
		for range 10 {
			next, is := h.links[to]
			if !is {
				break
			}
			to = next
		}
		if !h.names[to] && !slices.ContainsFunc(h.files, func(f *binary.File) bool { return f.Name == to }) {
			h.fault("%s is a link to %s, which is not in the bundle", name, to)
			continue
		}
		if i := slices.IndexFunc(h.files, func(f *binary.File) bool { return f.Name == to }); i >= 0 {
			f := *h.files[i]
			f.Name = name
			h.files = append(h.files, &f)
		}
	}
	slices.Sort(h.faults)
	slices.SortFunc(h.files, func(a, b *binary.File) int { return strings.Compare(a.Name, b.Name) })
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
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return h.archive(ctx, name, f)
	case bytes.HasPrefix(magic, []byte("PK")):
		return notBundle(name, "is a zip, as bundles for Windows are; doctor judges those for Linux")
	}
	return notBundle(name, "is neither a folder, a tar.gz, a part of one, nor a program")
}

// single reads a program or library, and of its own folder what it needs and the
// system does not have.
func (h *held) single(ctx context.Context, name string, libs *binary.Libraries) error {
	dir := filepath.Dir(name)
	if err := h.inspect(ctx, filepath.Base(name), name); err != nil {
		return err
	}
	for i := 0; i < len(h.files); i++ {
		for _, lib := range h.files[i].Needed {
			if h.names[lib] || libs.Find(lib, h.files[0].Machine) != "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, lib)); err != nil {
				continue // nowhere
			}
			h.names[lib] = true
			if err := h.inspect(ctx, lib, filepath.Join(dir, lib)); err != nil {
				return err
			}
		}
	}
	return nil
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
	for _, part := range files {
		f, err := open(part)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		readers = append(readers, f)
	}
	err = h.archive(ctx, whole, io.MultiReader(readers...))
	if bad := new(NotBundle); errors.As(err, &bad) && bad.cut {
		return notBundle(name, "%s; after part %d there must be another", bad.Why, len(files))
	}
	return err
}

// namedParts are the parts of an archive that the SHA256SUMS beside it names.
func namedParts(whole string) ([]string, error) {
	f, err := open(filepath.Join(filepath.Dir(whole), "SHA256SUMS"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var names []string
	for s := bufio.NewScanner(f); s.Scan(); {
		_, name, _ := strings.Cut(s.Text(), "  ")
		if of, ok := release.PartOf(name); ok && of == filepath.Base(whole) {
			names = append(names, name)
		}
	}
	return names, nil
}

// archive reads a tar.gz, one file at a time.
func (h *held) archive(ctx context.Context, name string, r io.Reader) error {
	dir, err := os.MkdirTemp("", "llpatch-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	gz, err := gzip.NewReader(until{ctx, r})
	if err != nil {
		return unreadable(ctx, name, err)
	}
	limit := &io.LimitedReader{R: gz, N: maxBytes}
	tr := tar.NewReader(limit)
	var size int64 // a sparse file takes less of the archive than of the disk
	for n := 0; ; n++ {
		e, err := tr.Next()
		if errors.Is(err, io.EOF) {
			// The compressor's own check stands at the end.
			_, err = io.Copy(io.Discard, limit)
			return unreadable(ctx, name, err)
		}
		if err == nil && e.Size <= maxBytes {
			size += e.Size
		}
		if limit.N <= 0 || n > maxFiles || size > maxBytes || err == nil && e.Size > maxBytes {
			return notBundle(name, "holds more than any bundle does")
		}
		if err == nil {
			err = h.entry(ctx, e, until{ctx, tr}, filepath.Join(dir, "file"))
		}
		if err != nil {
			return unreadable(ctx, name, err)
		}
	}
}

// unreadable says what is wrong with an archive.
func unreadable(ctx context.Context, name string, err error) error {
	var disk *fs.PathError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &disk):
		return err // of this machine's own
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &NotBundle{Path: name, Why: "the archive ends too early", cut: true}
	}
	return notBundle(name, "is not a tar.gz that can be read: %v", err)
}

// entry takes one file of an archive in. Its top folder is the bundle. A program is
// laid into the file scratch to be read.
func (h *held) entry(ctx context.Context, e *tar.Header, r io.Reader, scratch string) error {
	if !filepath.IsLocal(filepath.FromSlash(e.Name)) {
		h.fault("%s is a name out of the bundle", e.Name)
		return nil
	}
	_, name, _ := strings.Cut(path.Clean(e.Name), "/")
	switch {
	case name == "" || e.Typeflag == tar.TypeDir:
		return nil
	case e.Typeflag == tar.TypeSymlink:
		h.link(name, e.Linkname)
		return nil
	case e.Typeflag != tar.TypeReg:
		h.fault("%s is neither a file, a folder nor a link", name)
		return nil
	}
	h.names[name] = true
	magic := make([]byte, len(elf.ELFMAG))
	switch n, err := io.ReadFull(r, magic); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && int64(n) == e.Size:
		return nil // a file of less than four bytes
	case err != nil:
		return err
	case string(magic) != elf.ELFMAG:
		return nil
	}
	out, err := os.Create(scratch)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.MultiReader(bytes.NewReader(magic), r))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return h.inspect(ctx, name, scratch)
}

// until reads as long as its context lives.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
