package source

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"
)

// checkoutIndex is <dir>.index.json, beside a checkout and not in it, because
// everything in it is source. It says what was written, so that the next
// checkout need not read files that nobody touched. That it exists says that the
// folder is ours to clean.
type checkoutIndex struct {
	Version int                  `json:"version"`
	Files   map[string]indexFile `json:"files"`

	written time.Time // when the file was, by its file system's clock
}

// indexFile is what a file looked like when its content was known to be a blob.
type indexFile struct {
	Size  int64  `json:"size"`     // bytes
	MTime int64  `json:"mtime_ns"` // nanoseconds since 1970
	Mode  Mode   `json:"mode"`
	Blob  string `json:"blob"`
}

const indexVersion = 1

func indexPath(dir string) string { return dir + ".index.json" }

// readIndex returns the index of a checkout, and whether there is one. One that
// cannot be read is one that knows no file.
func readIndex(dir string) (checkoutIndex, bool, error) {
	fresh := checkoutIndex{Version: indexVersion, Files: map[string]indexFile{}}
	fi, err := os.Stat(indexPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, false, nil
	}
	if err != nil {
		return fresh, false, err
	}
	b, err := os.ReadFile(indexPath(dir))
	if err != nil {
		return fresh, false, err
	}
	x := checkoutIndex{written: fi.ModTime()}
	if json.Unmarshal(b, &x) != nil || x.Version != indexVersion || x.Files == nil {
		return fresh, true, nil
	}
	return x, true, nil
}

func (x checkoutIndex) write(dir string) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return writeFile(indexPath(dir), append(b, '\n'))
}

// trusts reports whether a file on the disk is, without reading it, the content
// that the index has for it. A file as young as the index may have changed
// within the same tick of the clock, as git's racily clean files, and is read.
func (x checkoutIndex) trusts(path string, fi fs.FileInfo) (blob string, ok bool) {
	f, known := x.Files[path]
	ok = known && f.Size == fi.Size() && f.MTime == fi.ModTime().UnixNano() && fi.ModTime().Before(x.written)
	return f.Blob, ok
}
