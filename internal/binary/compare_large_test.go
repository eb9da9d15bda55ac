package binary_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	inspect "github.com/llpatch/llpatch/internal/binary"
)

// large makes a library with a section of 20 MiB of strings, and of dates among them where
// blocks end.
func large(t *testing.T, date, tail string) string {
	t.Helper()
	var words bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for words.Len() < 1<<16 {
		words.WriteByte(byte('a' + r.IntN(26)))
		if r.IntN(30) == 0 {
			words.WriteByte(0)
		}
	}
	var b bytes.Buffer
	for b.Len() < 20<<20 {
		b.Write(words.Bytes())
		if b.Len()%(4<<20) < words.Len() { // what a block ends in
			for range 20 {
				b.WriteString("built " + date + "\x00")
			}
		}
	}
	b.WriteString(tail)
	blob := filepath.Join(t.TempDir(), "blob")
	put(t, blob, b.String())
	return library(t, `__asm__(".section .large,\"a\"\n.incbin \"`+blob+`\"\n.text");`+"\nint n;\n", "-Wl,--build-id=none")
}

// A large section is looked through block by block: the causes are found, and memory does
// not grow with it.
func TestCompareLargeSection(t *testing.T) {
	a, b := large(t, "Jan  1 2026", "ends so"), large(t, "Feb  2 2027", "ends so")
	c := large(t, "Jan  1 2026", "ends sa")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := sections(t, a, b)
	runtime.ReadMemStats(&after)
	if got[".large"] != "the date of the build (__DATE__)" {
		t.Errorf("%v", got)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 300 {
		t.Errorf("%d MiB were allocated", used)
	}
	cmp, err := inspect.Compare(t.Context(), a, c)
	if err != nil || len(cmp.Differ) != 1 || len(cmp.Differ[0].Sections) != 1 {
		t.Fatalf("%+v, %v", cmp, err)
	}
	s := cmp.Differ[0].Sections[0]
	if s.Left != 1 || s.First != s.Sizes[0]-1 || len(s.Text) != 2 || !strings.HasSuffix(s.Text[1], "ends sa") {
		t.Errorf("%+v", s)
	}

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	start := time.Now()
	if _, err := inspect.Compare(ctx, a, b); err == nil || ctx.Err() == nil {
		t.Errorf("it went on: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
}

// Folders with nothing in them, and the bits that make a program run as another.
func TestCompareFoldersAndBits(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{"a/x", "b/x"} {
		put(t, filepath.Join(top, name), "x")
	}
	for _, dir := range []string{"a/both", "b/both", "a/empty", "a/file", "b/full"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(top, "b/file"), "x")
	put(t, filepath.Join(top, "b/full/y"), "x")
	if err := os.MkdirAll(filepath.Join(top, "a/full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(top, "b/x"), 0o644|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	c, err := inspect.Compare(t.Context(), filepath.Join(top, "a"), filepath.Join(top, "b"))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, d := range c.Differ {
		said = append(said, d.Path+": "+d.Why)
	}
	want := "empty: only in A, an empty folder\nfile: of another kind: a folder in A, a file in B\nfull/y: only in " +
		"B\nx: as whom it runs: -rw-r--r-- in A, urw-r--r-- in B"
	if got := strings.Join(said, "\n"); got != want || c.Same != 0 {
		t.Errorf("%d the same, and\n%s\nwant\n%s", c.Same, got, want)
	}
}

// Sections of one name in a PE file are told apart.
func TestComparePESectionsOfOneName(t *testing.T) {
	app, err := os.ReadFile("testdata/pe/app.exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".rdata\x00\x00", ".pdata\x00\x00", ".idata\x00\x00"} {
		i := bytes.Index(app[:0x400], []byte(name))
		if i < 0 {
			t.Fatalf("app.exe has no %q", name)
		}
		copy(app[i:], ".text\x00\x00\x00")
	}
	other := bytes.Clone(app)
	other[bytes.Index(other, []byte("helper"))] = 'H' // in what was .idata
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), string(app))
	put(t, filepath.Join(dir, "b"), string(other))
	got := sections(t, filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if len(got) != 1 || got[".text (4)"] != "+" {
		t.Errorf("%v", got)
	}
}

// What /proc has says that it has no bytes.
func TestCompareProc(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc: ", err)
	}
	c, err := inspect.Compare(t.Context(), "/proc/self/cmdline", "/proc/1/status")
	if err != nil || len(c.Differ) != 1 || c.Differ[0].Bytes < 10 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = inspect.Compare(t.Context(), "/proc/version", "/proc/version"); err != nil || c.Same != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}
