package source

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"io"
	"os"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/klauspost/compress/zlib"

	"github.com/llpatch/llpatch/internal/spec"
)

const (
	typeBlob = plumbing.BlobObject
	typeTree = plumbing.TreeObject
)

// packWriter writes whole objects into a pack, for a transport that has files
// and no objects.
type packWriter struct {
	s    *scratch
	file *os.File
	seen map[plumbing.Hash]bool
	buf  bytes.Buffer
	z    *zlib.Writer
}

func (s *scratch) newPack() (*packWriter, error) {
	file, err := s.create("tmp_pack_")
	if err != nil {
		return nil, err
	}
	// The number of objects is not known yet: finish fills it in.
	if _, err := file.Write(make([]byte, packHeader)); err != nil {
		return nil, cacheError(err)
	}
	z, err := zlib.NewWriterLevel(nil, zlib.BestSpeed)
	if err != nil {
		return nil, err
	}
	return &packWriter{s: s, file: file, seen: map[plumbing.Hash]bool{}, z: z}, nil
}

// add writes an object, once, and returns its id.
func (p *packWriter) add(typ plumbing.ObjectType, content []byte) (string, error) {
	id := plumbing.ComputeHash(typ, content)
	if p.seen[id] {
		return id.String(), nil
	}
	p.seen[id] = true
	p.buf.Reset()
	size := len(content)
	b := byte(typ)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.buf.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	p.buf.WriteByte(b)
	p.z.Reset(&p.buf)
	if _, err := p.z.Write(content); err != nil {
		return "", err
	}
	if err := p.z.Close(); err != nil {
		return "", err
	}
	_, err := p.file.Write(p.buf.Bytes())
	return id.String(), cacheError(err)
}

// finish completes the pack and indexes it.
func (p *packWriter) finish(ctx context.Context) error {
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(p.seen)))
	if _, err := p.file.WriteAt(head, 0); err != nil {
		return cacheError(err)
	}
	size, err := p.file.Seek(0, io.SeekEnd)
	if err != nil {
		return cacheError(err)
	}
	sum := sha1.New()
	if _, err := io.Copy(sum, io.NewSectionReader(p.file, 0, size)); err != nil {
		return cacheError(err)
	}
	if _, err := p.file.Write(sum.Sum(nil)); err != nil {
		return cacheError(err)
	}
	return p.s.indexed(ctx, p.file)
}

func (p *packWriter) close() { _ = p.file.Close() } // after finish nothing is left to write

// pinAt is a pin without a commit.
func pinAt(tree string, seconds int64) spec.Pin {
	return spec.Pin{Tree: tree, Time: time.Unix(seconds, 0).UTC()}
}
