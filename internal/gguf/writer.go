package gguf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/disk"
)

// alignment is where tensors start: GGUF's default, also written as
// general.alignment.
const alignment = 32

// chunkElems is how many elements are made at once: 1 MiB of F16. It is a
// multiple of q8Block.
const chunkElems = 512 << 10

func align(n uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }

// Info says what was written.
type Info struct {
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"` // of the whole file, in hex
	Tensors int    `json:"tensors"`
}

// Progress is called with the bytes done so far and in all. It may be nil.
type Progress func(what string, done, total int64)

// NoRoom is a disk that cannot hold a model.
type NoRoom struct {
	Dir        string
	Need, Have int64 // bytes
}

// Error names the folder and both numbers.
func (e *NoRoom) Error() string {
	return fmt.Sprintf("no room: the model needs %d bytes (%.1f GiB), and %s has %d (%.1f GiB)",
		e.Need, float64(e.Need)/(1<<30), e.Dir, e.Have, float64(e.Have)/(1<<30))
}

// Hint says what to do.
func (e *NoRoom) Hint() string {
	return "name a file on another disk with -o, or make the model smaller; --type q4_0 has a quarter of F16's bytes"
}

// WriteFile writes the model to path, which has the whole model or is as it
// was before. What it returns may wrap *Impossible or *NoRoom; then nothing was
// begun.
func WriteFile(ctx context.Context, path string, m Model, progress Progress) (Info, error) {
	// Before a file is made: a model that cannot be needs no folder.
	facts, err := m.Facts()
	if err != nil {
		return Info{}, err
	}
	dir := filepath.Dir(path)
	if have, ok := disk.Free(dir); ok && have < facts.Bytes {
		return Info{}, fmt.Errorf("write model %s: %w", path, &NoRoom{Dir: dir, Need: facts.Bytes, Have: have})
	}
	f, err := atomicfile.Create(path, 0o644)
	if err != nil {
		return Info{}, fmt.Errorf("write model %s: %w", path, err)
	}
	defer func() { _ = f.Cleanup() }() // does nothing once the file is in place
	info, err := m.Write(ctx, f, progress)
	if err != nil {
		return Info{}, fmt.Errorf("write model %s: %w", path, err)
	}
	if err := f.Commit(); err != nil {
		return Info{}, fmt.Errorf("write model %s: %w", path, err)
	}
	return info, nil
}

// Write writes the model to w as GGUF version 3. It holds a few MiB at a time,
// whatever the model's size; chunks are made on all cores and written in order.
func (m Model) Write(ctx context.Context, w io.Writer, progress Progress) (Info, error) {
	list, err := m.layout()
	if err != nil {
		return Info{}, err
	}
	head := m.header(list)
	total := m.size(list)

	workers := runtime.GOMAXPROCS(0)
	// One for each core, one being written and one being hashed.
	buffers := workers + 2
	free := make(chan []byte, buffers)
	for range buffers {
		free <- make([]byte, 0, 2*chunkElems)
	}
	// A chunk's place in the file is its place in this queue; its bytes come
	// through its own channel when they are made.
	queue := make(chan chan []byte, buffers)
	written := make(chan []byte, buffers)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(queue)
		for i := range list {
			t := &list[i]
			fill := t.fill()
			for from := uint64(0); from < t.elems(); from += chunkElems {
				var buf []byte
				select {
				case buf = <-free:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				made := make(chan []byte, 1)
				queue <- made // never full: it has room for every buffer
				go func() { made <- t.chunk(buf, fill, from) }()
			}
		}
		return nil
	})

	info := Info{Tensors: len(list)}
	g.Go(func() error {
		defer close(written)
		write := func(b []byte) error {
			n, err := w.Write(b)
			info.Bytes += int64(n)
			if err == nil && n < len(b) {
				err = io.ErrShortWrite
			}
			if err != nil {
				return fmt.Errorf("at byte %d of %d: %w", info.Bytes, total, err)
			}
			if progress != nil {
				progress("model", info.Bytes, total)
			}
			return nil
		}
		if err := write(head); err != nil {
			return err
		}
		for made := range queue {
			buf := <-made
			if err := write(buf); err != nil {
				return err
			}
			written <- buf // never full, as above
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	// While the next chunk is written: on few cores, the writer has the most to do.
	sum := sha256.New()
	sum.Write(head)
	g.Go(func() error {
		for buf := range written {
			sum.Write(buf)
			free <- buf
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return Info{}, err
	}
	info.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return info, nil
}

// chunk makes chunkElems elements, or what is left of the tensor with its
// padding, and returns them in buf's memory.
func (t *tensor) chunk(buf []byte, fill filler, from uint64) []byte {
	per, size := t.typ.block()
	n := min(chunkElems, t.elems()-from)
	bytes := n / per * size
	if from+n == t.elems() {
		bytes = align(t.size) - from/per*size
	}
	if uint64(cap(buf)) < bytes {
		buf = make([]byte, bytes)
	}
	buf = buf[:bytes]

	zeros := uint64(0)
	if from < t.zeros {
		zeros = min(n, t.zeros-from)
	}
	// A block of zeros is zero bytes in every type.
	clear(buf[:zeros/per*size])
	clear(buf[n/per*size:])
	fill(buf[zeros/per*size:], from+zeros, n-zeros)
	return buf
}
