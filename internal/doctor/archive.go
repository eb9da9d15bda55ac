package doctor

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/regular"
)

// archive reads a tar.gz, one file at a time. Of one in parts, starts is where the second
// and later ones begin; one too many is a surplus.
func (h *held) archive(ctx context.Context, name string, r io.Reader, starts ...int64) error {
	dir, err := os.MkdirTemp("", "llpatch-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	gz, err := newMembers(regular.Until(ctx, r), starts)
	if err != nil {
		return unreadable(ctx, name, err)
	}
	var items []item
	err = bundle.ReadTar(ctx, gz, func(e *tar.Header, r io.Reader) error {
		return entry(ctx, &items, e, r, filepath.Join(dir, "file"))
	})
	if err == nil {
		gz.done = true
		_, err = bundle.Behind(gz)
	}
	if err != nil {
		return unreadable(ctx, name, err)
	}
	h.unpack(items)
	return nil
}

// unreadable says what is wrong with an archive.
func unreadable(ctx context.Context, name string, err error) error {
	var disk *fs.PathError
	var extra surplus
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &extra):
		return err
	case errors.As(err, &disk):
		return err // of this machine's own
	case errors.Is(err, bundle.ErrTooMuch):
		return notBundle(name, "holds more than any bundle does")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &NotBundle{Path: name, Why: "the archive ends too early", cut: true}
	}
	return notBundle(name, "is not a tar.gz that can be read: %v", err)
}

// item is an entry of an archive under its full name.
type item struct {
	name  string
	typ   byte
	to    string // of a link
	mode  fs.FileMode
	read  *held // what inspect made of it, nil for what is neither program nor library
	fault string
}

// entry takes one entry of an archive in. A program is laid into the file scratch to be
// read. Of two of one name the later one is what remains of both.
func entry(ctx context.Context, items *[]item, e *tar.Header, r io.Reader, scratch string) error {
	it := item{name: path.Clean(e.Name), typ: e.Typeflag, to: e.Linkname, mode: e.FileInfo().Mode()}
	switch {
	case !filepath.IsLocal(filepath.FromSlash(e.Name)):
		it.name, it.fault = "", e.Name+" is a name out of the bundle"
	case e.Typeflag == tar.TypeReg:
		var err error
		if it.read, err = readEntry(ctx, it.name, r, e.Size, scratch); err != nil {
			return err
		}
	}
	if it.name != "" && it.typ != tar.TypeDir {
		*items = slices.DeleteFunc(*items, func(o item) bool { return o.name == it.name })
	}
	*items = append(*items, it)
	return nil
}

func readEntry(ctx context.Context, name string, r io.Reader, size int64, scratch string) (*held, error) {
	magic := make([]byte, len(elf.ELFMAG))
	switch n, err := io.ReadFull(r, magic); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && int64(n) == size:
		return nil, nil // a file of less than four bytes
	case err != nil:
		return nil, err
	case path.Base(name) == bundle.InfoFile && size <= maxInfo:
		data, err := io.ReadAll(r)
		h := newHeld(KindBundle)
		h.info = append(magic, data...)
		return h, err
	case string(magic) != elf.ELFMAG:
		return nil, nil
	}
	out, err := os.Create(scratch)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(out, io.MultiReader(bytes.NewReader(magic), r))
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	h := newHeld(KindBundle)
	return h, h.inspect(ctx, name, scratch)
}

// top is the folder that all entries lie in, with a slash, and nothing where there is no
// such folder: then the archive itself is the bundle.
func top(items []item) string {
	dir := ""
	for _, it := range items {
		if it.name == "" || it.name == "." {
			continue
		}
		first, _, below := strings.Cut(it.name, "/")
		if !below && it.typ != tar.TypeDir || dir != "" && dir != first {
			return ""
		}
		dir = first
	}
	if dir == "" {
		return ""
	}
	return dir + "/"
}

// unpack takes in what an archive holds, below its top folder where it has one.
func (h *held) unpack(items []item) {
	dir := top(items)
	for _, it := range items {
		name := strings.TrimPrefix(it.name, dir)
		switch {
		case it.fault != "":
			h.fault("%s", it.fault)
		case it.name == "." || it.name+"/" == dir:
		case it.typ == tar.TypeDir:
			h.dirs[name] = true
		case it.typ == tar.TypeSymlink:
			h.link(name, it.to)
		case it.typ == tar.TypeLink:
			// A hard link names its file from the top of the archive.
			to, inside := strings.CutPrefix(path.Clean(it.to), dir)
			if !inside || !filepath.IsLocal(to) {
				h.fault("%s is a link to %s, out of the bundle", name, it.to)
				continue
			}
			if to != name {
				h.links[name] = to
			}
		case it.typ != tar.TypeReg:
			h.fault("%s is neither a file, a folder nor a link", name)
		default:
			h.names[name] = true
			h.modes[name] = it.mode
			if it.read == nil {
				continue
			}
			if name == bundle.InfoFile {
				h.info = it.read.info
			}
			for _, f := range it.read.files {
				f.Name = name
				h.files = append(h.files, f)
			}
			if len(it.read.others) > 0 {
				h.others = append(h.others, name)
			}
			for _, f := range it.read.faults {
				h.fault("%s", strings.TrimPrefix(f, dir))
			}
		}
	}
}
