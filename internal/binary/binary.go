// Package binary reads from a built file what it really holds and what it
// needs: machine, libraries, symbol versions, search paths.
package binary

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-version"
)

// File is what an ELF program or shared library says of itself.
type File struct {
	Name     string            `json:"name"`
	Machine  string            `json:"machine"`            // such as EM_X86_64
	SOName   string            `json:"soname,omitempty"`   // the name others need it by
	Needed   []string          `json:"needed,omitempty"`   // DT_NEEDED, in order
	RunPath  []string          `json:"runpath,omitempty"`  // DT_RUNPATH and DT_RPATH, split at colons
	Versions map[string]string `json:"versions,omitempty"` // highest needed symbol version by family: GLIBC, GLIBCXX, CXXABI, OPENSSL
	BuildID  string            `json:"build_id,omitempty"` // hex
}

// ErrNotELF is returned for a file that is no ELF file.
var ErrNotELF = errors.New("not an ELF file")

// Inspect reads an ELF file. Errors name the file; a file of another format
// gives ErrNotELF, a broken one says what is wrong.
func Inspect(path string) (*File, error) {
	// Opening a pipe waits for somebody to write to it.
	if fi, err := os.Stat(path); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("inspect %s: it is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	out.Name = filepath.Base(path)
	return out, nil
}

// Read reads an ELF file from r. It never panics, whatever the bytes are.
func Read(r io.ReaderAt) (out *File, err error) {
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := r.ReadAt(magic, 0); err != nil || string(magic) != elf.ELFMAG {
		return nil, ErrNotELF
	}
	// debug/elf documents that it is not hardened against hostile files.
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("malformed ELF file: %v", p)
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out = &File{Machine: f.Machine.String(), Versions: map[string]string{}}
	if f.SectionByType(elf.SHT_DYNAMIC) != nil {
		if err := out.dynamic(f); err != nil {
			return nil, err
		}
	}
	out.BuildID = buildID(f)
	return out, nil
}

func (out *File) dynamic(f *elf.File) error {
	var err error
	if out.Needed, err = f.ImportedLibraries(); err != nil {
		return fmt.Errorf("needed libraries: %w", err)
	}
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil {
		return fmt.Errorf("soname: %w", err)
	}
	out.SOName = strings.Join(names, " ")
	for _, t := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, err := f.DynString(t)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		for _, p := range paths {
			out.RunPath = append(out.RunPath, strings.Split(p, ":")...)
		}
	}
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return fmt.Errorf("symbol versions: %w", err)
	}
	for _, lib := range needs {
		for _, n := range lib.Needs {
			out.raise(n.Dep)
		}
	}
	return nil
}

// raise keeps the highest version of a family, from a name such as GLIBC_2.34
// or OPENSSL_3.0.0. Names that hold no number (GLIBC_PRIVATE) have no order.
func (out *File) raise(name string) {
	family, number, ok := strings.Cut(name, "_")
	if !ok || Less(number, "0") {
		return
	}
	if have, ok := out.Versions[family]; !ok || Less(have, number) {
		out.Versions[family] = number
	}
}

// Less reports whether version a is older than version b. What is not a
// version is older than any.
func Less(a, b string) bool {
	x, errX := version.NewVersion(a)
	y, errY := version.NewVersion(b)
	switch {
	case errX != nil:
		return errY == nil
	case errY != nil:
		return false
	}
	return x.LessThan(y)
}

// buildID returns the GNU build id note's content in hex, or nothing. The
// format is in the ELF gABI's "Note Section" and binutils' documentation of
// --build-id.
func buildID(f *elf.File) string {
	s := f.Section(".note.gnu.build-id")
	if s == nil || s.Size > 1<<12 {
		return ""
	}
	data, err := s.Data()
	if err != nil || len(data) < 16 || !bytes.Equal(data[12:16], []byte("GNU\x00")) {
		return ""
	}
	size := f.ByteOrder.Uint32(data[4:8])
	if uint64(len(data)) < 16+uint64(size) {
		return ""
	}
	return hex.EncodeToString(data[16 : 16+size])
}
