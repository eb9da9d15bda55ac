package binary_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	inspect "github.com/llpatch/llpatch/internal/binary"
)

// named is a PE file with device code in a section of that name, which its header writes
// as it says.
func named(tb testing.TB, header, before, name string) *peImage {
	p := newPE(64)
	p.name, p.long, p.header, p.before, p.symbols = name, true, header, before, 3
	p.put(string(read(tb, "cuda-11.8-lz4.fatbin")))
	return p
}

// How a section's header names a place behind the symbols: in decimal, and in LLVM's base64.
func TestPESectionNames(t *testing.T) {
	const name = ".nv_fatbin"
	for header, c := range map[string]struct {
		before, name string
		found        bool
	}{
		"/4":       {found: true},
		"/0000004": {found: true},
		"/16":      {before: "12345678901\x00", found: true},
		"//AAAAAE": {found: true},
		"//AAAABE": {before: strings.Repeat("x", 63) + "\x00", found: true}, // 68
		"//E":      {found: true},                                           // LLVM reads fewer letters too
		"//AAAA//": {before: strings.Repeat("x", 4090) + "\x00", found: true},
		"//AAAA+/": {before: strings.Repeat("x", 64*62+63-5) + "\x00", found: true},
		"//AAAAz9": {before: strings.Repeat("x", 64*51+61-5) + "\x00", found: true},
		"//AAAAZa": {before: strings.Repeat("x", 64*25+26-5) + "\x00", found: true},
		// Not from where the table begins, but from within or behind it.
		"/0": {}, "/3": {}, "//AAAAAA": {}, "//AAAAAD": {}, "//": {}, "/": {},
		"/15": {}, "/14": {}, "/9999999": {}, "//AAAAAP": {}, "//D/////": {}, "//////": {}, "////////": {}, "//EAAAAA": {},
		// No number.
		"/-4": {}, "/+4": {}, "/4 ": {}, "/ 4": {}, "/0x4": {}, "/4_": {}, "//AAAAA=": {}, "//AAAA-E": {}, "//AAAA_E": {},
		"//AAAA E": {}, "//\x80AAAAE": {},
		"4": {}, "AAAAAE": {}, "\x00/4": {},
		"/4\x00x": {found: true}, // a name ends at its first zero byte
	} {
		p := named(t, header, c.before, name)
		f, err := p.read(t)
		if err != nil || (f.CUDA != nil) != c.found {
			t.Errorf("%q: %+v, %v; want found %v", header, f.CUDA, err, c.found)
		}
	}
}

// What the file says of its table bounds the names in it.
func TestPENameTable(t *testing.T) {
	whole := named(t, "//AAAAAE", "", ".nv_fatbin").file(t)
	table := len(whole) - len(".nv_fatbin") - 1 - 4
	for size, found := range map[uint32]bool{
		15: true, 16: false /* more than the file has */, 14: false /* no end in it */, 5: false, 4: false, 3: false,
		0: false, 1<<32 - 1: false,
	} {
		data := bytes.Clone(whole)
		binary.LittleEndian.PutUint32(data[table:], size)
		f, err := inspect.Read(bytes.NewReader(data), int64(len(data)))
		if err != nil || (f.CUDA != nil) != found {
			t.Errorf("%d bytes: %+v, %v", size, f, err)
		}
	}
	// What follows the table is none of it.
	data := append(bytes.Clone(whole[:len(whole)-1]), "x\x00"...)
	if f, err := inspect.Read(bytes.NewReader(data), int64(len(data))); err != nil || f.CUDA != nil {
		t.Errorf("%+v, %v", f, err)
	}
}

// sparse is a file with a hole.
type sparse struct {
	head, tail []byte
	at         int64 // of the tail
}

// ReadAt reads zeros from the hole.
func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	end := s.at + int64(len(s.tail))
	n := int(min(int64(len(p)), max(0, end-off)))
	clear(p[:n])
	if off < int64(len(s.head)) {
		copy(p[:n], s.head[off:])
	}
	if from := s.at - off; from < int64(n) {
		copy(p[max(0, from):n], s.tail[max(0, -from):])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Offsets that seven digits cannot say, as in a table of symbols' names of 10 MB and more.
func TestPEFarNames(t *testing.T) {
	for header, at := range map[string]int64{
		"/9999999": 9_999_999, "//AAmJaA": 10_000_000, "//D////n": 1<<32 - 25, "//CAAAAA": 1 << 31,
	} {
		p := named(t, header, "", "")
		whole := p.file(t)
		table := len(whole) - 5
		binary.LittleEndian.PutUint32(whole[table:], uint32(at+11))
		file := sparse{whole, []byte(".nv_fatbin\x00"), int64(table) + at}
		size := file.at + int64(len(file.tail))
		f, err := inspect.Read(file, size)
		if err != nil || f.CUDA == nil || f.CUDA.Fatbins != 1 {
			t.Errorf("%s: %+v, %v", header, f, err)
		}
		if f, err = inspect.Read(file, size-1); err != nil || f.CUDA != nil {
			t.Errorf("%s, cut off: %+v, %v", header, f, err)
		}
	}
}

// What LLVM itself writes where the names of sections take more than 10 MB.
func TestPENamesOfLLVM(t *testing.T) {
	tools, _ := filepath.Glob("/usr/lib/llvm-*/bin/llvm-objcopy")
	if found, err := exec.LookPath("llvm-objcopy"); err == nil {
		tools = append(tools, found)
	}
	if len(tools) == 0 {
		t.Skip("NOT RUN: there is no llvm-objcopy here (Debian package llvm)")
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "some"), "some")
	var args strings.Builder
	for i := range 110 { // it sorts names by how they end, the highest letter first
		fmt.Fprintf(&args, "--add-section=%0100000dz=%s\n", i, filepath.Join(dir, "some"))
	}
	fmt.Fprintf(&args, "--add-section=.nv_fatbin=%s\n", filepath.Join("testdata", "fatbin", "cuda-11.8-lz4.fatbin"))
	put(t, filepath.Join(dir, "args"), args.String())
	out := filepath.Join(dir, "out.dll")
	if text, err := exec.Command(tools[len(tools)-1], "@"+filepath.Join(dir, "args"), "testdata/pe/helper.dll",
		out).CombinedOutput(); err != nil {
		t.Fatalf("llvm-objcopy: %v\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil || !bytes.Contains(data[:1<<13], []byte("//AA")) {
		t.Fatalf("llvm-objcopy writes no base64: %v", err)
	}
	if f, err := inspect.Inspect(out); err != nil || f.CUDA == nil || f.CUDA.Fatbins != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A section is compared with the one of its name, wherever the two files keep that.
func TestComparePELongNames(t *testing.T) {
	dir := t.TempDir()
	file := func(name, header, before, section, fatbin string) string {
		p := newPE(64)
		p.name, p.long, p.header, p.before = section, true, header, before
		p.put(string(read(t, fatbin)))
		to := filepath.Join(dir, name)
		if err := os.WriteFile(to, p.file(t), 0o644); err != nil {
			t.Fatal(err)
		}
		return to
	}
	one := file("one.dll", "/4", "", ".nv_fatbin", "path-one.fatbin")
	two := file("two.dll", "//AAAAAI", "abc\x00", ".nv_fatbin", "path-two.fatbin")
	const hash = "nvcc's hash of the source's path, in the names of what is local to a file; 2 of 2 pieces of device " +
		"code differ"
	got := sections(t, one, two)
	delete(got, "(headers)")
	if diff := cmp.Diff(map[string]string{".nv_fatbin": hash}, got); diff != "" {
		t.Error(diff)
	}
	// One place, two names.
	other := file("other.dll", "/4", "", ".debug_info", "path-one.fatbin")
	got = sections(t, one, other)
	if got[".nv_fatbin"] == "" || got[".debug_info"] == "" || got["/4"] != "" {
		t.Errorf("%v", got)
	}
	// One that is called as what is none.
	like := [2]string{
		file("a.dll", "/4", "", "(headers)", "path-one.fatbin"),
		file("b.dll", "/4", "", "(headers)", "path-two.fatbin"),
	}
	if got = sections(t, like[0], like[1]); len(got) != 1 || got["(headers) (2)"] == "" {
		t.Errorf("%v", got)
	}
	// A name that is too long to be one stays as the header has it.
	odd := file("odd.dll", "/4", "", strings.Repeat("x", 2000), "path-one.fatbin")
	if got = sections(t, one, odd); got["/4"] == "" {
		t.Errorf("%v", got)
	}
}
