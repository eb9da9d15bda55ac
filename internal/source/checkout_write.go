package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
)

// tempPrefix begins the names of files that are being written; one that is left
// over is not in any tree, so the next checkout removes it.
const tempPrefix = ".llpatch-tmp-"

// writer is one goroutine that writes files.
type writer struct {
	*checkout
	r *reader
}

func (w *writer) close() {
	if w.r != nil {
		w.tree.store.release(w.r)
	}
}

// folder writes entries of one folder. It goes through a handle of the folder:
// no name that it uses has a slash, so there is no link on the way to follow.
func (w *writer) folder(ctx context.Context, entries []Entry) error {
	name := path.Dir(entries[0].Path)
	if err := w.root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	dir, err := w.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // a folder that was only looked up
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := w.content(e)
		if err != nil {
			return err
		}
		if err := w.put(dir, e, data); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		w.changed.Add(1)
		w.bytes.Add(int64(len(data)))
	}
	return nil
}

// content returns a file's content, which was hashed on its way.
func (w *writer) content(e Entry) ([]byte, error) {
	if data, ok := w.tree.memory[e.Blob]; ok {
		return data, nil
	}
	if w.r == nil {
		var err error
		if w.r, err = w.tree.store.acquire(); err != nil {
			return nil, err
		}
	}
	return w.tree.store.blob(w.r, e)
}

// put replaces one file or link.
func (w *writer) put(dir *os.Root, e Entry, data []byte) error {
	name := path.Base(e.Path)
	temp := fmt.Sprintf("%s%d-%d", tempPrefix, os.Getpid(), w.temps.Add(1))
	if e.Mode == Symlink {
		if err := dir.Symlink(filepath.FromSlash(string(data)), temp); err != nil {
			return err
		}
		if err := rename(dir, temp, name); err != nil {
			return err
		}
		w.note(e, indexFile{Mode: Symlink, Blob: e.Blob})
		return nil
	}
	perm := fs.FileMode(0o644)
	if e.Mode == Executable {
		perm = 0o755
	}
	file, err := dir.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, werr := file.Write(data)
	var cerr error
	if runtime.GOOS != "windows" { // where a mode is only whether one may write
		cerr = file.Chmod(perm) // what it was made with went through the umask
	}
	fi, serr := file.Stat()
	if err := errors.Join(werr, cerr, serr, file.Close()); err != nil {
		return errors.Join(err, dir.Remove(temp))
	}
	if err := rename(dir, temp, name); err != nil {
		return err
	}
	// Renaming changed the inode's time. What is not this very file any more is
	// noted without one, and so read by the next checkout.
	f := seen(fi)
	f.CTime = 0
	if now, err := dir.Lstat(name); err == nil && os.SameFile(fi, now) && fi.Size() == now.Size() &&
		fi.ModTime().Equal(now.ModTime()) {
		f = seen(now)
	}
	f.Mode, f.Blob = e.Mode, e.Blob
	w.note(e, f)
	return nil
}

// note keeps what was written for the index.
func (w *writer) note(e Entry, f indexFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next.Files[e.Path] = f
}

func rename(dir *os.Root, temp, name string) error {
	if err := dir.Rename(temp, name); err != nil {
		return errors.Join(err, dir.Remove(temp))
	}
	return nil
}
