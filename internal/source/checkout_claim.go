package source

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/regular"
)

// ownMarker is a file in a folder of CheckoutOwn with the id that its index has
// as well: an index that stayed behind must not claim another folder.
const ownMarker = ".llpatch-checkout"

// notOwn is why a folder is nobody's to replace.
type notOwn string

// Error says why, and what to give instead.
func (e notOwn) Error() string { return string(e) + "; give a folder of its own" }

// ExitCode is exit.Usage.
func (notOwn) ExitCode() int { return exit.Usage }

// canonical is the one name under which a folder has its index, whether it is
// there yet or not. It refuses folders that are nobody's to replace as a whole.
func canonical(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if dir, err = realPath(dir); err != nil {
		return "", err
	}
	if filepath.Dir(dir) == dir {
		return "", notOwn("it is the root of the file system")
	}
	if home, err := os.UserHomeDir(); err == nil {
		if home, err = realPath(home); err == nil && home == dir {
			return "", notOwn("it is your home folder")
		}
	}
	return dir, nil
}

// realPath resolves the links of an absolute path, as far as it is there.
func realPath(p string) (string, error) {
	to, err := filepath.EvalSymlinks(p)
	if !errors.Is(err, fs.ErrNotExist) {
		return to, err
	}
	parent := filepath.Dir(p)
	if parent == p {
		return p, nil
	}
	if parent, err = realPath(parent); err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(p)), nil
}

// lockCheckout waits until no other process writes the folder. The lock's file
// is removed at the end.
func lockCheckout(ctx context.Context, dir string) (unlock func() error, err error) {
	l, err := lock.Wait(ctx, indexPath(dir)+".lock", false, nil)
	if err != nil {
		return nil, err
	}
	return func() error {
		if st, err := l.Stat(); err == nil && st.Size() == 0 { // else it is not one that we made
			_ = os.Remove(l.Name()) // where a system does not allow it, it stays
		}
		return l.Close()
	}, nil
}

// open opens the folder and decides whether everything in it is ours.
func (c *checkout) open(dir string) error {
	var err error
	if c.old, err = readIndex(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if c.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	c.next = newIndex()
	if !c.own {
		return nil
	}
	if c.old.Folder != "" && c.marker() == c.old.Folder {
		c.clean, c.next.Folder = true, c.old.Folder
		return nil
	}
	c.next.Folder = strings.ToLower(rand.Text())
	return nil
}

// marker is the id that stands in the folder, "" where none does.
func (c *checkout) marker() string {
	fi, err := c.root.Lstat(ownMarker)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > 100 {
		return ""
	}
	b, err := c.root.ReadFile(ownMarker)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// claim writes down what is about to be written, so that what a stopped checkout
// leaves is known to be ours.
func (c *checkout) claim(dir string) error {
	marked := !c.own || c.clean
	if marked && len(c.todo)+len(c.gone)+len(c.empty) == 0 {
		return nil
	}
	x := newIndex()
	x.Folder = c.next.Folder
	for p, f := range c.next.Files {
		x.Files[p] = f
	}
	for p, f := range c.there {
		x.Files[p] = f
	}
	x.Pending = make(map[string]string, len(c.todo))
	for _, e := range c.todo {
		x.Pending[e.Path] = e.Blob
	}
	if err := x.write(dir); err != nil {
		return err
	}
	if marked {
		return nil
	}
	temp := tempPrefix + c.next.Folder // no name that the survey has seen
	if err := c.root.WriteFile(temp, []byte(c.next.Folder+"\n"), 0o644); err != nil {
		return err
	}
	return rename(c.root, temp, ownMarker)
}

// checkLinks refuses a tree with a link that leads out of it: through it, what
// is built or edited in the folder would reach the rest of the machine.
func (c *checkout) checkLinks() error {
	for _, e := range c.tree.entries {
		if _, wanted := c.want[e.Path]; !wanted || e.Mode != Symlink {
			continue
		}
		f, err := c.tree.Read(e.Path)
		if err != nil {
			return err
		}
		if _, ok := regular.Inside(e.Path, string(f.Data)); !ok {
			return &Outward{Path: e.Path, Target: string(f.Data)}
		}
	}
	return nil
}

// judge notes a file that the careful mode must not touch: one that is neither
// what an earlier checkout wrote nor what this one is to write.
func (c *checkout) judge(p string, f indexFile) error {
	if c.clean || f.Blob != "" && (f.Blob == c.want[p].Blob || c.old.wrote(p, f.Blob)) {
		if f.Blob != "" {
			c.there[p] = f
		}
		return nil
	}
	if f.Mode != 0 && strings.HasPrefix(filepath.Base(p), tempPrefix) {
		return nil
	}
	return c.foreign(p)
}

func (c *checkout) foreign(p string) error {
	if len(c.strange) == maxForeign {
		c.more = true
		return fs.SkipAll
	}
	c.strange = append(c.strange, p)
	return nil
}
