package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
)

// checkoutIndex is <dir>.index.json, beside a checkout and not in it, because
// everything in it is source. It says what was written: the next checkout need
// not read files that nobody touched, and may remove and replace these alone.
type checkoutIndex struct {
	Format  string               `json:"format"`
	Version int                  `json:"version"`
	Folder  string               `json:"folder,omitempty"` // id of a folder of CheckoutOwn
	Files   map[string]indexFile `json:"files"`
	Pending map[string]string    `json:"pending,omitempty"` // path -> blob, of a checkout that did not end

	written time.Time // when the file was, by its file system's clock
}

// indexFile is what a file looked like when its content was known to be a blob.
type indexFile struct {
	Size  int64  `json:"size"`     // bytes
	MTime int64  `json:"mtime_ns"` // nanoseconds since 1970
	CTime int64  `json:"ctime_ns"` // of its inode, likewise; 0: the system does not tell
	Inode uint64 `json:"inode"`    // likewise
	Mode  Mode   `json:"mode"`
	Blob  string `json:"blob"`
}

const (
	indexFormat  = "llpatch-checkout"
	indexVersion = 2
)

func indexPath(dir string) string { return dir + ".index.json" }

func newIndex() checkoutIndex {
	return checkoutIndex{Format: indexFormat, Version: indexVersion, Files: map[string]indexFile{}}
}

// readIndex returns the index of a checkout. Where there is none, or one of
// another version, it knows no file. Something else in its place is an error.
func readIndex(dir string) (checkoutIndex, error) {
	name := indexPath(dir)
	fi, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return newIndex(), nil
	}
	if err != nil {
		return newIndex(), err
	}
	x := checkoutIndex{written: fi.ModTime()}
	if fi.Mode().IsRegular() {
		b, err := os.ReadFile(name)
		if err != nil {
			return newIndex(), err
		}
		err = json.Unmarshal(b, &x)
		if err == nil && x.Format == indexFormat {
			if x.Version != indexVersion || x.Files == nil {
				return newIndex(), nil
			}
			return x, nil
		}
	}
	return newIndex(), fmt.Errorf("%s is not an index of llpatch, and one must stand in its place; move it away, or "+
		"give another folder", name)
}

// wrote reports whether a checkout put this content there.
func (x checkoutIndex) wrote(path, blob string) bool {
	return x.Files[path].Blob == blob || x.Pending[path] == blob
}

func (x checkoutIndex) write(dir string) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(indexPath(dir), append(b, '\n'), 0o644)
}

// trusts reports whether a file on the disk is, without reading it, the content
// that the index has for it. As git does, it asks for the inode and its change
// time too, which stay behind when somebody sets size and mtime back; and a file
// as young as the index may have changed within the same tick of the clock, and
// is read.
func (x checkoutIndex) trusts(path string, fi fs.FileInfo) (blob string, ok bool) {
	f, known := x.Files[path]
	now := seen(fi)
	ok = known && f.Size == now.Size && f.MTime == now.MTime && f.CTime == now.CTime && f.Inode == now.Inode &&
		max(now.MTime, now.CTime) < x.written.UnixNano()
	return f.Blob, ok
}

// seen is what a file looks like now, without its mode and its blob.
func seen(fi fs.FileInfo) indexFile {
	f := indexFile{Size: fi.Size(), MTime: fi.ModTime().UnixNano()}
	f.CTime, f.Inode = identity(fi)
	return f
}
