package binary

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/md5" //nolint:gosec // clang's own checksum of a compressed bundle
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// The format of bundles is that of clang's document "Clang Offload Bundler": 24 bytes
// of magic, the number of entries, then for each its offset from the magic, its size,
// the length of its id, and the id. A compressed one has another magic and header, in
// three versions (llvm/lib/Object/OffloadBundle.cpp and clang's OffloadBundler.cpp).
const (
	bundleMagic = "__CLANG_OFFLOAD_BUNDLE__"
	packedMagic = "CCOB"
)

// Bounds against hostile files. A bundle of ggml-hip for eleven targets has some
// 20 MiB, one of the real libraries 1.1 GiB in all.
const (
	maxBundle     = 512 << 20 // of one, not compressed
	maxBundles    = 8 << 30   // of all compressed ones of a file, not compressed
	maxGfxEntries = 1 << 16   // of a file
	maxGfxID      = 256
	// How many bytes one of a compressed bundle may become, beyond a MiB: ggml-hip's code
	// becomes some 10, and nothing but zeros 10,000.
	maxRatio = 200
)

// gfxEntry is one entry of a bundle.
type gfxEntry struct {
	id   string // such as hipv4-amdgcn-amd-amdhsa--gfx1201; empty: a code object without a bundle
	size int64
	open func() (io.ReaderAt, error) // its content
}

// host reports whether it is for the machine that starts the kernels; then it is empty.
func (e *gfxEntry) host() bool { return strings.HasPrefix(e.id, "host-") }

// target is the target of the id, which stands behind the kind and a triple of three
// or four parts.
func (e *gfxEntry) target() string {
	if i := strings.Index(e.id, "-gfx"); i >= 0 {
		return e.id[i+1:]
	}
	parts := strings.SplitN(e.id, "-", 6)
	return parts[len(parts)-1]
}

// bundles calls yield for every bundle that r holds. Zeros between them are
// alignment. It stops with an error at the first place that is no bundle; offsets in
// errors count from r's start.
func (h *HIP) bundles(r *io.SectionReader, yield func(entries []*gfxEntry, compression string)) error {
	for at := int64(0); ; {
		var err error
		at = (at + 7) &^ 7 // a compressed one may end anywhere
		if at, err = skipZeros(r, min(at, r.Size())); err != nil || at >= r.Size() {
			return err
		}
		rest := io.NewSectionReader(r, at, r.Size()-at)
		magic := make([]byte, len(bundleMagic))
		n, _ := rest.ReadAt(magic, 0)
		var size int64
		var entries []*gfxEntry
		compression := "none"
		switch {
		case string(magic[:n]) == bundleMagic:
			entries, size, err = readBundle(rest)
		case strings.HasPrefix(string(magic[:n]), packedMagic):
			entries, size, compression, err = h.packed(rest)
		default:
			return fmt.Errorf("what stands at %#x is no offload bundle", at)
		}
		if err != nil {
			return fmt.Errorf("offload bundle at %#x: %w", at, err)
		}
		if h.entries += len(entries); h.entries > maxGfxEntries {
			return fmt.Errorf("more than %d entries", maxGfxEntries)
		}
		yield(entries, compression)
		at += size
	}
}

// readBundle reads the header of a bundle that is not compressed, and returns its
// entries and its length.
func readBundle(r *io.SectionReader) (entries []*gfxEntry, size int64, err error) {
	text := bufio.NewReader(io.NewSectionReader(r, int64(len(bundleMagic)), r.Size()-int64(len(bundleMagic))))
	number := func() (n uint64, err error) { return n, binary.Read(text, binary.LittleEndian, &n) }
	count, err := number()
	if err != nil {
		return nil, 0, errors.New("it is cut off in its header")
	}
	head := int64(len(bundleMagic)) + 8
	size = head
	var inside int64
	for i := range count {
		if i > maxGfxEntries {
			return nil, 0, fmt.Errorf("it says that it has %d entries", count)
		}
		var f [3]uint64 // offset, size, length of the id
		for k := range f {
			if f[k], err = number(); err != nil {
				return nil, 0, fmt.Errorf("it holds %d of the %d entries that it says it has", i, count)
			}
		}
		if f[2] > maxGfxID {
			return nil, 0, fmt.Errorf("the id of entry %d is %d bytes long", i+1, f[2])
		}
		id := make([]byte, f[2])
		if _, err := io.ReadFull(text, id); err != nil {
			return nil, 0, fmt.Errorf("it is cut off in the id of entry %d", i+1)
		}
		if f[0] > uint64(r.Size()) || f[1] > uint64(r.Size())-f[0] {
			return nil, 0, fmt.Errorf("its entry %s lies at %#x with %d bytes, which does not fit", printable(id), f[0], f[1])
		}
		// Else each of many entries may be the same large object, read once for each.
		if inside += int64(f[1]); inside > r.Size() {
			return nil, 0, errors.New("its entries lie over one another")
		}
		head += 24 + int64(f[2])
		size = max(size, head, int64(f[0]+f[1]))
		content := io.NewSectionReader(r, int64(f[0]), int64(f[1]))
		entries = append(entries, &gfxEntry{id: printable(id), size: int64(f[1]), open: func() (io.ReaderAt, error) {
			return content, nil
		}})
	}
	return entries, size, nil
}

// printable makes an id of a file fit to be shown.
func printable(id []byte) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, string(id))
}

// packedHead is the header of a compressed bundle.
type packedHead struct {
	version, method uint16
	length          int64 // of the header
	file            int64 // of the whole; 0: it does not say
	unpacked        int64
	hash            uint64 // the first eight bytes of the content's MD5
}

func readPackedHead(r *io.SectionReader) (h packedHead, err error) {
	b := make([]byte, 32)
	n, _ := r.ReadAt(b, 0)
	le := binary.LittleEndian
	h.version, h.method = le.Uint16(b[4:]), le.Uint16(b[6:])
	var file, unpacked uint64
	switch h.version {
	case 1:
		h.length, unpacked, h.hash = 20, uint64(le.Uint32(b[8:])), le.Uint64(b[12:])
	case 2:
		h.length, file, unpacked, h.hash = 24, uint64(le.Uint32(b[8:])), uint64(le.Uint32(b[12:])), le.Uint64(b[16:])
	case 3:
		h.length, file, unpacked, h.hash = 32, le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])
	default:
		return h, fmt.Errorf("its header is of version %d, which is not known", h.version)
	}
	switch {
	case int64(n) < h.length:
		return h, errors.New("it is cut off in its header")
	case h.version > 1 && (file < uint64(h.length) || file > uint64(r.Size())):
		return h, fmt.Errorf("it says that it is %d bytes long, and there are %d", file, r.Size())
	case unpacked > maxBundle:
		return h, fmt.Errorf("it says that it becomes %d bytes long, more than is opened", unpacked)
	}
	h.file, h.unpacked = int64(file), int64(unpacked)
	return h, nil
}

// packed reads a compressed bundle: its entries, its length in the file, and how it is
// compressed.
func (h *HIP) packed(r *io.SectionReader) (entries []*gfxEntry, size int64, compression string, err error) {
	head, err := readPackedHead(r)
	if err != nil {
		return nil, 0, "", err
	}
	if h.budget -= head.unpacked; h.budget < 0 {
		return nil, 0, "", errors.New("the file holds more compressed code than is opened")
	}
	body := io.NewSectionReader(r, head.length, r.Size()-head.length)
	if head.file > 0 {
		body = io.NewSectionReader(r, head.length, head.file-head.length)
	}
	if h.ratio -= max(head.unpacked-1<<20, 0); h.ratio < 0 {
		return nil, 0, "", fmt.Errorf("it becomes %d bytes long, which for a file of this size is more than is opened",
			head.unpacked)
	}
	var content []byte
	var used int64
	switch head.method {
	case 0:
		compression = "zlib"
		content, used, err = inflate(body, head.unpacked)
	case 1:
		compression = "zstd"
		content, used, err = unzstd(body, head.unpacked)
	default:
		return nil, 0, "", fmt.Errorf("it is compressed in a way that is not known (%d)", head.method)
	}
	if err != nil {
		return nil, 0, "", fmt.Errorf("%s: %w", compression, err)
	}
	if int64(len(content)) != head.unpacked {
		return nil, 0, "", fmt.Errorf("%s: it says that it becomes %d bytes long, and becomes %d", compression,
			head.unpacked, len(content))
	}
	sum := md5.Sum(content) //nolint:gosec // as above
	if binary.LittleEndian.Uint64(sum[:]) != head.hash {
		return nil, 0, "", fmt.Errorf("%s: its content does not have the checksum that it says", compression)
	}
	whole := io.NewSectionReader(bytes.NewReader(content), 0, int64(len(content)))
	magic := make([]byte, len(bundleMagic))
	if n, _ := whole.ReadAt(magic, 0); string(magic[:n]) != bundleMagic {
		return nil, 0, "", fmt.Errorf("%s: what is compressed is no offload bundle", compression)
	}
	if entries, _, err = readBundle(whole); err != nil {
		return nil, 0, "", err
	}
	if size = head.file; size == 0 {
		size = head.length + used
	}
	return entries, size, compression, nil
}

// counted is a reader that knows how much was taken, and gives single bytes, so that
// zlib takes no more than its own.
type counted struct {
	r *bufio.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func inflate(r io.Reader, want int64) (content []byte, used int64, err error) {
	c := &counted{r: bufio.NewReader(r)}
	z, err := zlib.NewReader(c)
	if err != nil {
		return nil, 0, err
	}
	content, err = io.ReadAll(io.LimitReader(z, want+1))
	return content, c.n, errors.Join(err, z.Close())
}

func unzstd(r *io.SectionReader, want int64) (content []byte, used int64, err error) {
	if used, err = zstdFrame(r); err != nil {
		return nil, 0, err
	}
	z, err := zstd.NewReader(io.NewSectionReader(r, 0, used), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxBundle), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, 0, err
	}
	defer z.Close()
	content, err = io.ReadAll(io.LimitReader(z, want+1))
	return content, used, err
}

// zstdFrame returns the length of the frame at r's start: a header of the first
// version does not say it (RFC 8878, 3.1.1).
func zstdFrame(r *io.SectionReader) (int64, error) {
	var head [6]byte
	if _, err := r.ReadAt(head[:5], 0); err != nil || binary.LittleEndian.Uint32(head[:]) != 0xFD2FB528 {
		return 0, errors.New("it is no zstd frame")
	}
	flags := head[4]
	at := int64(5)
	single := flags>>5&1 == 1
	if !single {
		at++ // the window's size
	}
	at += [4]int64{0, 1, 2, 4}[flags&3] // the dictionary's id
	switch size := flags >> 6; {
	case size > 0:
		at += int64(1) << size
	case single:
		at++
	}
	for {
		var b [3]byte
		if _, err := r.ReadAt(b[:], at); err != nil {
			return 0, io.ErrUnexpectedEOF
		}
		v := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
		at += 3
		if v>>1&3 == 1 {
			at++ // a byte that is repeated
		} else {
			at += v >> 3
		}
		if v&1 == 1 {
			break
		}
	}
	if flags>>2&1 == 1 {
		at += 4 // a checksum
	}
	if at > r.Size() {
		return 0, io.ErrUnexpectedEOF
	}
	return at, nil
}
