package source

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/tag"
)

const (
	maxEntries  = 1_000_000 // files of a tree or an archive
	maxUnpacked = 4 << 30   // bytes of all files of an archive
	maxPath     = 4096      // bytes of a name or of a link's target
)

// tarFile is a file of an archive, checked, its path below the top folder.
type tarFile struct {
	top  string // the folder that all of the archive is below
	path string
	mode Mode
	size int64
	link string // target of a symlink
	hard string // the path, below the top folder too, of an earlier file that this is another name of
	time int64  // seconds since 1970
}

// scanTar goes through a tar stream and calls visit for every file, in order. All
// must be below one top folder. What could write outside a folder it is unpacked
// to, or is no file, ends the scan: nothing of such an archive may be used, so
// the caller uses nothing before scanTar returns nil.
//
// limit bounds the number of entries; maxUnpacked bounds the bytes of all.
func scanTar(ctx context.Context, in io.Reader, limit int, visit func(tarFile, io.Reader) error) error {
	r := tar.NewReader(regular.Until(ctx, in))
	top := ""
	total := int64(0)
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			if top == "" {
				return errors.New("the archive holds no file")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("archive, after %d entries: %w", n, err)
		}
		if n >= limit {
			return fmt.Errorf("the archive has more than %d entries", limit)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // git archive writes the commit's id there
		}
		f, err := checkHeader(h, &top)
		if err != nil {
			return fmt.Errorf("archive entry %q: %w", clip(h.Name), err)
		}
		if total += f.size; f.size < 0 || total > maxUnpacked {
			return fmt.Errorf("archive entry %q: more than %d bytes to unpack", clip(h.Name), int64(maxUnpacked))
		}
		if f.path == "" || h.Typeflag == tar.TypeDir {
			continue
		}
		if err := visit(f, r); err != nil {
			return err
		}
	}
}

func clip(s string) string { return s[:min(len(s), 200)] }

// checkHeader judges one entry. The first one sets the top folder.
func checkHeader(h *tar.Header, top *string) (tarFile, error) {
	f := tarFile{mode: Regular, size: h.Size, time: h.ModTime.Unix()}
	switch h.Typeflag {
	case tar.TypeReg:
		if h.Mode&0o100 != 0 {
			f.mode = Executable
		}
	case tar.TypeSymlink:
		f.mode, f.link = Symlink, h.Linkname
	case tar.TypeDir, tar.TypeLink:
	default:
		return f, fmt.Errorf("type %q is neither a file, a folder nor a link", string(h.Typeflag))
	}
	if len(h.Name) > maxPath || len(h.Linkname) > maxPath {
		return f, fmt.Errorf("a name of more than %d bytes", maxPath)
	}
	name := strings.TrimPrefix(h.Name, "./")
	if h.Typeflag == tar.TypeDir {
		if name = strings.TrimSuffix(name, "/"); name == "" || name == "." {
			return f, nil
		}
	}
	if strings.HasPrefix(name, "/") || strings.Contains(name, `\`) {
		return f, errors.New("its path is absolute or holds a backslash")
	}
	if err := checkPath(name); err != nil {
		return f, err
	}
	first, below, _ := strings.Cut(name, "/")
	if *top == "" {
		*top = first
	}
	switch {
	case first != *top:
		return f, fmt.Errorf("it is not below %s/, as the entries before it", *top)
	case below == "" && h.Typeflag != tar.TypeDir:
		return f, errors.New("it stands in the place of the top folder")
	}
	f.top, f.path = first, below
	if h.Typeflag == tar.TypeLink {
		to, ok := strings.CutPrefix(strings.TrimPrefix(h.Linkname, "./"), *top+"/")
		if err := checkPath(to); !ok || err != nil {
			return f, fmt.Errorf("it is a hard link to %q, which is no file of the archive", clip(h.Linkname))
		}
		f.hard, f.size = to, 0
	}
	if _, ok := regular.Inside(f.path, f.link); f.mode == Symlink && !ok {
		return f, fmt.Errorf("it links to %q, out of the tree", clip(f.link))
	}
	return f, nil
}

// tarGz is an open tar.gz file.
type tarGz struct {
	*gzip.Reader
	file *os.File
}

func openTarGz(name string) (*tarGz, error) {
	file, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, cutOff(err)), file.Close())
	}
	return &tarGz{Reader: z, file: file}, nil
}

// finish reads to the end, so that a cut or changed one shows in gzip's
// checksum, and closes the file.
func (t *tarGz) finish() error {
	n, err := io.Copy(io.Discard, io.LimitReader(t.Reader, maxUnpacked))
	if n == maxUnpacked {
		err = fmt.Errorf("more than %d bytes follow the archive", int64(maxUnpacked))
	}
	return errors.Join(err, t.file.Close())
}

// fromArchive takes the tree from a source tarball.
func (f *fetcher) fromArchive(ctx context.Context, name string, t tag.Tag, w want) (*Tree, error) {
	if !w.numbered(t) {
		return nil, errNoBuild(t, "an archive")
	}
	return f.intoCache(ctx, t, w, func(ctx context.Context, s *scratch) (got found, err error) {
		r, err := openTarGz(name)
		if err != nil {
			return found{}, err
		}
		got, err = s.addArchive(ctx, r)
		if err := errors.Join(err, r.finish()); err != nil {
			return found{}, fmt.Errorf("%s: %w", name, err)
		}
		return got, nil
	})
}

// addArchive puts a source tarball into s as a pack of blobs and trees.
func (s *scratch) addArchive(ctx context.Context, r io.Reader) (found, error) {
	p, err := s.newPack()
	if err != nil {
		return found{}, err
	}
	defer p.close()
	files := map[string]Entry{}
	latest := int64(0)
	top := ""
	err = scanTar(ctx, r, maxEntries, func(f tarFile, r io.Reader) error {
		data := []byte(f.link)
		if f.hard != "" {
			e, there := files[f.hard]
			if !there || e.Mode == Symlink {
				return fmt.Errorf("%s is a hard link to %s, which is no file before it in the archive", f.path, f.hard)
			}
			if _, twice := files[f.path]; twice {
				return fmt.Errorf("%s is in the archive twice", f.path)
			}
			e.Path = f.path
			files[f.path] = e
			return nil
		}
		if f.mode != Symlink {
			if f.size > maxObject {
				return fmt.Errorf("%s has more than %d bytes", f.path, maxObject)
			}
			var err error
			if data, err = io.ReadAll(r); err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
		}
		if _, twice := files[f.path]; twice {
			return fmt.Errorf("%s is in the archive twice", f.path)
		}
		top = f.top
		id, err := p.add(typeBlob, data)
		files[f.path] = Entry{Path: f.path, Mode: f.mode, Blob: id}
		latest = max(latest, f.time) // git archive gives every file the commit's time
		return err
	})
	if err != nil {
		return found{}, err
	}
	if len(files) == 0 {
		return found{}, errNoFile
	}
	entries := slices.SortedFunc(maps.Values(files), func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	tree, err := treeID(entries, func(content []byte) error {
		_, err := p.add(typeTree, content)
		return err
	})
	if err != nil {
		return found{}, err
	}
	if err := p.finish(ctx); err != nil {
		return found{}, err
	}
	return found{pin: pinAt(tree, latest), tells: tagOfFolder(top)}, nil
}
