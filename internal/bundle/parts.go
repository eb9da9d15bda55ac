package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/regular"
)

// DefaultPartMiB is the size from which an archive is also given in parts: release
// pages take files below 2 GiB (GitHub's documentation, "About releases", "Storage and
// bandwidth quotas").
const DefaultPartMiB = 1900

// MaxPartMiB is the largest that a part may be asked to be.
const MaxPartMiB = 2047

// Part is a piece of an archive.
type Part struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// partRE is how a part of an archive is called: NAME.part001, in the order of their
// numbers, so that a shell's * gives them in order.
var partRE = regexp.MustCompile(`^(.+)\.part[0-9]{3}$`)

// PartOf returns the archive that a file is a part of, by its name, and false where it
// is not called like one.
func PartOf(name string) (archive string, ok bool) {
	m := partRE.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// split writes the parts of an archive beside it, where it is larger than limit bytes, in the
// place of those of an earlier one of that name.
func split(ctx context.Context, archive string, limit int64) (parts []Part, err error) {
	entries, err := os.ReadDir(filepath.Dir(archive))
	for _, e := range entries {
		if of, is := PartOf(e.Name()); is && of == filepath.Base(archive) {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(archive), e.Name())))
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	st, err := f.Stat()
	if err != nil || st.Size() <= limit {
		return nil, err
	}
	if st.Size() > 999*limit {
		return nil, fmt.Errorf("%s has %d bytes: it would be more than 999 parts of %d", archive, st.Size(), limit)
	}
	for from := int64(0); from < st.Size(); from += limit {
		name := fmt.Sprintf("%s.part%03d", archive, len(parts)+1)
		p, err := writePart(ctx, io.NewSectionReader(f, from, min(limit, st.Size()-from)), name)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// writePart writes one part.
func writePart(ctx context.Context, r *io.SectionReader, name string) (p Part, err error) {
	out, err := atomicfile.Create(name, 0o644)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, out.Cleanup()) }()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, hash), regular.Until(ctx, r)); err != nil {
		return p, fmt.Errorf("write %s: %w", name, err)
	}
	if err := out.Commit(); err != nil {
		return p, fmt.Errorf("write %s: %w", name, err)
	}
	return Part{Name: filepath.Base(name), SHA256: hex.EncodeToString(hash.Sum(nil)), Bytes: r.Size()}, nil
}
