package source

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zlib"
)

// packOf makes a pack of raw entries: a type and its uncompressed data.
func packOf(t *testing.T, typ byte, n int, data []byte, before []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w, err := zlib.NewWriterLevel(&z, zlib.BestCompression)
	must(t, err)
	_, err = w.Write(data)
	must(t, err)
	must(t, w.Close())
	head := []byte{typ<<4 | byte(len(data)&15)}
	for size := len(data) >> 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	var b bytes.Buffer
	b.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(n)))
	for range n {
		b.Write(head)
		b.Write(before)
		b.Write(z.Bytes())
	}
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

// indexOf indexes a pack and returns how many bytes that allocated.
func indexOf(t *testing.T, pack []byte) (allocated uint64, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pack")
	must(t, os.WriteFile(path, pack, 0o644))
	f, err := os.Open(path)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = indexPack(t.Context(), f, int64(len(pack)), new(bytes.Buffer))
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// TestBomb: a small pack that would unpack to very much is refused before it has
// taken much memory; large files that are real are not held in memory.
func TestBomb(t *testing.T) {
	zeros := make([]byte, 64<<20)
	bomb := packOf(t, byte(typeBlob), 40, zeros, nil) // 2.5 MB -> 2.5 GiB
	allocated, err := indexOf(t, bomb)
	wantErr(t, err, "unpack")
	if allocated > 256<<20 {
		t.Errorf("%d MB allocated for a pack of %d bytes", allocated>>20, len(bomb))
	}
	allocated, err = indexOf(t, packOf(t, byte(typeBlob), 6, zeros, nil))
	must(t, err)
	if allocated > 64<<20 {
		t.Errorf("%d MB allocated for six large files", allocated>>20)
	}
}

// TestDeltaBomb: deltas whose results are far larger than they are.
func TestDeltaBomb(t *testing.T) {
	base := bytes.Repeat([]byte{7}, 1<<20)
	id := blobID(base)
	// Each delta copies the whole base sixty times.
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, 1<<20), 60<<20)
	for range 60 {
		delta = append(delta, 0x80|0x40, 0x10) // from 0, 0x100000 bytes
	}
	whole := packOf(t, byte(typeBlob), 1, base, nil)
	raw := make([]byte, 20)
	for i := range raw {
		b := byte(0)
		for _, c := range []byte(id[2*i : 2*i+2]) {
			b = b<<4 | (c&15 + c>>6*9)
		}
		raw[i] = b
	}
	deltas := packOf(t, 7, 60, delta, raw)
	pack := append(whole[:len(whole)-20:len(whole)-20], deltas[packHeader:len(deltas)-20]...)
	binary.BigEndian.PutUint32(pack[8:], 61)
	sum := sha1.Sum(pack)
	_, err := indexOf(t, append(pack, sum[:]...))
	wantErr(t, err, "unpack")
}
