package binary_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// bundleOf makes an offload bundle whose entries all are the same bytes at one place.
func bundleOf(n int, object []byte) []byte {
	le := binary.LittleEndian
	const id = "hipv4-amdgcn-amd-amdhsa--gfx1201"
	head := 24 + 8 + n*(24+len(id))
	out := le.AppendUint64([]byte("__CLANG_OFFLOAD_BUNDLE__"), uint64(n))
	for range n {
		out = le.AppendUint64(out, uint64(head))
		out = le.AppendUint64(out, uint64(len(object)))
		out = append(le.AppendUint64(out, uint64(len(id))), id...)
	}
	return append(out, object...)
}

// manySections is a code object with as many sections as one can have.
func manySections(t *testing.T) []byte {
	t.Helper()
	plain := readHIP(t, "plain.hipfb")
	at := bytes.LastIndex(plain, []byte("\x7fELF"))
	object := bytes.Clone(plain[at:])
	le := binary.LittleEndian
	const count = 0xfeff
	le.PutUint64(object[40:], uint64(len(object))) // e_shoff
	le.PutUint16(object[60:], count)               // e_shnum
	le.PutUint16(object[62:], 0)                   // e_shstrndx
	return append(object, make([]byte, 64*count)...)
}

// A small file cannot make work without end.
func TestHostileBundlesEnd(t *testing.T) {
	var many bytes.Buffer
	z, err := zstd.NewWriter(&many)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 16<<20)
	copy(zeros, bundleOf(0, nil))
	if _, err := z.Write(zeros); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"one object under 60,000 names": {bundleOf(60000, manySections(t)), "lie over one another"},
		"an explosion":                  {repack(many.Bytes(), 1, zeros), "is more than is opened"},
	} {
		start := time.Now()
		f := parse(t, c.data)
		if all := strings.Join(f.HIP.Faults, "\n"); !strings.Contains(all, c.want) {
			t.Errorf("%s: faults %q, want %q", name, all, c.want)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%s: %v for %d bytes", name, took, len(c.data))
		}
	}
}

// Sections of one name that lie at one place are read once.
func TestHostileHIPSections(t *testing.T) {
	object := manySections(t)
	le := binary.LittleEndian
	bundle := bundleOf(1, object)
	const sections, head, names = 20000, 64, "\x00.hip_fatbin\x00"
	file := make([]byte, head)
	copy(file, "\x7fELF\x02\x01\x01")
	le.PutUint16(file[16:], 3)  // a shared library
	le.PutUint16(file[18:], 62) // for x86-64
	le.PutUint32(file[20:], 1)
	file = append(append(file, bundle...), names...)
	for len(file)%8 != 0 {
		file = append(file, 0)
	}
	le.PutUint64(file[40:], uint64(len(file)))
	le.PutUint16(file[52:], head)
	le.PutUint16(file[58:], 64)
	le.PutUint16(file[60:], sections)
	le.PutUint16(file[62:], 1)
	for i := range sections {
		s := make([]byte, 64)
		switch i {
		case 0:
		case 1:
			le.PutUint32(s[4:], 3) // names
			le.PutUint64(s[24:], uint64(head+len(bundle)))
			le.PutUint64(s[32:], uint64(len(names)))
		default:
			le.PutUint32(s, 1)
			le.PutUint32(s[4:], 1)
			le.PutUint64(s[24:], head)
			le.PutUint64(s[32:], uint64(len(bundle)))
		}
		file = append(file, s...)
	}
	start := time.Now()
	f := parse(t, file)
	if f.HIP == nil || f.HIP.Bundles != 1 || !strings.Contains(fmt.Sprint(f.HIP.Faults), "lie over one another") {
		t.Errorf("%+v", f.HIP)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("%v for %d bytes", took, len(file))
	}
}
