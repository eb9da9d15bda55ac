package buildenv

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/llpatch/llpatch/internal/run"
)

// unpacker writes packages into one root. Everything goes through os.Root, so
// that no path and no link of a package leads out of it.
type unpacker struct {
	decl  Decl
	root  *os.Root
	dpkg  string // dpkg-deb
	bytes int64  // of files written
	gathering
	over
}

// What is there before any package: Debian's still name /bin and /lib, and every
// tool may look up who runs it.
var (
	layoutFolders = []string{
		"usr/bin", "usr/sbin", "usr/lib", "usr/lib32", "usr/lib64", "usr/libx32",
		"etc", "dev", "proc", "sys", "tmp", "root", "run", "var/tmp", "home",
	}
	layoutLinks = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} // to the same below usr
	layoutFiles = map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"etc/group":  "root:x:0:\nnogroup:x:65534:\n",
	}
)

func (u *unpacker) layout() error {
	for _, dir := range layoutFolders {
		if err := u.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range layoutLinks {
		if err := u.root.Symlink("usr/"+name, name); err != nil {
			return err
		}
	}
	for name, text := range layoutFiles {
		if err := u.root.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// links makes the declared ones; where a package has the path already, that is
// a fault of the declaration.
func (u *unpacker) links() error {
	gathered, err := u.gathering.links()
	if err != nil {
		return fmt.Errorf("buildenv %s: %w", u.decl.Name, err)
	}
	return errors.Join(u.make(gathered), u.make(u.decl.Links))
}

func (u *unpacker) make(links map[string]string) error {
	for _, from := range slices.Sorted(maps.Keys(links)) {
		to := links[from]
		name := strings.TrimPrefix(from, "/")
		if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := u.root.Symlink(to, name); err != nil {
			return fmt.Errorf("buildenv %s: link %s: %w", u.decl.Name, from, err)
		}
	}
	return nil
}

// unpack writes the files of one .deb.
func (u *unpacker) unpack(ctx context.Context, p Package, file string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u.alone = slices.Contains(u.decl.alone(), p.Name)
	u.pkg, u.suite = p.Name, u.decl.suiteOf(p.Name)
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run.Run(ctx, run.Cmd{
			Argv: []string{u.dpkg, "--fsys-tarfile", file}, Env: []string{"PATH=" + hostPath, "LC_ALL=C"}, Stdout: w,
			Stderr: io.Discard,
		})
		w.CloseWithError(err) // nil is the end of the archive
		ended <- err
	}()
	err := u.files(tar.NewReader(r))
	if err == nil {
		_, err = io.Copy(io.Discard, r) // what stands after the end of the archive
	}
	if err != nil {
		cancel()
		r.CloseWithError(err)
		<-ended //nolint:errcheck // it was stopped for err
		return fmt.Errorf("buildenv %s: unpack %s: %w", u.decl.Name, p.Name, err)
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("buildenv %s: unpack %s: %w", u.decl.Name, p.Name, err)
	}
	return nil
}

func (u *unpacker) files(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		if name == "." || u.decl.leaves(name) {
			continue
		}
		if err := u.entry(t, h, name); err != nil {
			return err
		}
	}
}

// leaves reports whether the declaration leaves a path out.
func (d Decl) leaves(name string) bool {
	is := func(g string) bool { return doublestar.MatchUnvalidated(g, name) }
	return slices.ContainsFunc(d.Exclude, is) && !slices.ContainsFunc(d.Keep, is)
}

func (u *unpacker) entry(t *tar.Reader, h *tar.Header, name string) error {
	mode := fs.FileMode(h.Mode).Perm() // never setuid: a root is for its maker alone
	if h.Typeflag == tar.TypeDir {
		return u.root.MkdirAll(name, mode|0o700)
	}
	// A folder may be left out, and a file in it kept.
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	there, err := u.root.Lstat(name)
	if err := u.lay(name, err == nil); err != nil {
		return err
	}
	if err == nil {
		if there.IsDir() {
			return fmt.Errorf("%s is a folder, and here it is none", name)
		}
		// As with dpkg, a package may replace a file of another one.
		if err := u.root.Remove(name); err != nil {
			return err
		}
	}
	u.note(name)
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|0o600)
		if err != nil {
			return err
		}
		n, err := io.Copy(f, t)
		u.bytes += n
		if err := errors.Join(err, f.Chmod(mode|0o600), f.Close()); err != nil {
			return err
		}
		return u.root.Chtimes(name, h.ModTime, h.ModTime)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		to := path.Clean(strings.TrimPrefix(h.Linkname, "/"))
		if u.decl.leaves(to) {
			return fmt.Errorf("%s is another name of %s, which is left out", name, to)
		}
		return u.root.Link(to, name)
	}
	return fmt.Errorf("%s is neither a file, a folder nor a link (type %q)", name, h.Typeflag)
}
