package chain

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

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
	for _, name := range []string{
		"toolchains/win7-x64-mingw.toml", "buildenv/openssl-mingw/env.toml", "recipes/check-win7.cmd",
		"recipes/start-server.cmd",
	} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "decl", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	up := filepath.Join(dir, "up")
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"},
		{"tag", "b100"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", up},
			args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	repo, err := spec.Load(os.DirFS(filepath.Join(dir, "decl")))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	e := Workspace{
		Repo: repo, Cache: filepath.Join(dir, "cache"), Out: filepath.Join(dir, "dist"), Source: up, Log: log,
		Records: records.Store{Dir: filepath.Join(dir, "decl"), Cache: filepath.Join(dir, "cache"), Log: log},
	}
	for target, want := range map[string]struct{ compared, needs, differs string }{
		"win7":  {"greet.c", "port", "server.c"},
		"small": {"greet.c", "", ""},
	} {
		o, err := NewOrder(e, tag.MustParse("b100"), target, Flags{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Patch(t.Context(), e, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		paths, needs := c.compared(e), c.needs(e)
		if got := strings.Join(slices.Sorted(maps.Keys(paths)), " "); got != want.compared ||
			strings.Join(needs, " ") != want.needs {
			t.Errorf("%s: compared %q, needed %q", target, got, needs)
		}
		stock, err := c.unpatched(needs)
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
		// Cures are in stock too.
		for i := range c.Series.In {
			c.Series.In[i].Group = spec.Security
		}
		cured, err := c.unpatched(c.inStock(e))
		if err != nil {
			t.Fatal(err)
		}
		if paths := c.compared(e); len(paths) > 0 || cured.ID() != c.Result.Tree.ID() {
			t.Errorf("%s: with cures alone %v is compared, and stock has tree %s, not %s", target, paths, cured.ID(),
				c.Result.Tree.ID())
		}
		if err := c.Tree.Close(); err != nil {
			t.Error(err)
		}
	}
}
