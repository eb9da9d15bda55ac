package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/regular"
)

// folder is a Place that any web server can serve: a folder for each release, and the index.
// A draft lies in a hidden folder until it is renamed.
type folder struct {
	dir  string
	held *os.File // the lock
}

const (
	lockFile      = ".llpatch.lock"
	withdrawnFile = "WITHDRAWN.md"
)

// openFolder makes the folder where it is not, unless it must be there, and keeps others from
// publishing there meanwhile.
func openFolder(ctx context.Context, dir string, exists bool) (*folder, error) {
	if _, err := os.Stat(dir); exists && err != nil {
		return nil, &BadPlace{fmt.Sprintf("%s, where the release should lie: %v", patch.Printable(dir), err)}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	held, err := lock.Wait(ctx, filepath.Join(dir, lockFile), false, nil)
	return &folder{dir, held}, err
}

func (f *folder) draft(name string) string { return filepath.Join(f.dir, "."+name+".draft") }

// dirOf is where a release's files lie.
func (f *folder) dirOf(h Held) string {
	if h.Public {
		return filepath.Join(f.dir, h.Name)
	}
	return f.draft(h.Name)
}

func (f *folder) look(_ context.Context, name string) (Held, []string, error) {
	h := Held{Name: name, files: map[string]asset{}}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return h, nil, err
	}
	var public []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			public = append(public, e.Name())
		}
	}
	h.Public = slices.Contains(public, name)
	files, err := os.ReadDir(f.dirOf(h))
	if errors.Is(err, fs.ErrNotExist) {
		return h, public, nil
	} else if err != nil {
		return h, nil, err
	}
	h.There = true
	for _, e := range files {
		info, err := e.Info()
		if err != nil {
			return h, nil, err
		}
		if e.Name() == withdrawnFile {
			text, err := regular.ReadFile(filepath.Join(f.dirOf(h), withdrawnFile))
			if err != nil {
				return h, nil, err
			}
			h.Text = string(text)
			continue
		}
		h.files[e.Name()] = asset{bytes: info.Size(), whole: info.Mode().IsRegular()}
	}
	return h, public, nil
}

func (f *folder) begin(_ context.Context, name string) (Held, error) {
	return Held{Name: name, There: true}, os.MkdirAll(f.draft(name), 0o755)
}

func (f *folder) put(ctx context.Context, h Held, from file, _ func(int64)) error {
	r, err := regular.Open(from.path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	w, err := atomicfile.Create(filepath.Join(f.draft(h.Name), from.name), 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, regular.Until(ctx, r)); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", filepath.Join(f.draft(h.Name), from.name), err), w.Cleanup())
	}
	return w.Commit()
}

func (f *folder) sum(ctx context.Context, h Held, name string) (string, error) {
	return regular.Sum(ctx, filepath.Join(f.dirOf(h), name))
}

func (f *folder) remove(_ context.Context, h Held, name string) error {
	return os.RemoveAll(filepath.Join(f.draft(h.Name), name))
}

func (f *folder) show(_ context.Context, h Held, _ Page) error {
	return os.Rename(f.draft(h.Name), filepath.Join(f.dir, h.Name))
}

func (f *folder) mark(_ context.Context, h Held, page Page) error {
	return atomicfile.WriteFile(filepath.Join(f.dirOf(h), withdrawnFile), []byte(page.Text), 0o644)
}

func (f *folder) index(context.Context) ([]byte, error) {
	data, err := regular.ReadFile(filepath.Join(f.dir, indexFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	for _, name := range []string{pageFile, shFile, cmdFile} {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); err == nil {
			return nil, refuse(f.dir, "publish into a folder of its own",
				"%s is there without %s, so it is not llpatch's to write over", name, indexFile)
		}
	}
	return nil, nil
}

func (f *folder) setIndex(_ context.Context, files map[string][]byte, _ string) error {
	for _, name := range []string{indexFile, shFile, cmdFile, pageFile} { // the first says whose the others are
		if err := atomicfile.WriteFile(filepath.Join(f.dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) url(release, name string) string { return path.Join(release, name) }
func (f *folder) page(release string) string      { return release + "/" }
func (f *folder) home() string                    { return filepath.Join(f.dir, pageFile) }
