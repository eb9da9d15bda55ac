package binary_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	inspect "github.com/llpatch/llpatch/internal/binary"
)

// library compiles C source, which lies in a folder of its own, to a shared library.
func library(t *testing.T, source string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "code.c")
	put(t, name, source)
	out := filepath.Join(dir, "libcode.so")
	if text, err := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-O1", "-o", out, name},
		flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	return out
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sections compares two files and returns what is said of each section, without what
// only follows; "+" marks what is not explained by the causes.
func sections(t *testing.T, a, b string) map[string]string {
	t.Helper()
	c, err := inspect.Compare(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, d := range c.Differ {
		for _, s := range d.Sections {
			if s.Bytes <= 0 {
				t.Errorf("%s: %d bytes differ", s.Name, s.Bytes)
			}
			text := strings.Join(s.Causes, "; ")
			if s.Left > 0 {
				text += "+"
			}
			said[s.Name] = text
		}
	}
	return said
}

func TestCompareELF(t *testing.T) {
	const stamp = "const char *made(void) { return \"made \" __DATE__ \" \" __TIME__; }\n"
	const where = "const char *here(void) { return __FILE__; }\n"
	const id = "it is a hash of the other sections"
	at := func(source, day string, flags ...string) string {
		t.Setenv("SOURCE_DATE_EPOCH", day)
		return library(t, source, append(flags, "-Wl,--build-id=sha1")...)
	}
	for _, c := range []struct {
		name string
		a, b string
		want map[string]string
	}{
		{"the same", at(stamp, "1"), at(stamp, "1"), map[string]string{}},
		{
			"another day", at(stamp, "1"), at(stamp, "1700000000"),
			map[string]string{
				".rodata":            "the date of the build (__DATE__); the time of the build (__TIME__)",
				".note.gnu.build-id": id,
			},
		},
		{
			"another number", at("int n(void) { return 41; }\n", "1"), at("int n(void) { return 42; }\n", "1"),
			map[string]string{".text": "+", ".note.gnu.build-id": id},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, sections(t, c.a, c.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("another folder", func(t *testing.T) {
		a, b := at(where, "1"), at(where, "1")
		want := map[string]string{".rodata": "a folder of the machine: " + filepath.Dir(a) + " in A, " + filepath.Dir(b) +
			" in B", ".note.gnu.build-id": id}
		if diff := cmp.Diff(want, sections(t, a, b)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("one more function", func(t *testing.T) {
		got := sections(t, at("int n(void) { return 1; }\n", "1"),
			at("int n(void) { return 1; }\nint more(int i) { return i * 3 + 7; }\n", "1"))
		if !strings.HasSuffix(got[".text"], "+") || !strings.Contains(got["(headers)"], "sections have other sizes") {
			t.Errorf("%v", got)
		}
	})
}

// What nvcc 11.8 makes of one source in two folders, compressed and in a library.
func TestCompareDeviceCode(t *testing.T) {
	const hash = "nvcc's hash of the source's path, in the names of what is local to a file; 2 of 2 pieces of device " +
		"code differ"
	one, two := filepath.Join("testdata", "fatbin", "path-one.fatbin"),
		filepath.Join("testdata", "fatbin", "path-two.fatbin")
	if diff := cmp.Diff(map[string]string{"(device code)": hash}, sections(t, one, two)); diff != "" {
		t.Error(diff)
	}
	in := func(name string) string {
		return embed(t, map[string][]string{".nv_fatbin": {name}}, "int n;\n", "-Wl,--build-id=none")
	}
	if diff := cmp.Diff(map[string]string{".nv_fatbin": hash}, sections(t, in("path-one.fatbin"),
		in("path-two.fatbin"))); diff != "" {
		t.Error(diff)
	}
	// One source in one folder, compiled twice: it has no function that others can call.
	const process = "the number of nvcc's process, in the names of what is local to a file; 2 of 2 pieces of device " +
		"code differ"
	one, two = filepath.Join("testdata", "fatbin", "process-one.fatbin"),
		filepath.Join("testdata", "fatbin", "process-two.fatbin")
	if diff := cmp.Diff(map[string]string{"(device code)": process}, sections(t, one, two)); diff != "" {
		t.Error(diff)
	}
	// Other code is not taken for another name.
	got := sections(t, in("cuda-11.8-lz4.fatbin"), in("cuda-11.8-none.fatbin"))
	if len(got[".nv_fatbin"]) == 0 || strings.Contains(got[".nv_fatbin"], "nvcc's hash") {
		t.Errorf("%v", got)
	}
}

func TestComparePE(t *testing.T) {
	data, err := os.ReadFile("testdata/pe/app.exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	coff := int(binary.LittleEndian.Uint32(data[0x3c:]))
	with := func(name string, change func(b []byte)) string {
		b := bytes.Clone(data)
		change(b)
		put(t, filepath.Join(dir, name), string(b))
		return filepath.Join(dir, name)
	}
	plain := with("plain", func([]byte) {})
	linked := with("linked", func(b []byte) { binary.LittleEndian.PutUint32(b[coff+8:], 1700000000); b[coff+24+64]++ })
	if diff := cmp.Diff(map[string]string{"(headers)": "the time and the identity of the link"},
		sections(t, plain, linked)); diff != "" {
		t.Error(diff)
	}
	code := with("code", func(b []byte) { b[0x400] ^= 1 })
	if diff := cmp.Diff(map[string]string{".text": "+"}, sections(t, plain, code)); diff != "" {
		t.Error(diff)
	}

	// The debug directory's time and the GUID of its CodeView record.
	debug := func(name string, stamp uint32, guid string) string {
		p := newPE(64)
		record := p.put("RSDS" + guid + "\x01\x00\x00\x00app.pdb\x00")
		raw := record - peRVA + peRaw
		p.dirs[6].VirtualAddress = p.put(uint32(0), stamp, uint32(0), uint32(2), uint32(32), record, raw)
		p.dirs[6].Size = 28
		put(t, filepath.Join(dir, name), string(p.file(t)))
		return filepath.Join(dir, name)
	}
	a, b := debug("a", 1, "0123456789abcdef"), debug("b", 2, "fedcba9876543210")
	if diff := cmp.Diff(map[string]string{".x": "the time and the identity of the link"}, sections(t, a, b)); diff != "" {
		t.Error(diff)
	}
}

func TestCompareFolders(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		put(t, filepath.Join(dir, "same/file"), "text\n")
		put(t, filepath.Join(dir, "run"), "#!/bin/sh\n")
		if err := os.Symlink("same/file", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(a, "one"), "")
	put(t, filepath.Join(b, "two"), "")
	put(t, filepath.Join(a, "text"), "version llp1\n")
	put(t, filepath.Join(b, "text"), "version llp2\n")
	if err := os.Chmod(filepath.Join(b, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("same", filepath.Join(a, "other")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(b, "other"), "a file\n")
	c, err := inspect.Compare(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	want := &inspect.Comparison{A: a, B: b, Same: 2, Differ: []inspect.FileDiffers{
		{Path: "one", Why: "only in A"},
		{Path: "other", Why: "of another kind: a link in A, a file in B"},
		{Path: "run", Why: "the right to be run: -rw-r--r-- in A, -rwxr-xr-x in B"},
		{Path: "text", Bytes: 1, Sections: []inspect.SectionDiffers{{
			Name: "(content)", Sizes: [2]int64{13, 13}, Bytes: 1, First: 11, Causes: []string{}, Left: 1,
			Text: []string{"version llp1", "version llp2"},
		}}},
		{Path: "two", Why: "only in B"},
	}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	if _, err := inspect.Compare(t.Context(), a, filepath.Join(b, "two")); err == nil {
		t.Error("a folder was compared with a file")
	}
}

// Whatever two files hold, comparing them ends, and only equal ones are the same.
func FuzzCompare(f *testing.F) {
	dir := f.TempDir()
	object := filepath.Join(dir, "n.o")
	if err := os.WriteFile(filepath.Join(dir, "n.c"), []byte("int n = 1;\n"), 0o644); err != nil {
		f.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-c", "-o", object, filepath.Join(dir, "n.c")).CombinedOutput(); err != nil {
		f.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, name := range []string{"testdata/pe/helper.dll", "testdata/fatbin/path-one.fatbin", object} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, append(bytes.Clone(data[:len(data)-1]), 1))
		f.Add(data, data[:len(data)/2])
	}
	f.Add(named(f, "/4", "", ".nv_fatbin").file(f), named(f, "//AAAAAI", "abc\x00", ".nv_fatbin").file(f))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "a"), string(a))
		put(t, filepath.Join(dir, "b"), string(b))
		c, err := inspect.Compare(t.Context(), filepath.Join(dir, "a"), filepath.Join(dir, "b"))
		if err != nil {
			t.Fatal(err)
		}
		if same := bytes.Equal(a, b); same != (len(c.Differ) == 0) || same != (c.Same == 1) {
			t.Errorf("equal %v, and %d differ", same, len(c.Differ))
		}
	})
}

// What is named is looked at, not the link that names it; and a folder on one side
// that is a file on the other keeps the rest of the result.
func TestCompareNamedLinks(t *testing.T) {
	dir := t.TempDir()
	link := func(to, name string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	put(t, filepath.Join(dir, "a/lib.so.0"), "one")
	put(t, filepath.Join(dir, "b/lib.so.0"), "two")
	put(t, filepath.Join(dir, "a/x/f"), "f")
	put(t, filepath.Join(dir, "b/x"), "x")
	for _, pair := range [][2]string{
		{link("lib.so.0", "a/lib.so"), link("lib.so.0", "b/lib.so")},
		{link("a", "stage-a"), link("b", "stage-b")},
	} {
		c, err := inspect.Compare(t.Context(), pair[0], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Differ) == 0 || c.A != pair[0] {
			t.Errorf("%s and %s: %+v", pair[0], pair[1], c)
		}
	}
	c, err := inspect.Compare(t.Context(), filepath.Join(dir, "stage-a"), filepath.Join(dir, "a"))
	if err != nil || len(c.Differ) > 0 {
		t.Errorf("a folder and a link to it: %+v, %v", c, err)
	}
	c, err = inspect.Compare(t.Context(), filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range c.Differ {
		got[d.Path] = d.Why
	}
	if got["x"] == "" || got["x/f"] != "only in A" {
		t.Errorf("got %v", got)
	}
}

// Sections tell nothing where one of the two files was cut off.
func TestCompareTruncated(t *testing.T) {
	whole, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("there is no /proc: ", err)
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put(t, a, string(whole))
	put(t, b, string(whole[:20000]))
	c, err := inspect.Compare(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Differ) != 1 || len(c.Differ[0].Sections) != 1 || c.Differ[0].Sections[0].Name != "(content)" {
		t.Errorf("got %+v", c.Differ)
	}
}
