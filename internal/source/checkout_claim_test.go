package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/llpatch/llpatch/internal/exit"
)

// snapshot is every file below dir with its content, and every link's target.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, p := range listDir(t, dir) {
		full := filepath.Join(dir, p)
		data, _ := os.ReadFile(full)
		link, _ := os.Readlink(full)
		fmt.Fprintf(&b, "%s %q %s\n", p, data, link)
	}
	return b.String()
}

func small(t *testing.T, text string) *Tree {
	t.Helper()
	return checkoutTree(t, map[string]File{
		"a.c": {Regular, []byte(text)}, "sub/b.c": {Regular, []byte("b")},
		"l": {Symlink, []byte("a.c")},
	})
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// TestCheckoutKeepsForeignFiles: the careful mode changes nothing where a file is
// neither what it wrote nor what it is to write.
func TestCheckoutKeepsForeignFiles(t *testing.T) {
	one, two := small(t, "one"), small(t, "two")
	for name, c := range map[string]struct {
		meddle func(d string)
		files  []string
	}{
		"no index": {func(d string) {
			must(t, os.Remove(d+".index.json"))
			put(t, d+"/k", "keep")
		}, []string{"a.c", "k"}},
		"another file":  {func(d string) { put(t, d+"/sub/new.c", "mine") }, []string{"sub/new.c"}},
		"edited":        {func(d string) { put(t, d+"/a.c", "mine") }, []string{"a.c"}},
		"edited, keeps": {func(d string) { put(t, d+"/sub/b.c", "mine") }, []string{"sub/b.c"}},
		"link changed": {func(d string) {
			must(t, os.Remove(d+"/l"))
			must(t, os.Symlink("sub", d+"/l"))
		}, []string{"l"}},
		"link for folder": {func(d string) {
			must(t, os.RemoveAll(d+"/sub"))
			must(t, os.Symlink("/etc", d+"/sub"))
		}, []string{"sub"}},
		"made anew": {func(d string) { must(t, os.RemoveAll(d)); put(t, d+"/t", "thesis") }, []string{"t"}},
		"git init":  {func(d string) { git(t, d, "init", "-q") }, []string{".git"}},
		"git init, added": {func(d string) {
			git(t, d, "init", "-q")
			git(t, d, "add", "-A")
			put(t, d+"/a.c", "mine")
		}, []string{".git", "a.c"}},
		"git folder below": {func(d string) { must(t, os.MkdirAll(d+"/sub/.git", 0o755)) }, []string{"sub/.git"}},
		"git file":         {func(d string) { put(t, d+"/.git", "gitdir: x\n") }, []string{".git"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "w")
			_, err := one.Checkout(t.Context(), dir, nil)
			must(t, err)
			c.meddle(dir)
			before := snapshot(t, filepath.Dir(dir))
			_, err = two.Checkout(t.Context(), dir, nil)
			f := as[*Foreign](t, err)
			if !slices.Equal(f.Files, c.files) {
				t.Errorf("files %q, want %q", f.Files, c.files)
			}
			wantErr(t, err, dir, c.files[0], "another folder")
			if after := snapshot(t, filepath.Dir(dir)); after != before {
				t.Errorf("changed:\n%s\nwas:\n%s", after, before)
			}
		})
	}
	// Many are not all listed.
	dir := filepath.Join(t.TempDir(), "w")
	for i := range 30 {
		put(t, fmt.Sprintf("%s/f%02d", dir, i), "x")
	}
	_, err := one.Checkout(t.Context(), dir, nil)
	if f := as[*Foreign](t, err); len(f.Files) != 10 || !f.More {
		t.Errorf("%+v", f)
	}
	wantErr(t, err, "and more")
	// A copy without its index holds nothing but what is to be written.
	dir = filepath.Join(t.TempDir(), "w")
	_, err = one.Checkout(t.Context(), dir, nil)
	must(t, err)
	must(t, os.Remove(dir+".index.json"))
	if stats, err := one.Checkout(t.Context(), dir, nil); err != nil || stats.Kept != 3 {
		t.Errorf("%+v %v", stats, err)
	}
	if _, err := two.Checkout(t.Context(), dir, nil); err != nil || diskTree(t, dir) != two.ID() {
		t.Errorf("from one to two: %v", err)
	}
	// What a kill left half written is ours, of every kind.
	put(t, filepath.Join(dir, tempPrefix+"1-1"), "on")
	put(t, filepath.Join(dir, "sub", tempPrefix+"1-2"), "#!")
	must(t, os.Chmod(filepath.Join(dir, "sub", tempPrefix+"1-2"), 0o755))
	must(t, os.Symlink("a.c", filepath.Join(dir, tempPrefix+"1-3")))
	if stats, err := two.Checkout(t.Context(), dir, nil); err != nil || stats.Removed != 3 ||
		diskTree(t, dir) != two.ID() {
		t.Errorf("with temporary files: %+v %v", stats, err)
	}
	none := checkoutTree(t, map[string]File{"only": {Regular, nil}})
	if stats, err := none.Checkout(t.Context(), dir, nil); err != nil || stats.Removed != 3 || len(stats.Unknown) != 0 {
		t.Errorf("%+v %v", stats, err)
	}
}

// TestForeignIndex: a file in the place of the index that is not one is not
// touched, in no mode.
func TestForeignIndex(t *testing.T) {
	tree := small(t, "one")
	for _, text := range []string{
		`{"my":1}`, "", "hello", "[]", `{"version":1,"files":{}}`,
		`{"format":"other","version":2,"files":{}}`,
	} {
		dir := filepath.Join(t.TempDir(), "o")
		put(t, dir+"/k", "keep")
		put(t, dir+".index.json", text)
		before := snapshot(t, filepath.Dir(dir))
		for _, checkout := range []func(context.Context, string, []string) (Stats, error){tree.Checkout, tree.CheckoutOwn} {
			_, err := checkout(t.Context(), dir, nil)
			wantErr(t, err, dir+".index.json", "not an index of llpatch")
			if after := snapshot(t, filepath.Dir(dir)); after != before {
				t.Errorf("changed:\n%s", after)
			}
		}
	}
	// A lock that is in use elsewhere, or somebody's file of that name, stays.
	dir := filepath.Join(t.TempDir(), "o")
	put(t, dir+".index.json.lock", "mine")
	_, err := tree.Checkout(t.Context(), dir, nil)
	must(t, err)
	if b, err := os.ReadFile(dir + ".index.json.lock"); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
}

// TestCheckoutOwn: the chain's own folder is cleaned of whatever is in it, as
// long as it is the folder that was claimed.
func TestCheckoutOwn(t *testing.T) {
	one, two := small(t, "one"), small(t, "two")
	dir := filepath.Join(t.TempDir(), "src")
	_, err := one.CheckoutOwn(t.Context(), dir, nil)
	must(t, err)
	put(t, dir+"/extra.c", "x")
	put(t, dir+"/a.c", "edited")
	git(t, dir, "init", "-q")
	stats, err := two.CheckoutOwn(t.Context(), dir, nil)
	must(t, err)
	if !slices.Contains(stats.Unknown, "extra.c") {
		t.Errorf("%+v", stats)
	}
	if got := sorted(mtimes(t, dir)); !slices.Equal(got, []string{ownMarker, "a.c", "l", "sub/b.c"}) {
		t.Errorf("left %q", got)
	}
	if stats, err := two.CheckoutOwn(t.Context(), dir, nil); err != nil || stats.Written+stats.Removed+
		len(stats.Unknown) != 0 || stats.Kept != 3 {
		t.Errorf("again: %+v %v", stats, err)
	}
	// Another folder in its place is not the one that was claimed.
	must(t, os.RemoveAll(dir))
	put(t, dir+"/t", "thesis")
	_, err = two.CheckoutOwn(t.Context(), dir, nil)
	if f := as[*Foreign](t, err); !slices.Equal(f.Files, []string{"t"}) {
		t.Errorf("%+v", f)
	}
	// Nor is it one with the marker of another.
	put(t, dir+"/"+ownMarker, strings.Repeat("0", 32)+"\n")
	_, err = two.CheckoutOwn(t.Context(), dir, nil)
	as[*Foreign](t, err)
	// What the careful mode wrote is claimed, if nobody changed it.
	must(t, os.RemoveAll(dir))
	_, err = one.Checkout(t.Context(), dir, nil)
	must(t, err)
	_, err = two.CheckoutOwn(t.Context(), dir, nil)
	must(t, err)
	put(t, dir+"/extra.c", "x")
	_, err = two.CheckoutOwn(t.Context(), dir, nil)
	must(t, err)
	// A marker that was never finished does not stand in the way.
	must(t, os.Remove(dir+"/"+ownMarker))
	must(t, removeIfThere(dir+"/extra.c"))
	for _, name := range []string{tempPrefix + "marker", tempPrefix + "1-1"} {
		put(t, dir+"/"+name, "")
	}
	_, err = two.CheckoutOwn(t.Context(), dir, nil)
	must(t, err)
	// A tree that has the marker's name is refused.
	_, err = checkoutTree(t, map[string]File{ownMarker: {Regular, nil}}).CheckoutOwn(t.Context(), dir, nil)
	wantErr(t, err, ownMarker)
}

// TestStoppedCheckout: what a checkout wrote before it was stopped is known to be
// its own, also to the checkout of another tree.
func TestStoppedCheckout(t *testing.T) {
	many := func(tag string) *Tree {
		files := map[string]File{}
		for i := range 200 {
			files[fmt.Sprintf("d%03d/%s.c", i, tag)] = File{Regular, []byte(tag)}
			files[fmt.Sprintf("d%03d/both.c", i)] = File{Regular, []byte(tag)}
		}
		return checkoutTree(t, files)
	}
	one, two, three := many("one"), many("two"), many("three")
	stopped := 0
	// stop cancels a checkout as soon as one of its files is there.
	stop := func(tree *Tree, dir, file string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
					cancel()
				}
			}
		}()
		if _, err := tree.Checkout(ctx, dir, nil); errors.Is(err, context.Canceled) {
			stopped++
		} else if err != nil {
			t.Errorf("%v", err)
		}
	}
	for i := range 6 {
		dir := filepath.Join(t.TempDir(), "w")
		_, err := one.Checkout(t.Context(), dir, nil)
		must(t, err)
		stop(two, dir, fmt.Sprintf("d%03d/two.c", 30*i))
		stop(three, dir, fmt.Sprintf("d%03d/three.c", 20*i))
		if got := diskTree(t, dir); got == one.ID() {
			t.Error("nothing was written")
		}
		if _, err := one.Checkout(t.Context(), dir, nil); err != nil || diskTree(t, dir) != one.ID() {
			t.Errorf("round %d: %v", i, err)
		}
	}
	if stopped < 4 {
		t.Errorf("only %d of 12 were stopped before their end", stopped)
	}
}

// TestCheckoutsAtOnce: of several processes that write one folder, each writes
// a whole tree.
func TestCheckoutsAtOnce(t *testing.T) {
	u := newUpstream(t)
	for i := range 60 {
		put(t, fmt.Sprintf("%s/src/f%02d/x.c", u.dir, i), strings.Repeat(fmt.Sprint(i, "\n"), 2000))
	}
	for i, name := range []string{"b104", "b105"} {
		put(t, u.dir+"/LICENSE", name)
		for j := range 60 {
			put(t, fmt.Sprintf("%s/src/f%02d/%s.c", u.dir, j, name), strings.Repeat(name, 3000))
		}
		git(t, u.dir, "add", "-A")
		git(t, u.dir, "commit", "-q", "-m", name)
		git(t, u.dir, "tag", name)
		u.lock["llama.cpp"][name] = u.pin(t, name, 104+i)
		git(t, u.dir, "rm", "-q", "-r", "src")
	}
	cache, dir := t.TempDir(), filepath.Join(t.TempDir(), "w")
	for range 3 {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				cmd := childJob{
					Cache: cache, Override: u.dir, Tag: []string{"b104", "b105"}[i%2], Lock: u.lock,
					Dir: dir,
				}.command(t)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		wg.Wait()
		if got := diskTree(t, dir); got != u.tree("b104") && got != u.tree("b105") {
			t.Errorf("a mixed tree: %s", got)
		}
	}
	if got := sorted(mtimes(t, filepath.Dir(dir))); !slices.Contains(got, "w.index.json") ||
		slices.Contains(got, "w.index.json.lock") {
		t.Errorf("beside it: %q", got[len(got)-3:])
	}
}

// TestCheckoutNames: every name of a folder means one index, beside it.
func TestCheckoutNames(t *testing.T) {
	one, two := small(t, "one"), small(t, "two")
	base := t.TempDir()
	dir := filepath.Join(base, "real", "w")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.Symlink("real", filepath.Join(base, "way")))
	must(t, os.Symlink(dir, filepath.Join(base, "link")))
	t.Chdir(dir)
	for i, name := range []string{
		".", filepath.Join(base, "way", "w"), filepath.Join(base, "link"), dir + "/", "../w",
		"../../way/../real/w", ".",
	} {
		tree := []*Tree{one, two}[i%2]
		if _, err := tree.Checkout(t.Context(), name, nil); err != nil || diskTree(t, dir) != tree.ID() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := sorted(mtimes(t, base)); slices.Contains(got, "..index.json") ||
		!slices.Contains(got, "real/w.index.json") || len(got) != 6 {
		t.Errorf("files %q", got)
	}
	// One that is not there yet, through a link.
	if _, err := one.Checkout(t.Context(), filepath.Join(base, "way", "new", "x"), nil); err != nil {
		t.Error(err)
	}
	if _, err := two.Checkout(t.Context(), filepath.Join(base, "real", "new", "x"), nil); err != nil {
		t.Error(err)
	}
	home := filepath.Join(base, "home")
	must(t, os.Mkdir(home, 0o755))
	t.Setenv("HOME", home)
	for name, says := range map[string]string{"/": "root", home: "home", home + "/x/..": "home"} {
		_, err := one.Checkout(t.Context(), name, nil)
		wantErr(t, err, says)
	}
	if got := listDir(t, home); len(got) > 0 {
		t.Errorf("home holds %q", got)
	}
}

// TestCheckoutOfBadLinks: a tree whose links lead out of it is not written,
// wherever it is from.
func TestCheckoutOfBadLinks(t *testing.T) {
	for _, to := range []string{"/etc/passwd", "../../x", "..", "a/../../../x"} {
		tree := checkoutTree(t, map[string]File{"a.c": {Regular, nil}, "sub/l": {Symlink, []byte(to)}})
		if to == ".." {
			tree = checkoutTree(t, map[string]File{"a.c": {Regular, nil}, "l": {Symlink, []byte(to)}})
		}
		for _, checkout := range []func(context.Context, string, []string) (Stats, error){tree.Checkout, tree.CheckoutOwn} {
			dir := filepath.Join(t.TempDir(), "w")
			_, err := checkout(t.Context(), dir, nil)
			wantErr(t, err, "l", to, "out of the tree")
			if exit.Code(err) != exit.Source {
				t.Errorf("exit code %d", exit.Code(err))
			}
			if _, err := os.Stat(filepath.Join(dir, "a.c")); err == nil {
				t.Error("a file was written")
			}
		}
		if _, err := tree.Checkout(t.Context(), filepath.Join(t.TempDir(), "w"), []string{"sub", "l"}); err != nil {
			t.Errorf("excluded: %v", err)
		}
	}
}
