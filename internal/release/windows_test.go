package release

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Windows finds a DLL whatever the case of its name, and a program by its name
// with .exe.
func TestClosureOfWindowsFiles(t *testing.T) {
	bin := t.TempDir()
	for from, to := range map[string]string{"app.exe": "app.exe", "helper.dll": "HELPER.DLL"} {
		data, err := os.ReadFile(filepath.Join("../binary/testdata/pe", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, to), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := closure(bin, []string{"HELPER.DLL", "app.exe", "other.dll"}, []string{"app"}, nil)
	if err != nil || !slices.Equal(got, []string{"HELPER.DLL", "app.exe"}) {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, err := closure(bin, nil, []string{"none"}, nil); err == nil || !strings.Contains(err.Error(), "program none was not built") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// The same files give the same zip, with no folder at its top, and what comes out
// is what went in.
func TestZipBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "llama")
	files := map[string]string{"b.exe": strings.Repeat("llama", 1<<18), "a/LICENSE": "MIT", "empty": ""}
	when := time.Date(2026, 3, 17, 2, 1, 52, 0, time.UTC)
	var first []byte
	for i := range 2 {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		archive := filepath.Join(t.TempDir(), "a.zip")
		sum, err := writeZip(t.Context(), archive, dir, when)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = data
		} else if !bytes.Equal(first, data) {
			t.Fatal("the same files give another zip")
		}
		if len(sum) != 64 {
			t.Errorf("sum %q", sum)
		}
	}
	r, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || string(text) != files[f.Name] {
			t.Errorf("%s: %d bytes, %v", f.Name, len(text), err)
		}
		if !f.Modified.Equal(when) {
			t.Errorf("%s: time %v", f.Name, f.Modified)
		}
	}
	if !slices.Equal(names, []string{"a/LICENSE", "b.exe", "empty"}) {
		t.Errorf("names %v", names)
	}

	if err := os.Symlink("b.exe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var r2 *binary.Rejected
	if _, err := writeZip(t.Context(), filepath.Join(t.TempDir(), "b.zip"), dir, when); !errors.As(err, &r2) {
		t.Errorf("a link: %v", err)
	}
}

// A stock build for Windows has what only that system needs, and nothing else of the
// series; where no other fix touches what the target compiles, there is none.
func TestStockOfOneSystem(t *testing.T) {
	dir := t.TempDir()
	a, err := txtar.ParseFile("../cli/testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	script, err := txtar.ParseFile("../cli/testdata/script/win7.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range script.Files {
		if f.Name == "series" {
			f.Name = "decl/patches/series"
		}
		a.Files = slices.DeleteFunc(a.Files, func(o txtar.File) bool { return o.Name == f.Name })
		a.Files = append(a.Files, f)
	}
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"toolchains/win7-x64-mingw.toml", "recipes/check-win7.cmd", "recipes/start-server.cmd"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "decl", name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	up := filepath.Join(dir, "up")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"}, {"tag", "b100"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", up}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	repo, err := spec.Load(os.DirFS(filepath.Join(dir, "decl")))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	o := Options{
		Repo: repo, Cache: filepath.Join(dir, "cache"), Out: filepath.Join(dir, "dist"), Source: up, Log: log,
		Records: records.Store{Dir: filepath.Join(dir, "decl"), Cache: filepath.Join(dir, "cache"), Log: log},
	}
	for target, want := range map[string]struct{ compared, needs, differs string }{
		"win7":  {"greet.c", "port", "server.c"},
		"small": {"greet.c", "", ""},
	} {
		c, err := Open(t.Context(), o, tag.MustParse("b100"), target)
		if err != nil {
			t.Fatal(err)
		}
		paths, needs := c.compared()
		if got := strings.Join(slices.Sorted(maps.Keys(paths)), " "); got != want.compared || strings.Join(needs, " ") != want.needs {
			t.Errorf("%s: compared %q, needed %q", target, got, needs)
		}
		stock, err := c.unpatched(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var differs []string
		for _, name := range []string{"greet.c", "server.c"} {
			is, err1 := stock.Read(name)
			was, err2 := c.Tree.Read(name)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(is.Data, was.Data) {
				differs = append(differs, name)
			}
		}
		if got := strings.Join(differs, " "); got != want.differs {
			t.Errorf("%s: the stock tree has %q changed, want %q", target, got, want.differs)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
