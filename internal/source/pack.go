package source

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"golang.org/x/sync/errgroup"
)

// go-git indexes a pack too, but on one core and through several copies of each
// object: 1.5 s for the b8390 bundle, where git's index-pack and this take half
// of that. The index written is git's, byte for byte.

const (
	packHeader = 12 // "PACK", version, number of objects
	// maxObject bounds one object in bytes: GitHub takes no file over 100 MiB.
	maxObject = 128 << 20
	// A pack may unpack to a fixed number of bytes and to so many for each of its
	// own. The whole history of upstream has 10 objects' bytes for each of the
	// pack's, one tree has 5 of 160 MB in all.
	unpackFloor = 1 << 30
	unpackRatio = 64
	// maxHeld is the size in bytes of an object from which on it is hashed on its
	// way: several at once would fill the memory.
	maxHeld = 8 << 20
	// maxInflate is the most that deflate can grow a byte to.
	maxInflate = 1032
)

// packed is an object of a pack.
type packed struct {
	start, data int64 // offsets of its header and of its compressed data
	size        int64 // bytes after inflating: of the object, or of the delta
	typ         plumbing.ObjectType
	base        plumbing.Hash // id of a REF_DELTA's base
	baseAt      int64         // offset of an OFS_DELTA's base
	hash        plumbing.Hash
	crc         uint32
	done        bool // the hash is known
}

// indexer finds the id of every object in a pack, which proves all of them
// readable, and writes the pack's index.
type indexer struct {
	file *os.File
	end  int64 // where the trailer begins

	unpacked atomic.Int64 // bytes so far, of objects and of the results of deltas

	objects []packed
	byOfs   map[int64][]int // the offset of a base -> its deltas

	mu    sync.Mutex
	byRef map[plumbing.Hash][]int // the id of a base -> its deltas; taken out by whom resolves them
}

// indexPack checks the pack in file, size bytes long, and writes its index to w.
// It returns the checksum that names both.
func indexPack(ctx context.Context, file *os.File, size int64, w io.Writer) (plumbing.Hash, error) {
	x := &indexer{file: file, end: size - sha1.Size, byOfs: map[int64][]int{}, byRef: map[plumbing.Hash][]int{}}
	var sum plumbing.Hash
	if x.end < packHeader {
		return sum, errors.New("pack is cut off")
	}
	if _, err := file.ReadAt(sum[:], x.end); err != nil {
		return sum, fmt.Errorf("pack: %w", err)
	}
	if err := x.scan(ctx, sum); err != nil {
		return sum, fmt.Errorf("pack: %w", err)
	}
	if err := x.resolve(ctx); err != nil {
		return sum, fmt.Errorf("pack: %w", err)
	}
	var iw idxfile.Writer
	if err := iw.OnHeader(uint32(len(x.objects))); err != nil {
		return sum, err
	}
	for i, o := range x.objects {
		if !o.done {
			return sum, fmt.Errorf("pack: object %d is a delta to one that is not in it", i)
		}
		iw.Add(o.hash, uint64(o.start), o.crc)
	}
	if err := iw.OnFooter(sum); err != nil {
		return sum, err
	}
	idx, err := iw.Index()
	if err != nil {
		return sum, err
	}
	_, err = idxfile.NewEncoder(w).Encode(idx)
	return sum, err
}

// scan reads the pack from front to end: where each object stands, and the ids
// of those that are no deltas.
func (x *indexer) scan(ctx context.Context, sum plumbing.Hash) error {
	in := newPackReader(io.NewSectionReader(x.file, 0, x.end))
	head := make([]byte, packHeader)
	if _, err := io.ReadFull(in, head); err != nil {
		return cutOff(err)
	}
	if string(head[:4]) != "PACK" {
		return errors.New("it does not begin with PACK")
	}
	if v := binary.BigEndian.Uint32(head[4:]); v != 2 && v != 3 {
		return fmt.Errorf("version %d is neither 2 nor 3", v)
	}
	n := int64(binary.BigEndian.Uint32(head[8:]))
	// The shortest object has a byte of header and eight of zlib.
	if n > x.end/9 {
		return fmt.Errorf("%d objects do not go into %d bytes", n, x.end)
	}
	x.objects = make([]packed, n)

	// Hashing runs beside inflating; both take about as long.
	hashes, hctx := errgroup.WithContext(ctx)
	hashes.SetLimit(max(1, runtime.GOMAXPROCS(0)-1))
	var z inflater
	for i := range x.objects {
		if hctx.Err() != nil {
			break
		}
		o := &x.objects[i]
		err := o.header(in)
		if err != nil {
			return errors.Join(fmt.Errorf("object %d at %d: %w", i, o.start, err), hashes.Wait())
		}
		o.data = in.at()
		if err := x.charge(o.size); err != nil {
			return errors.Join(fmt.Errorf("object %d at %d: %w", i, o.start, err), hashes.Wait())
		}
		var content []byte
		if o.size > maxHeld && !o.typ.IsDelta() {
			o.hash, err = z.hash(in.Reader, o.typ, o.size, x.end-o.data)
			o.done = err == nil
		} else {
			content, err = z.inflate(in.Reader, o.size, x.end-o.data)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("object %d at %d: %w", i, o.start, err), hashes.Wait())
		}
		end := in.at()
		switch o.typ {
		case plumbing.OFSDeltaObject:
			x.byOfs[o.baseAt] = append(x.byOfs[o.baseAt], i)
		case plumbing.REFDeltaObject:
			x.byRef[o.base] = append(x.byRef[o.base], i)
		}
		hashes.Go(func() error {
			if !o.done && !o.typ.IsDelta() {
				o.hash, o.done = plumbing.ComputeHash(o.typ, content), true
			}
			crc := crc32.NewIEEE()
			if _, err := io.Copy(crc, io.NewSectionReader(x.file, o.start, end-o.start)); err != nil {
				return err
			}
			o.crc = crc.Sum32()
			return nil
		})
	}
	if err := errors.Join(hashes.Wait(), ctx.Err()); err != nil {
		return err
	}
	if in.at() != x.end {
		return fmt.Errorf("%d bytes follow the last object", x.end-in.at())
	}
	if !bytes.Equal(in.from.sum.Sum(nil), sum[:]) {
		return errors.New("its checksum is wrong")
	}
	return nil
}

// charge counts bytes that are about to be unpacked, and refuses what no real
// pack unpacks to.
func (x *indexer) charge(n int64) error {
	if limit := unpackFloor + unpackRatio*x.end; n > maxObject || x.unpacked.Add(n) > limit {
		return fmt.Errorf("it claims %d bytes, and with it the pack's %d bytes would unpack to more than %d, or one "+
			"object to more than %d",
			n, x.end, limit, int64(maxObject))
	}
	return nil
}

// header reads an object's header, which ends where its compressed data begin.
func (o *packed) header(in *packReader) error {
	o.start = in.at()
	b, err := in.ReadByte()
	if err != nil {
		return cutOff(err)
	}
	o.typ = plumbing.ObjectType(b >> 4 & 7)
	o.size = int64(b & 15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = in.ReadByte(); err != nil {
			return cutOff(err)
		}
		if shift > 32 {
			return errors.New("its size is too large")
		}
		o.size |= int64(b&0x7f) << shift
	}
	switch o.typ {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.OFSDeltaObject:
		back := int64(0)
		for i := 0; ; i++ {
			if b, err = in.ReadByte(); err != nil {
				return cutOff(err)
			}
			back |= int64(b & 0x7f)
			if b&0x80 == 0 {
				break
			}
			if i == 7 {
				return errors.New("the offset of its base is too large")
			}
			back = (back + 1) << 7
		}
		if back <= 0 || back > o.start-packHeader {
			return fmt.Errorf("its base would be %d bytes before it", back)
		}
		o.baseAt = o.start - back
	case plumbing.REFDeltaObject:
		if _, err := io.ReadFull(in, o.base[:]); err != nil {
			return cutOff(err)
		}
	default:
		return fmt.Errorf("type %d is unknown", o.typ)
	}
	return nil
}
