package binary

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxCubin bounds what is decompressed of one entry. Headers say what an entry is
// for; its content only adds the compiler's version.
const maxCubin = 32 << 20

// smallCubin is the size up to which a cubin is opened to see whether it holds a
// kernel at all: the one that nvcc adds when it links holds none, and has 1 to 2 KiB.
const smallCubin = 8 << 10

var errTooLarge = errors.New("too large to be opened")

// content returns an entry's content, decompressed, and errTooLarge where it or
// what it says it becomes is longer than limit.
func (e *entry) content(limit int64) ([]byte, error) {
	if e.whole != nil {
		all, err := e.whole.content(limit)
		if err != nil {
			return nil, err
		}
		if e.from < 0 || e.size < 0 || e.from > int64(len(all)) || e.size > int64(len(all))-e.from {
			return nil, errors.New("it lies outside of what it is packed into")
		}
		return all[e.from : e.from+e.size], nil
	}
	if e.data == nil || e.stored > limit || e.unpacked > limit {
		return nil, errTooLarge
	}
	data := make([]byte, e.stored)
	if _, err := io.ReadFull(io.NewSectionReader(e.data, 0, e.stored), data); err != nil {
		return nil, err
	}
	if e.compression() == "" {
		return data, nil
	}
	data = data[:e.packed]
	if e.compression() == "lz4" {
		// A byte of an LZ4 block stands for 255 at most (LZ4 Block Format, "Compressed
		// block format"): what claims more is not worth the memory.
		if e.unpacked > 255*(e.packed+1) {
			return nil, errors.New("lz4: it cannot become as long as it says")
		}
		out := make([]byte, e.unpacked)
		n, err := lz4.UncompressBlock(data, out)
		if err != nil {
			return nil, fmt.Errorf("lz4: %w", err)
		}
		return out[:n], nil
	}
	z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(uint64(max(limit, 1<<20))))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	out, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if int64(len(out)) > limit {
		return nil, errTooLarge
	}
	return out, nil
}

// cost returns how many bytes opening the entry takes.
func (e *entry) cost() int64 {
	if e.whole != nil {
		return e.whole.cost()
	}
	return e.stored + e.unpacked
}

// cubin is what a cubin says of itself.
type cubin struct {
	arch    uint32 // such as 86; 0: it does not say
	toolkit string // version of the compiler, such as 11.8; empty: it does not say
	kernels bool   // it holds code
}

// emCUDA is the ELF machine number of cubins.
const emCUDA = 190

var releaseRE = regexp.MustCompile(`release ([0-9]+\.[0-9]+)`)

// readCubin reads a cubin. Measured on nvcc 11.8 and 13.5: with ELF ABI version 7
// the lowest byte of e_flags is the arch and e_version is the toolkit's version
// times ten; with 8 the second byte is the arch, and the toolkit stands as text in
// .note.nv.tkinfo.
func readCubin(data []byte) (out cubin, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = cubin{}, fmt.Errorf("malformed cubin: %v", p)
		}
	}()
	if len(data) < 64 || string(data[:4]) != elf.ELFMAG || data[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return out, errors.New("no cubin")
	}
	le := binary.LittleEndian
	abi, flags, made := data[elf.EI_ABIVERSION], le.Uint32(data[48:]), le.Uint32(data[20:])
	// debug/elf takes only 1 here.
	data = bytes.Clone(data)
	le.PutUint32(data[20:], 1)
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return out, err
	}
	if f.Machine != emCUDA {
		return out, fmt.Errorf("no cubin: its machine is %s", f.Machine)
	}
	if out.arch = flags & 0xff; abi >= 8 {
		out.arch = flags >> 8 & 0xff
	}
	if made >= 50 && made < 1000 {
		out.toolkit = fmt.Sprintf("%d.%d", made/10, made%10)
	}
	for _, s := range f.Sections {
		switch {
		case strings.HasPrefix(s.Name, ".text."):
			out.kernels = true
		case s.Name == ".note.nv.tkinfo" && s.Size < 1<<16:
			if note, err := s.Data(); err == nil {
				if m := releaseRE.FindSubmatch(note); m != nil {
					out.toolkit = string(m[1])
				}
			}
		}
	}
	return out, nil
}
