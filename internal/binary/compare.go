package binary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/llpatch/llpatch/internal/exit"
)

// Comparison says how two builds differ, file by file.
type Comparison struct {
	A      string        `json:"a"`
	B      string        `json:"b"`
	Same   int           `json:"same"` // files and links that are the same
	Differ []FileDiffers `json:"differ"`
}

// FileDiffers is a file that the two builds do not have alike.
type FileDiffers struct {
	// below the folders, with slashes; the name of A where files are compared
	Path     string           `json:"path"`
	Why      string           `json:"why,omitempty"` // where it is no matter of sections
	Bytes    int64            `json:"bytes,omitempty"`
	Sections []SectionDiffers `json:"sections,omitempty"` // in the order of the file
}

// SectionDiffers is a section of which the bytes differ. Names in brackets stand for
// what is no section: the headers, or the whole of a file of another format.
type SectionDiffers struct {
	Name   string   `json:"name"`
	Sizes  [2]int64 `json:"sizes"`          // in A and in B; -1: it is not there
	Bytes  int64    `json:"bytes"`          // that differ: at the same offset, and what one has more
	First  int64    `json:"first"`          // offset in the section
	Causes []string `json:"causes"`         // as far as they are known
	Text   []string `json:"text,omitempty"` // what stands at the first of those bytes in A and in B, where it is text
	Left   int64    `json:"left"`           // bytes that differ for no known cause; of device code, when it is unpacked
}

// DeviceCode reports whether the section holds code for NVIDIA cards.
func (s SectionDiffers) DeviceCode() bool { return s.Name == deviceCode || fatbinSection(s.Name) }

// BuildID is the section with a hash of the others.
const BuildID = ".note.gnu.build-id"

// OfNVCC reports whether a cause of a SectionDiffers is that nvcc writes the number of its process.
func OfNVCC(cause string) bool { return cause == nvccProcess || cause == nvccTemporary }

// NotSame says that two builds are not the same bytes.
type NotSame struct{ Comparison }

// Error names both sides and counts.
func (e *NotSame) Error() string {
	return fmt.Sprintf("%s and %s are not the same: %d of %d files differ", e.A, e.B, len(e.Differ), len(e.Differ)+e.Same)
}

// ExitCode is exit.Build.
func (e *NotSame) ExitCode() int { return exit.Build }

// ErrFolder says that a folder was to be compared with a file.
var ErrFolder = errors.New("one is a folder and the other is none")

// Compare compares two files, or all files of two folders by their names, and says
// in which sections ELF and PE files differ and why, where that can be told.
func Compare(ctx context.Context, a, b string) (*Comparison, error) {
	c := &Comparison{A: a, B: b, Differ: []FileDiffers{}}
	// What is named is meant, and not a link to it; links below are compared as links.
	var err error
	if a, err = filepath.EvalSymlinks(a); err != nil {
		return nil, err
	}
	if b, err = filepath.EvalSymlinks(b); err != nil {
		return nil, err
	}
	ia, err := os.Stat(a)
	if err != nil {
		return nil, err
	}
	ib, err := os.Stat(b)
	if err != nil {
		return nil, err
	}
	if ia.IsDir() != ib.IsDir() {
		return nil, fmt.Errorf("compare %s and %s: %w", a, b, ErrFolder)
	}
	if !ia.IsDir() {
		return c, c.entry(ctx, a, b, filepath.Base(c.A))
	}
	names, err := entries(ctx, a)
	if err != nil {
		return nil, err
	}
	more, err := entries(ctx, b)
	if err != nil {
		return nil, err
	}
	names = append(names, more...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := c.entry(ctx, filepath.Join(a, name), filepath.Join(b, name), filepath.ToSlash(name)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// entries lists what is no folder below dir, and the folders with nothing in them.
func entries(ctx context.Context, dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || p == dir {
			return err
		}
		if d.IsDir() {
			if in, err := os.ReadDir(p); err != nil || len(in) > 0 {
				return err
			}
		}
		rel, err := filepath.Rel(dir, p)
		names = append(names, rel)
		return err
	})
	return names, err
}

// entry compares one path of both sides.
func (c *Comparison) entry(ctx context.Context, a, b, name string) error {
	why, err := unlike(a, b)
	if err != nil {
		return err
	}
	if why == nil {
		if st, err := os.Lstat(a); err == nil && !st.IsDir() {
			c.Same++
		}
		return nil
	}
	d := FileDiffers{Path: name, Why: *why}
	if d.Why == "" {
		if d, err = compareFiles(ctx, a, b); err != nil {
			return fmt.Errorf("compare %s and %s: %w", a, b, err)
		}
		d.Path = name
		if d.Bytes == 0 {
			c.Same++
			return nil
		}
	}
	c.Differ = append(c.Differ, d)
	return nil
}

// unlike says why two paths cannot have the same content, "" where their content must
// be looked at, and nil where they are the same link, or folders.
func unlike(a, b string) (*string, error) {
	say := func(format string, args ...any) (*string, error) {
		s := fmt.Sprintf(format, args...)
		return &s, nil
	}
	ia, errA := os.Lstat(a)
	ib, errB := os.Lstat(b)
	switch {
	// ENOTDIR: what is a folder on the other side is a file here.
	case errors.Is(errA, fs.ErrNotExist) || errors.Is(errA, syscall.ENOTDIR):
		return say("only in B%s", emptyFolder(ib, errB))
	case errors.Is(errB, fs.ErrNotExist) || errors.Is(errB, syscall.ENOTDIR):
		return say("only in A%s", emptyFolder(ia, errA))
	case errA != nil || errB != nil:
		return nil, errors.Join(errA, errB)
	case ia.Mode().Type() != ib.Mode().Type():
		return say("of another kind: %s in A, %s in B", kindOf(ia), kindOf(ib))
	case ia.Mode()&fs.ModeSymlink != 0:
		to, errA := os.Readlink(a)
		other, errB := os.Readlink(b)
		if errA != nil || errB != nil {
			return nil, errors.Join(errA, errB)
		}
		if to == other {
			return nil, nil
		}
		return say("a link to %s in A, to %s in B", to, other)
	case ia.IsDir():
		return nil, nil
	case !ia.Mode().IsRegular():
		return say("neither a file nor a link: %s", kindOf(ia))
	case (ia.Mode()^ib.Mode())&whose != 0:
		return say("as whom it runs: %s in A, %s in B", ia.Mode(), ib.Mode())
	case (ia.Mode()^ib.Mode())&0o111 != 0:
		return say("the right to be run: %s in A, %s in B", ia.Mode().Perm(), ib.Mode().Perm())
	}
	return say("")
}

// whose are the bits that make a program run as its owner or its group.
const whose = fs.ModeSetuid | fs.ModeSetgid

// emptyFolder says that what only one side has is a folder: one with something in it is not asked for.
func emptyFolder(i fs.FileInfo, err error) string {
	if err == nil && i.IsDir() {
		return ", an empty folder"
	}
	return ""
}

func kindOf(i fs.FileInfo) string {
	switch {
	case i.Mode().IsRegular():
		return "a file"
	case i.IsDir():
		return "a folder"
	case i.Mode()&fs.ModeSymlink != 0:
		return "a link"
	}
	return i.Mode().Type().String()
}

// compareFiles compares the content of two regular files.
func compareFiles(ctx context.Context, a, b string) (FileDiffers, error) {
	var d FileDiffers
	fa, err := openPart(ctx, a)
	if err != nil {
		return d, err
	}
	defer fa.close()
	fb, err := openPart(ctx, b)
	if err != nil {
		return d, err
	}
	defer fb.close()
	if d.Bytes, _, err = countDiffering(fa.whole(), fb.whole()); err != nil || d.Bytes == 0 {
		return d, err
	}
	d.Sections, err = compareSections(ctx, fa, fb)
	return d, err
}

// countDiffering returns how many bytes differ, what one side has more included, and
// where the first of them is.
func countDiffering(a, b io.Reader) (n, first int64, err error) {
	first = -1
	var bufs [2][64 << 10]byte
	for at := int64(0); ; {
		na, errA := io.ReadFull(a, bufs[0][:])
		nb, errB := io.ReadFull(b, bufs[1][:])
		for _, err := range []error{errA, errB} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return n, first, err
			}
		}
		if na == 0 && nb == 0 {
			return n, first, nil
		}
		k, where := differing(bufs[0][:na], bufs[1][:nb])
		if n += k; k > 0 && first < 0 {
			first = at + where
		}
		at += int64(min(na, nb))
	}
}

// differing is countDiffering of what is in memory.
func differing(a, b []byte) (n, first int64) {
	short := min(len(a), len(b))
	if len(a) == len(b) && bytes.Equal(a, b) {
		return 0, -1
	}
	first = -1
	for i := range short {
		if a[i] != b[i] {
			if n++; first < 0 {
				first = int64(i)
			}
		}
	}
	n += int64(max(len(a), len(b)) - short)
	if first < 0 {
		first = int64(short)
	}
	return n, first
}
