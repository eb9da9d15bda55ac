package source

import (
	"bufio"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/klauspost/compress/zlib"
	"golang.org/x/sync/errgroup"
)

// maxChain is the longest chain of deltas that git writes.
const maxChain = 4095

// resolve finds the ids of all deltas, each family of deltas on its own core.
func (x *indexer) resolve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range x.objects {
		o := &x.objects[i]
		if o.typ.IsDelta() {
			continue
		}
		deltas := x.deltasOf(o)
		if len(deltas) == 0 {
			continue
		}
		g.Go(func() error {
			var z inflater
			content, err := x.read(&z, o)
			if err != nil {
				return err
			}
			return x.apply(ctx, &z, o.typ, content, deltas, 1)
		})
	}
	return g.Wait()
}

// deltasOf takes the deltas that have o as their base.
func (x *indexer) deltasOf(o *packed) []int {
	ofs := x.byOfs[o.start] // only read after the scan, and by o's owner
	x.mu.Lock()
	defer x.mu.Unlock()
	ref, ok := x.byRef[o.hash]
	if !ok {
		return ofs
	}
	// An object may stand in a pack twice: its deltas belong to the first that asks.
	delete(x.byRef, o.hash)
	return append(ofs[:len(ofs):len(ofs)], ref...)
}

// apply resolves deltas against their base, and then the deltas against those.
func (x *indexer) apply(ctx context.Context, z *inflater, typ plumbing.ObjectType, base []byte, deltas []int,
	depth int,
) error {
	if depth > maxChain {
		return fmt.Errorf("a chain of more than %d deltas", maxChain)
	}
	for _, i := range deltas {
		if err := ctx.Err(); err != nil {
			return err
		}
		o := &x.objects[i]
		delta, err := x.read(z, o)
		if err != nil {
			return err
		}
		if err := x.charge(deltaSize(delta)); err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
		content, err := packfile.PatchDelta(base, delta)
		if err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
		o.hash, o.done = plumbing.ComputeHash(typ, content), true
		if next := x.deltasOf(o); len(next) > 0 {
			if err := x.apply(ctx, z, typ, content, next, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// deltaSize is the size that a delta claims its result has: the second of the
// two numbers that it begins with. PatchDelta checks the claim.
func deltaSize(delta []byte) (n int64) {
	for range 2 {
		n = 0
		for shift := 0; len(delta) > 0 && shift < 63; shift += 7 {
			b := delta[0]
			delta = delta[1:]
			n |= int64(b&0x7f) << shift
			if b&0x80 == 0 {
				break
			}
		}
	}
	return n
}

// read inflates the data of an object: its content, or the delta.
func (x *indexer) read(z *inflater, o *packed) ([]byte, error) {
	if z.buf == nil {
		z.buf = bufio.NewReaderSize(nil, 32<<10)
	}
	z.buf.Reset(io.NewSectionReader(x.file, o.data, x.end-o.data))
	return z.inflate(z.buf, o.size, x.end-o.data)
}

// inflater decompresses object after object with the same tables.
type inflater struct {
	z   io.ReadCloser
	buf *bufio.Reader
}

// inflate reads size bytes and the end of the stream, of which at most left
// bytes are there.
func (f *inflater) inflate(r *bufio.Reader, size, left int64) ([]byte, error) {
	if err := f.begin(r, size, left); err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f.z, b); err != nil {
		return nil, cutOff(err)
	}
	return b, f.end(size)
}

// hash is inflate for an object that is too large to hold: it returns its id.
func (f *inflater) hash(r *bufio.Reader, typ plumbing.ObjectType, size, left int64) (plumbing.Hash, error) {
	if err := f.begin(r, size, left); err != nil {
		return plumbing.ZeroHash, err
	}
	h := plumbing.NewHasher(typ, size)
	if _, err := io.CopyN(h, f.z, size); err != nil {
		return plumbing.ZeroHash, cutOff(err)
	}
	return h.Sum(), f.end(size)
}

// begin starts a stream that claims to unpack to size bytes.
func (f *inflater) begin(r *bufio.Reader, size, left int64) (err error) {
	// Never trust a size that the data cannot have with an allocation.
	if size > maxObject || size/maxInflate > left {
		return fmt.Errorf("it claims %d bytes", size)
	}
	if f.z == nil {
		f.z, err = zlib.NewReader(r)
	} else {
		err = f.z.(zlib.Resetter).Reset(r, nil)
	}
	return cutOff(err)
}

// end makes sure that a stream ends after size bytes.
func (f *inflater) end(size int64) error {
	// The checksum is compared when the end is read, which must be here.
	var more [1]byte
	if n, err := f.z.Read(more[:]); n != 0 || !errors.Is(err, io.EOF) {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("it has more than %d bytes", size)
		}
		return err
	}
	return nil
}

// packReader is a buffered reader that knows its place and the hash of what it
// read. Inflating takes no byte beyond the end of its stream from a
// *bufio.Reader, and is fastest from one.
type packReader struct {
	*bufio.Reader
	from *tally
}

func newPackReader(r io.Reader) *packReader {
	t := &tally{r: r, sum: sha1.New()}
	return &packReader{Reader: bufio.NewReaderSize(t, 256<<10), from: t}
}

// at is the offset of the next byte.
func (p *packReader) at() int64 { return p.from.n - int64(p.Buffered()) }

// tally counts and hashes what is read through it.
type tally struct {
	r   io.Reader
	sum hash.Hash
	n   int64
}

func (t *tally) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.n += int64(n)
	t.sum.Write(p[:n]) // a hash's Write never fails
	return n, err
}

// cutOff makes an end where none may be an error that says so.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
