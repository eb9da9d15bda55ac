package verify

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	gzip "github.com/klauspost/pgzip"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/trust"
)

// members are what an archive or a folder holds, names below its top folder.
type members struct {
	sum     string            // of the archive, empty for a folder
	size    int64             // of the archive
	message trust.Message     // the archive
	parts   int               // of which the archive consists here; 0: it is whole
	files   map[string]string // SHA-256 of each regular file; nil: nothing could be read
	links   map[string]string
	text    map[string][]byte // the small files that are looked into
	bins    []*binary.File    // programs and libraries
	odd     []string          // what no archive should have, a sentence each
	strange []string          // what none of ours has
}

// maxText is more than any file has that is looked into.
const maxText = 16 << 20

// What is kept of a file: more than the largest program has, CUDA's kernels for every card, and
// more than a file of AMD's kernels has.
const (
	maxProgram = 2 << 30
	maxOther   = 256 << 20
)

// broken says why an archive cannot be read to its end.
type broken struct {
	why     string
	strange bool // it does not even begin as an archive does
}

func (e *broken) Error() string { return e.why }

func newMembers() *members {
	return &members{files: map[string]string{}, links: map[string]string{}, text: map[string][]byte{}}
}

// readArchive reads a tar.gz or a zip. The error is one of this machine's, or a *broken: then the members have what is
// known of the archive itself.
func readArchive(ctx context.Context, name string) (*members, error) {
	f, err := openBody(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	// Both sums of the archive are made of one reading, while another looks at what it holds.
	h, message := sha256.New(), trust.NewMessage(regular.Until(ctx, f.reader()))
	summed := make(chan error, 1)
	go func() {
		_, err := io.Copy(h, message.Reader)
		summed <- err
	}()
	m := newMembers()
	m.size, m.parts, m.message = f.size(), f.parts, message
	var magic [2]byte // a wheel is a zip as well, and a .tgz a tar.gz
	_, err = f.ReadAt(magic[:], 0)
	strange := err != nil || string(magic[:]) != "PK" && string(magic[:]) != "\x1f\x8b"
	if err == nil && string(magic[:]) == "PK" {
		err = m.zip(ctx, f, f.size())
	} else {
		err = m.tarGz(ctx, f.reader())
	}
	if failed := <-summed; failed != nil {
		return nil, failed
	}
	m.sum = hex.EncodeToString(h.Sum(nil))
	var disk *fs.PathError
	switch {
	case err == nil:
		return m, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &disk):
		return nil, err
	}
	m.files = nil
	return m, &broken{err.Error(), strange}
}

func (m *members) tarGz(ctx context.Context, f io.Reader) error {
	gz, err := gzip.NewReader(regular.Until(ctx, f))
	if err != nil {
		return err
	}
	defer func() { _ = gz.Close() }() // read to its end below
	top := ""
	if err := bundle.ReadTar(ctx, gz, func(e *tar.Header, r io.Reader) error { return m.entry(&top, e, r) }); err != nil {
		return err
	}
	rest, err := bundle.Behind(gz)
	if err == nil && rest > 64<<10 { // tar fills a block, and nothing of ours stands behind it
		m.oddity("Behind the last file there are %d bytes more.", rest)
	}
	return err
}

func (m *members) zip(ctx context.Context, f io.ReaderAt, size int64) error {
	top := "/" // a zip has its files at the top
	comment, err := bundle.ReadZip(ctx, f, size, func(e *tar.Header, r io.Reader) error { return m.entry(&top, e, r) })
	if comment != "" {
		m.oddity("The archive has a comment, and ours has none.")
	}
	return err
}

// entry takes one entry of an archive in.
func (m *members) entry(top *string, e *tar.Header, r io.Reader) error {
	name, ok := m.below(top, e.Name, e.Typeflag == tar.TypeDir)
	switch {
	case !ok:
	case e.Typeflag == tar.TypeReg:
		return m.file(name, r, e.Size)
	case e.Typeflag == tar.TypeSymlink:
		m.link(name, e.Linkname)
	default:
		m.oddity("%s is neither a file, a folder nor a link.", name)
	}
	return nil
}

// below is an entry's name without the top folder that all share, "/" where there is none. It
// is false for the folder itself, for other folders, and for what is no name in a bundle.
func (m *members) below(top *string, name string, dir bool) (string, bool) {
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) {
		m.oddity("%q is a name that leads out of the archive.", name)
		return "", false
	}
	clean := path.Clean(name)
	if clean != strings.TrimSuffix(name, "/") {
		m.strangeness("%q is no name in a bundle.", name)
	}
	if name = clean; name == "." {
		return "", false
	}
	if *top == "" {
		*top, _, _ = strings.Cut(name, "/")
	}
	if *top != "/" {
		first, rest, deeper := strings.Cut(name, "/")
		if first != *top || !deeper && !dir {
			m.strangeness("%s lies beside the top folder %s.", name, *top)
			rest = name
		}
		name = rest
	}
	if dir {
		return "", false
	}
	if _, twice := m.files[name]; twice || m.links[name] != "" {
		m.oddity("%s is in it twice.", name)
		return "", false
	}
	return name, true
}

func (m *members) oddity(format string, args ...any) {
	m.odd = append(m.odd, fmt.Sprintf(format, args...))
}

func (m *members) strangeness(format string, args ...any) {
	m.strange = append(m.strange, fmt.Sprintf(format, args...))
}

func (m *members) link(name, to string) {
	m.links[name] = to
	if _, inside := regular.Inside(name, to); !inside {
		m.oddity("%s is a link to %s, out of the archive.", name, to)
	} else if !regular.Beside(to) {
		m.strangeness("%s is a link to %s, and links of a bundle name a file beside them.", name, to)
	}
}

// file reads one file, whole where it may be a program or is a text that is looked into: what
// an archive holds may be larger than any memory.
func (m *members) file(name string, r io.Reader, size int64) error {
	h := sha256.New()
	r = io.TeeReader(r, h)
	var start [4]byte
	n, err := io.ReadFull(r, start[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	program := string(start[:n]) == elf.ELFMAG || n >= 2 && string(start[:2]) == "MZ"
	whole := size <= maxOther || program && size <= maxProgram
	if program && !whole {
		m.oddity("%s is larger than any program: %d bytes.", name, size)
	}
	var data bytes.Buffer
	if whole {
		data.Grow(int(min(size, maxText)))
		data.Write(start[:n])
		_, err = io.Copy(&data, r)
	} else {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		return err
	}
	m.files[name] = hex.EncodeToString(h.Sum(nil))
	if !whole {
		return nil
	}
	b := data.Bytes()
	switch f, err := binary.Read(bytes.NewReader(b), int64(len(b))); {
	case err == nil:
		f.Name = name
		m.bins = append(m.bins, f)
	case !errors.Is(err, binary.ErrNotELF):
		m.oddity("%s cannot be read as a program: %v.", name, err)
	case len(b) <= maxText && looked(name):
		m.text[name] = b
	}
	return nil
}

// looked reports whether what a file says is compared with others.
func looked(name string) bool {
	return name == bundle.InfoFile || name == bundle.SumsFile || strings.HasPrefix(name, "PATCHES/")
}

// readFolder reads an unpacked bundle.
func readFolder(ctx context.Context, dir string) (*members, error) {
	m := newMembers()
	n := 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if n++; err != nil || d.IsDir() || n > bundle.MaxEntries {
			if n > bundle.MaxEntries {
				return &NotArchive{dir, "holds more files than any bundle does"}
			}
			return err
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(file)
			m.link(name, to)
			return err
		}
		if !d.Type().IsRegular() {
			m.oddity("%s is neither a file, a folder nor a link.", name)
			return nil
		}
		f, err := regular.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read from
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if st.Size() > bundle.MaxFile {
			return &NotArchive{dir, "holds a file that is larger than any bundle's"}
		}
		return m.file(name, regular.Until(ctx, io.LimitReader(f, bundle.MaxFile)), st.Size())
	})
	return m, err
}
