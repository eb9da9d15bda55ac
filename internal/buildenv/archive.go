package buildenv

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/therootcompany/xz"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/regular"
)

// BadArchive says that an archive or a wheel holds what none may hold. Nothing of its
// root is kept.
type BadArchive struct {
	Name, File, Entry, Fault string // Entry is empty where it is the whole
}

// Error names the archive, the entry and the fault.
func (e *BadArchive) Error() string {
	what := e.File
	if e.Entry != "" {
		what = fmt.Sprintf("%s: %q", e.File, e.Entry)
	}
	return fmt.Sprintf("buildenv %s: %s %s; its hash is the one that was asked for, so who names it is at fault, and "+
		"no root was made of it", e.Name, what, e.Fault)
}

// ExitCode is exit.Source.
func (e *BadArchive) ExitCode() int { return exit.Source }

// Bounds for what an archive may be. CUDA 11.4's have up to 1,500 entries; xz -9 takes
// 64 MiB for its dictionary.
const (
	maxEntries   = 100_000
	maxEntryName = 1024
	maxDict      = 128 << 20
)

// archives writes archives and wheels into one root. Everything goes through os.Root.
type archives struct {
	decl   Decl
	root   *os.Root
	left   int64             // bytes that may still be unpacked, of what is left out too
	bytes  int64             // of files written
	links  []string          // symbolic links made, of all archives
	pkg    Package           // the archive that is unpacked
	top    string            // the one folder in which all of an archive of NVIDIA's lies
	seen   map[string]bool   // entries of the archive
	linked map[string]string // its symbolic links, and where they lead
}

func (a *archives) fault(entry, format string, args ...any) error {
	return &BadArchive{Name: a.decl.Name, File: path.Base(a.pkg.File), Entry: entry, Fault: fmt.Sprintf(format, args...)}
}

// unpack writes one archive, whose hash has been checked.
func (a *archives) unpack(ctx context.Context, p Package, file string) error {
	a.pkg, a.top, a.seen, a.linked = p, "", map[string]bool{}, map[string]string{}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	switch path.Ext(p.File) {
	case ".xz", ".crate":
		err = a.tar(ctx, f)
	default:
		err = a.zip(ctx, f)
	}
	if err == nil {
		err = a.makeLinks()
	}
	switch {
	case err == nil, errors.As(err, new(*BadArchive)):
		return err
	case ctx.Err() != nil || isDisk(err):
		return fmt.Errorf("buildenv %s: unpack %s: %w", a.decl.Name, path.Base(p.File), err)
	}
	return a.fault("", "cannot be unpacked: %v", err)
}

// isDisk reports whether the disk is at fault for an error, and not what is unpacked.
func isDisk(err error) bool {
	is := func(cause error) bool { return errors.Is(err, cause) }
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, fs.ErrPermission}, is)
}

// misplaced is for an entry that cannot be written where it belongs.
func (a *archives) misplaced(entry string, err error) error {
	if isDisk(err) {
		return err
	}
	return a.fault(entry, "cannot be placed: %v", err)
}

func (a *archives) tar(ctx context.Context, f *os.File) error {
	var r io.Reader = regular.Until(ctx, f)
	var err error
	if path.Ext(a.pkg.File) == ".crate" {
		r, err = gzip.NewReader(r)
	} else {
		r, err = xz.NewReader(r, maxDict)
	}
	if err != nil {
		return err
	}
	t := tar.NewReader(&bounded{a: a, r: r})
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.entry(h.Name, h.FileInfo().Mode(), h.Linkname, h.Typeflag == tar.TypeLink, func() (io.ReadCloser, error) {
			return io.NopCloser(t), nil
		}); err != nil {
			return err
		}
	}
}

func (a *archives) zip(ctx context.Context, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(regular.UntilAt(ctx, f), st.Size())
	if err != nil {
		return err
	}
	for _, e := range z.File {
		open := func() (io.ReadCloser, error) {
			r, err := e.Open()
			return &bounded{a: a, r: r, c: r}, err
		}
		if err := a.entry(e.Name, e.Mode(), "", false, open); err != nil {
			return err
		}
	}
	return nil
}

// bounded ends what unpacks to more than the buildenv says.
type bounded struct {
	a *archives
	r io.Reader
	c io.Closer
}

// Close closes what there is to close.
func (b *bounded) Close() error { return b.c.Close() }

// Read reads from r.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.a.left -= int64(n); b.a.left < 0 {
		return 0, b.a.tooMuch()
	}
	return n, err
}

func (a *archives) tooMuch() error {
	return a.fault("", "and what came before it unpack to more than the %d MiB that env.toml allows (room-mib)",
		a.decl.RoomMiB)
}

// entry writes an entry, or refuses it.
func (a *archives) entry(name string, mode fs.FileMode, link string, hard bool,
	open func() (io.ReadCloser, error),
) error {
	inside := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if inside == "" || inside == "." {
		return nil
	}
	if len(a.seen) == maxEntries {
		return a.fault("", "has more than %d entries", maxEntries)
	}
	if len(name) > maxEntryName || path.Clean(inside) != inside || !fs.ValidPath(inside) ||
		strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || r == ':' || r < ' ' || r == 0x7f }) {
		return a.fault(name[:min(len(name), maxEntryName)], "is no path that an archive may have")
	}
	key := inside
	if a.pkg.Arch != linuxArchives {
		key = strings.ToLower(key) // Windows takes them for one
	}
	if a.seen[key] && !mode.IsDir() {
		return a.fault(name, "is in it twice")
	}
	a.seen[key] = true
	to, err := a.place(inside, mode.IsDir())
	if err != nil || to == "" || mode.IsDir() || a.decl.leaves(to) {
		return err
	}
	if err := a.root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return a.misplaced(name, err)
	}
	switch {
	case hard:
		link = path.Clean(link)
		from, err := a.place(link, false)
		if err != nil || !a.seen[link] {
			return a.fault(name, "is another name of %q, which is not in the archive before it", link)
		}
		if err := a.root.Link(from, to); err != nil {
			return a.misplaced(name, err)
		}
		return nil
	case mode&fs.ModeSymlink != 0 && link != "":
		a.linked[to] = link
		return nil
	case !mode.IsRegular():
		return a.fault(name, "is neither a file nor a folder (%s)", mode.Type())
	}
	r, err := open()
	if err != nil {
		return err
	}
	return errors.Join(a.write(name, to, mode, r), r.Close())
}

// place returns where an entry goes; "" is nowhere.
func (a *archives) place(inside string, dir bool) (string, error) {
	if a.decl.Redist == nil {
		return inside, nil
	}
	top, below, deeper := strings.Cut(inside, "/")
	switch {
	case !deeper && !dir, a.top != "" && a.top != top:
		return "", a.fault(inside, "is not below one folder, as all in an archive of NVIDIA's is")
	case !deeper:
		a.top = top
		return "", nil
	}
	a.top = top
	if a.pkg.Arch == windowsArchives {
		return path.Join("windows", a.pkg.Name, below), nil
	}
	first, rest, deeper := strings.Cut(below, "/")
	switch {
	case first == "lib": // where a toolkit that was installed has them
		return path.Join("lib64", rest), nil
	case !deeper && !dir: // the licence
		return path.Join("licenses", a.pkg.Name, first), nil
	}
	return below, nil
}

// write makes a file. Where another archive has made it already, it must be the same.
func (a *archives) write(name, to string, mode fs.FileMode, r io.Reader) error {
	f, err := a.root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode.Perm()|0o600)
	if errors.Is(err, fs.ErrExist) {
		return a.compare(name, to, r)
	}
	if err != nil {
		return a.misplaced(name, err)
	}
	// The holes of a sparse file are in none of the bytes that were unpacked.
	most := a.decl.RoomMiB<<20 - a.bytes
	n, err := io.Copy(f, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = a.tooMuch()
	}
	a.bytes += n
	return errors.Join(err, f.Chmod(mode.Perm()|0o600), f.Close())
}

func (a *archives) compare(name, to string, r io.Reader) error {
	other := a.fault(name, "and another archive before it have different files for %s", to)
	st, err := a.root.Lstat(to)
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(other, err)
	}
	f, err := a.root.Open(to)
	if err != nil {
		return err
	}
	got, have := sha256.New(), sha256.New()
	_, err = io.Copy(got, io.LimitReader(r, st.Size()+1))
	_, herr := io.Copy(have, f)
	if err := errors.Join(err, herr, f.Close()); err != nil {
		return err
	}
	if !bytes.Equal(got.Sum(nil), have.Sum(nil)) {
		return other
	}
	return nil
}

// makeLinks makes the symbolic links of an archive, when all its files are there: none
// of them is written through a link of its own archive.
func (a *archives) makeLinks() error {
	for _, to := range slices.Sorted(maps.Keys(a.linked)) {
		link := a.linked[to]
		if _, ok := regular.Inside(to, link); !ok {
			return a.fault(to, "is a link to %q, out of the root", link)
		}
		if there, err := a.root.Readlink(to); err == nil && there == link {
			continue
		}
		if err := a.root.Symlink(link, to); err != nil {
			return a.misplaced(to, err)
		}
		a.links = append(a.links, to)
	}
	return nil
}

// check looks at the whole root: what is promised is there, and no link, on whatever
// way, leads out of it.
func (a *archives) check() error {
	for _, to := range a.links {
		// os.Root follows links within it only; one to what is left out leads nowhere.
		if _, err := a.root.Stat(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &BadArchive{
				Name: a.decl.Name, File: "the root", Entry: to,
				Fault: fmt.Sprintf("is a link that does not stay in it: %v", err),
			}
		}
	}
	for _, name := range a.decl.Holds {
		if _, err := a.root.Stat(name); err != nil {
			return &BadArchive{Name: a.decl.Name, File: "the root", Fault: fmt.Sprintf("has no %s, which env.toml promises",
				name)}
		}
	}
	return nil
}
