package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

func mustHistory(t *testing.T, o Options) *Mirror {
	t.Helper()
	m, err := History(t.Context(), o, "llama.cpp")
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(m.Path + ".scratch*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return m
}

func TestHistory(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "update-ref", "refs/pull/1/head", "HEAD")
	var mu sync.Mutex
	shown := map[string]bool{}
	o := Options{Cache: t.TempDir(), Sources: []spec.Source{
		{Name: "gone", Kind: "git", URL: filepath.Join(t.TempDir(), "nothing")},
		{Name: "tarball", Kind: "archive", URL: "x.tar.gz"},
		{Name: "up", Kind: "git", URL: u.dir},
	}, Progress: func(what string, _, _ int64) { mu.Lock(); shown[what] = true; mu.Unlock() }}
	m := mustHistory(t, o)
	if !m.New || m.Tags != 3 || m.Source != "up" || m.Path != filepath.Join(o.Cache, "mirror", "llama.cpp.git") {
		t.Errorf("made %+v", m)
	}
	if !shown["history: receiving objects"] {
		t.Errorf("no progress was shown, only %v", shown)
	}
	if got := git(t, m.Path, "for-each-ref", "--format=%(refname)"); strings.Contains(got, "pull") ||
		!strings.Contains(got, "refs/heads/master") {
		t.Errorf("refs are %s", got)
	}
	git(t, m.Path, "fsck", "--full", "--strict")

	// What is new comes; a branch that was rewritten, and one in whose place a
	// folder stands now, do no harm.
	git(t, u.dir, "branch", "topic")
	mustHistory(t, o)
	git(t, u.dir, "branch", "-D", "topic")
	git(t, u.dir, "branch", "topic/deeper")
	git(t, u.dir, "commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
	git(t, u.dir, "tag", "b104")
	m = mustHistory(t, o)
	if m.New || m.Tags != 4 {
		t.Errorf("updated %+v", m)
	}
	if got, want := git(t, m.Path, "rev-parse", "master"), git(t, u.dir, "rev-parse", "master"); got != want {
		t.Errorf("master is %s, upstream's %s", got, want)
	}
	if packs, _ := filepath.Glob(filepath.Join(m.Path, "objects", "pack", "*.pack")); len(packs) != 2 {
		t.Errorf("%d packs, want 2: nothing loose", len(packs))
	}

	// A tag that moved is refused and named, the others come; one that upstream
	// removed stays.
	old := git(t, m.Path, "rev-parse", "refs/tags/b101")
	git(t, u.dir, "tag", "-f", "b101", "master")
	git(t, u.dir, "tag", "-d", "b103")
	git(t, u.dir, "tag", "b105")
	_, err := History(t.Context(), o, "llama.cpp")
	var moved *TagsMoved
	if !errors.As(err, &moved) || !slices.Equal(moved.Tags, []string{"b101"}) ||
		!strings.Contains(err.Error(), "tag -d b101") {
		t.Errorf("moved tag: %v", err)
	}
	if got := git(t, m.Path, "rev-parse", "refs/tags/b101"); got != old {
		t.Errorf("the moved tag is at %s now", got)
	}
	git(t, m.Path, "rev-parse", "refs/tags/b103", "refs/tags/b105")

	// A tag comes from the mirror, without the network.
	o.Sources = []spec.Source{{Name: "far", Kind: "git", URL: "https://example.invalid/x"}}
	o.Offline = true
	tree := mustFetch(t, o, "b105")
	if tree.Source != "mirror" {
		t.Errorf("the tag comes from %s", tree.Source)
	}
	// A name that is also the beginning of a commit's id is no tag.
	if _, err := Fetch(t.Context(), o, "llama.cpp", tag.MustParse("b106")); !errors.Is(err, errNoTag) ||
		!errors.Is(err, errOffline) {
		t.Errorf("a tag that the mirror lacks: %v", err)
	}
}

func TestHistoryRefused(t *testing.T) {
	u := newUpstream(t)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, u.dir, "clone", "-q", "--depth", "1", "file://"+u.dir, shallow)
	empty := t.TempDir()
	git(t, empty, "init", "-q")
	git(t, empty, "commit", "-q", "--allow-empty", "-m", "no tag")
	lacking := filepath.Join(t.TempDir(), "lacking")
	git(t, u.dir, "clone", "-q", "--mirror", "file://"+u.dir, lacking)
	pack, err := filepath.Glob(filepath.Join(lacking, "objects", "pack", "*.pack"))
	if err != nil || len(pack) != 1 {
		t.Fatal(pack, err)
	}
	unpackAndLose(t, lacking, pack[0], git(t, u.dir, "rev-parse", "b101:LICENSE"))
	file := filepath.Join(t.TempDir(), "x.bundle")
	git(t, u.dir, "bundle", "create", "-q", file, "--all")
	for name, c := range map[string]struct{ source, want string }{
		"shallow": {shallow, "git fetch --unshallow"},
		"no tags": {empty, "has no tag of a release"},
		"lacking": {lacking, "llpatch status --source"},
		"bundle":  {file, "holds no history"},
		"missing": {filepath.Join(empty, "x"), "nothing is there"},
		"program": {"ext::sh -c 'echo >&2 run'", "not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Cache: t.TempDir(), Override: c.source}
			_, err := History(t.Context(), o, "llama.cpp")
			var gone *NoHistory
			if !errors.As(err, &gone) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			left, rerr := os.ReadDir(filepath.Join(o.Cache, "mirror"))
			if rerr != nil || len(left) != 1 || left[0].Name() != "llama.cpp.git.lock" {
				t.Errorf("left behind: %v, %v", left, rerr)
			}
		})
	}
	t.Run("stopped", func(t *testing.T) {
		o := Options{Cache: t.TempDir(), Override: u.dir}
		ctx, stop := context.WithCancel(t.Context())
		o.Progress = func(string, int64, int64) { stop() }
		if _, err := History(ctx, o, "llama.cpp"); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
		if _, err := os.Stat(MirrorPath(o.Cache, "llama.cpp") + ".scratch"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left behind: %v", err)
		}
	})
	t.Run("no git", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := History(t.Context(), Options{Cache: t.TempDir(), Override: u.dir}, "llama.cpp"); err == nil ||
			!strings.Contains(err.Error(), "install git") {
			t.Errorf("without git: %v", err)
		}
	})
}

// unpackAndLose makes the objects of a pack loose, but for one.
func unpackAndLose(t *testing.T, repo, pack, object string) {
	t.Helper()
	aside := filepath.Join(t.TempDir(), "p.pack")
	if err := os.Rename(pack, aside); err != nil {
		t.Fatal(err)
	}
	git(t, repo, "-c", "alias.u=!git unpack-objects -q <'"+aside+"'", "u")
	if err := os.Remove(filepath.Join(repo, "objects", object[:2], object[2:])); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(strings.TrimSuffix(pack, ".pack") + ".idx"); err != nil {
		t.Fatal(err)
	}
}

func TestUpstreamCommit(t *testing.T) {
	u := newUpstream(t)
	tip := git(t, u.dir, "rev-parse", "b103^{commit}")
	o := Options{Cache: t.TempDir()}
	_, err := UpstreamCommit(t.Context(), o, "llama.cpp", tip)
	var gone *NoHistory
	if !errors.As(err, &gone) || !strings.Contains(err.Error(), "llpatch fetch --history") ||
		!strings.Contains(err.Error(), "mirror: there is none") {
		t.Errorf("no history: %v", err)
	}

	o.Override = u.dir
	c, err := UpstreamCommit(t.Context(), o, "llama.cpp", tip)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(git(t, u.dir, "diff", "--name-only", "--no-renames", tip+"^", tip))
	var got []string
	for _, f := range c.Files {
		got = append(got, f.Path)
		for _, side := range []struct {
			at   string
			file *File
		}{{tip + "^", f.Before}, {tip, f.After}} {
			listed := git(t, u.dir, "ls-tree", side.at, "--", f.Path)
			if listed == "" != (side.file == nil) {
				t.Errorf("%s at %s: %v, git lists %q", f.Path, side.at, side.file, listed)
			}
			if side.file != nil && !strings.HasPrefix(listed, side.file.Mode.String()+" blob "+blobID(side.file.Data)) {
				t.Errorf("%s at %s is %s %s, git lists %q", f.Path, side.at, side.file.Mode, blobID(side.file.Data), listed)
			}
		}
	}
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("files %v, git has %v", got, want)
	}
	if c.Author != "A" || c.Email != "a@example.org" ||
		c.When.UTC().Format("2006-01-02T15:04:05Z") != "2026-03-17T02:01:52Z" {
		t.Errorf("author %q %q %v", c.Author, c.Email, c.When)
	}

	// An address gives the commit and its parents alone; from then on it is in the cache.
	git(t, u.dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	web := Options{Cache: t.TempDir(), Sources: []spec.Source{{
		Name: "web", Upstream: "llama.cpp", Kind: "git",
		URL: gitServer(t, filepath.Join(u.dir, ".git"), nil),
	}}}
	web.Offline = true
	if _, err := UpstreamCommit(t.Context(), web, "llama.cpp", tip); !errors.As(err, &gone) ||
		!strings.Contains(err.Error(), "web: not asked: --offline") {
		t.Errorf("offline: %v", err)
	}
	web.Offline = false
	for _, offline := range []bool{false, true} {
		web.Offline = offline
		far, err := UpstreamCommit(t.Context(), web, "llama.cpp", tip)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, far, cmpopts.IgnoreUnexported(Change{}), cmp.Comparer(func(a, b time.Time) bool {
			return a.Equal(b)
		})); diff != "" {
			t.Errorf("offline %v: -want +got:\n%s", offline, diff)
		}
	}
	if n := git(t, filepath.Join(web.Cache, "llama.cpp.git"), "cat-file", "--batch-all-objects",
		"--batch-check=%(objecttype)"); strings.Count(n, "commit") != 2 {
		t.Errorf("%d commits were fetched", strings.Count(n, "commit"))
	}
	if _, err := UpstreamCommit(t.Context(), Options{Cache: t.TempDir(), Sources: web.Sources}, "llama.cpp",
		strings.Repeat("1", 40)); !errors.As(err, &gone) || !strings.Contains(err.Error(), "web: ask for 1111111") {
		t.Errorf("no such commit: %v", err)
	}

	// A source that is no repository, or lacks the commit, leaves the mirror.
	mustHistory(t, o)
	o.Override = t.TempDir()
	if _, err := UpstreamCommit(t.Context(), o, "llama.cpp", tip); err != nil {
		t.Error(err)
	}
	if _, err := Commit(t.Context(), u.dir, git(t, u.dir, "rev-parse", "b102")); err == nil ||
		!strings.Contains(err.Error(), "is a tag, not a commit") {
		t.Errorf("an annotated tag: %v", err)
	}
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, u.dir, "clone", "-q", "--depth", "1", "file://"+u.dir, shallow)
	if _, err := Commit(t.Context(), shallow, tip); err == nil || !strings.Contains(err.Error(), "its parent is not") {
		t.Errorf("a shallow clone: %v", err)
	}
}
