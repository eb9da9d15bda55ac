package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// TestLocalRepositories opens every shape of a repository in place.
func TestLocalRepositories(t *testing.T) {
	u := newUpstream(t)
	bare, linked, shared, packed := t.TempDir(), filepath.Join(t.TempDir(), "linked"), t.TempDir(), t.TempDir()
	git(t, bare, "clone", "-q", "--bare", u.dir, ".")
	git(t, u.dir, "worktree", "add", "-q", linked, "b101")
	git(t, shared, "clone", "-q", "--shared", bare, ".")
	git(t, packed, "clone", "-q", u.dir, ".")
	git(t, packed, "gc", "-q")
	for name, dir := range map[string]string{
		"work tree": u.dir, "bare": bare, "linked": linked, "alternates": shared,
		"packed": packed, "file url": "file://" + bare,
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(t, u.lock)
			o.Override, o.Offline = dir, true
			for _, b := range upstreamTags {
				tree := mustFetch(t, o, b)
				if tree.ID() != u.tree(b) || tree.Pin != u.lock["llama.cpp"][b] || tree.Source != dir {
					t.Errorf("%s: tree %s, pin %+v, source %s", b, tree.ID(), tree.Pin, tree.Source)
				}
				want := git(t, u.dir, "show", b+":ggml/src/ggml.c") + "\n"
				if f, err := tree.Read("ggml/src/ggml.c"); err != nil || string(f.Data) != want {
					t.Errorf("%s: Read: %v", b, err)
				}
			}
			if _, err := os.Stat(filepath.Join(o.Cache, "llama.cpp.git")); err == nil {
				t.Error("a repository in place was copied into the cache")
			}
		})
	}
	for name, dir := range map[string]string{
		"not a repository": t.TempDir(),
		"not there":        filepath.Join(t.TempDir(), "none"),
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(t, u.lock)
			o.Override = dir
			_, err := fetch(t, o, "b101")
			as[*Unavailable](t, err)
			wantErr(t, err, "b101", dir)
		})
	}
}

// TestOnlyTags is the b2034 trap: a branch, a remote branch or a commit id that
// reads like the tag is not the tag.
func TestOnlyTags(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "branch", "b777", "b101")
	git(t, u.dir, "update-ref", "refs/remotes/origin/b777", "b101")
	git(t, u.dir, "update-ref", "refs/b777", "b101")
	// A commit whose id begins with b and six digits, so that its beginning is a tag's name.
	prefix := ""
	for i := range 4000 {
		id := git(t, u.dir, "commit-tree", "-m", strings.Repeat("x", i), "b101^{tree}")
		if id[0] == 'b' && id[1] >= '1' && id[1] <= '9' && id[2] >= '0' && id[2] <= '9' && id[3] >= '0' && id[3] <= '9' {
			git(t, u.dir, "update-ref", "refs/heads/trap", id)
			prefix = id[:4]
			break
		}
	}
	if prefix == "" {
		t.Fatal("no commit id that begins like a tag was found")
	}
	if got := git(t, u.dir, "rev-parse", prefix); !strings.HasPrefix(got, prefix) {
		t.Fatalf("the trap does not work: git takes %s for %s", prefix, got)
	}
	o, _ := options(t, u.lock)
	o.Override = u.dir
	for _, b := range []string{"b777", prefix} {
		_, err := fetch(t, o, b)
		gone := as[*Unavailable](t, err)
		if !errors.Is(err, errNoTag) || gone.Nearest[0] == b {
			t.Errorf("%s: %v", b, err)
		}
	}
}

func TestMovedTag(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "tag", "-f", "b101", "b103")
	o, _ := options(t, u.lock)
	o.Override = u.dir
	_, err := fetch(t, o, "b101")
	m := as[*Mismatch](t, err)
	if m.What != "commit" {
		t.Errorf("mismatch of %s", m.What)
	}
	wantErr(t, err, "moved upstream", u.lock["llama.cpp"]["b101"].Commit, u.lock["llama.cpp"]["b103"].Commit)
}

// TestSameTreeOtherCommit: the pinned tree under another commit is the tag, from a
// repository here or a server, and that is said.
func TestSameTreeOtherCommit(t *testing.T) {
	u := newUpstream(t)
	pinned := u.lock["llama.cpp"]["b101"]
	git(t, u.dir, "checkout", "-q", "b101")
	git(t, u.dir, "commit", "-q", "--amend", "-m", "the same files, told otherwise")
	git(t, u.dir, "tag", "-f", "b101")
	other := git(t, u.dir, "rev-parse", "HEAD")
	for name, source := range map[string]string{"here": u.dir, "a server": gitServer(t, filepath.Join(u.dir, ".git"),
		nil)} {
		o, log := options(t, u.lock)
		o.Override = source
		tree := mustFetch(t, o, "b101")
		if tree.ID() != pinned.Tree || tree.Pin.Commit != pinned.Commit {
			t.Errorf("%s: tree %s, commit %s", name, tree.ID(), tree.Pin.Commit)
		}
		if s := log.String(); other == pinned.Commit || !strings.Contains(s, "the same tree under another commit") ||
			!strings.Contains(s, other) || !strings.Contains(s, pinned.Commit) {
			t.Errorf("%s: log %s", name, s)
		}
	}
}

// TestLostTag: a pinned commit serves where its tag is gone.
func TestLostTag(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "tag", "-d", "b101")
	o, _ := options(t, u.lock)
	o.Override = u.dir
	if tree := mustFetch(t, o, "b101"); tree.ID() != u.tree("b101") {
		t.Errorf("tree %s", tree.ID())
	}
}

func TestNotLocked(t *testing.T) {
	u := newUpstream(t)
	o, log := options(t, spec.Lock{})
	o.Override, o.Locked = u.dir, true
	_, err := fetch(t, o, "b102")
	as[*NotLocked](t, err)
	wantErr(t, err, "b102", "--locked")

	o.Locked = false
	var got spec.Pin
	o.Record = func(up string, tg tag.Tag, p spec.Pin) error {
		if up != "llama.cpp" || tg.String() != "b102" {
			t.Errorf("Record of %s %s", up, tg)
		}
		got = p
		return nil
	}
	mustFetch(t, o, "b102")
	want := u.pin(t, "b102", 102)
	want.Time = got.Time
	if got != want || got.Time.Format("2006-01-02T15:04:05Z07:00") != "2026-03-17T02:01:52Z" {
		t.Errorf("recorded %+v, want %+v", got, want)
	}
	if !strings.Contains(log.String(), "not pinned in recipes/tags.lock") {
		t.Errorf("the log does not tell: %s", log)
	}
	o.Record = func(string, tag.Tag, spec.Pin) error { return os.ErrPermission }
	if _, err := fetch(t, o, "b103"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a failed Record gives %v", err)
	}
}

// TestBuildNumber counts commits for names that hold no number.
func TestBuildNumber(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "tag", "v0.5.0", "b103")
	commit := git(t, u.dir, "rev-parse", "b102^{commit}")
	o, _ := options(t, spec.Lock{})
	o.Override = u.dir
	for name, want := range map[string]int{"v0.5.0": 3, commit: 2, "b103": 103} {
		if tree := mustFetch(t, o, name); tree.Pin.Build != want {
			t.Errorf("%s: build %d, want %d", name, tree.Pin.Build, want)
		}
	}
	shallow := t.TempDir()
	git(t, shallow, "clone", "-q", "--depth", "1", "--branch", "v0.5.0", "file://"+u.dir, ".")
	o.Override = shallow
	_, err := fetch(t, o, "v0.5.0")
	wantErr(t, err, "build number of v0.5.0", "lacks the history", "tags.lock")
	// With the number in the lock the same clone serves; so does the commit under its tag's pin.
	o.Lock = spec.Lock{"llama.cpp": {"v0.5.0": u.pin(t, "b103", 103)}}
	mustFetch(t, o, "v0.5.0")
	if tree := mustFetch(t, o, o.Lock["llama.cpp"]["v0.5.0"].Commit); tree.Pin.Build != 103 ||
		tree.Tag.String() != "v0.5.0" {
		t.Errorf("commit of a pinned tag: %s, build %d", tree.Tag, tree.Pin.Build)
	}
}

// TestPartialClone: what is not there must be excluded, and only that.
func TestPartialClone(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "config", "uploadpack.allowFilter", "true")
	part := t.TempDir()
	git(t, part, "clone", "-q", "--bare", "--filter=blob:limit=20k", "file://"+u.dir, ".")
	o, _ := options(t, u.lock)
	o.Override = part
	tree := mustFetch(t, o, "b103")
	changed, err := tree.With(map[string]*File{"LICENSE": {Regular, []byte("other")}})
	must(t, err)
	if changed.ID() == tree.ID() || tree.ID() != u.tree("b103") {
		t.Error("ID without all contents is wrong")
	}
	big := git(t, u.dir, "rev-parse", "b103:models/big.gguf")
	dir := filepath.Join(t.TempDir(), "out")
	_, err = tree.Checkout(t.Context(), dir, []string{"ggml/src"})
	m := as[*Missing](t, err)
	if m.Path != "models/big.gguf" || m.Blob != big {
		t.Errorf("missing %s %s", m.Path, m.Blob)
	}
	wantErr(t, err, "models/big.gguf", big, part, "partial clone")
	if next := m.Hint(); !strings.HasPrefix(next, "git -C "+part+" fetch --refetch --no-filter completes it") ||
		!strings.Contains(next, "exclude") {
		t.Error(next)
	}
	if left := listDir(t, dir); len(left) > 0 {
		t.Errorf("written before it was known that a file is missing: %v", left)
	}
	_, err = tree.Read("models/big.gguf")
	as[*Missing](t, err)
	stats, err := tree.Checkout(t.Context(), dir, []string{"models/*.gguf", "ggml/**"})
	must(t, err)
	if stats.Written != len(tree.Files())-3 {
		t.Errorf("%+v", stats)
	}
}

func TestUnreadableFormats(t *testing.T) {
	u := newUpstream(t)
	for _, c := range []struct{ key, value, says string }{
		{"extensions.objectformat", "sha256", "sha256"},
		{"extensions.refstorage", "reftable", "reftable"},
	} {
		bare := t.TempDir()
		git(t, bare, "clone", "-q", "--bare", u.dir, ".")
		config := filepath.Join(bare, "config")
		git(t, bare, "config", "-f", config, c.key, c.value)
		o, _ := options(t, u.lock)
		o.Override = bare
		_, err := fetch(t, o, "b101")
		wantErr(t, err, c.says, config)
	}
}

func TestNearest(t *testing.T) {
	u := newUpstream(t)
	few := t.TempDir()
	git(t, few, "clone", "-q", "--bare", u.dir, ".")
	git(t, few, "tag", "-d", "b102")
	git(t, few, "tag", "other")
	lock := spec.Lock{"llama.cpp": {"b101": u.lock["llama.cpp"]["b101"], "b103": u.lock["llama.cpp"]["b103"]}}
	o, log := options(t, lock)
	o.Sources = []spec.Source{
		{Name: "ik", Upstream: "ik_llama.cpp", Kind: "git", URL: u.dir},
		{Name: "few", Upstream: "llama.cpp", Kind: "git", URL: few},
		{Name: "none", Upstream: "llama.cpp", Kind: "git", URL: filepath.Join(few, "nowhere")},
	}
	_, err := fetch(t, o, "b102")
	gone := as[*Unavailable](t, err)
	if strings.Join(gone.Nearest, " ") != "b101 b103" || len(gone.Tried) != 2 {
		t.Errorf("%+v", gone)
	}
	wantErr(t, err, "llama.cpp b102", "few:", "none:", "nowhere", "nearest tags to be had: b101, b103")

	o.Nearest = true
	tree := mustFetch(t, o, "b102")
	if tree.Tag.String() != "b101" || tree.Asked.String() != "b102" || tree.ID() != u.tree("b101") {
		t.Errorf("nearest is %s (asked %s)", tree.Tag, tree.Asked)
	}
	if !strings.Contains(log.String(), "USING b101 INSTEAD") || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("it is not said loudly: %s", log)
	}
	if tree := mustFetch(t, o, "b103"); !tree.Asked.IsZero() {
		t.Errorf("a tag that is there was asked for as %s", tree.Asked)
	}
	o.Sources = nil
	_, err = fetch(t, o, "b102")
	wantErr(t, err, "none is declared")
}
