package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// childEnv makes the test binary a process of its own that fetches and checks
// out, for the tests about several processes and about killed ones.
const childEnv = "LLPATCH_SOURCE_TEST_CHILD"

type childJob struct {
	Cache, Override, Tag, Dir string
	Lock                      spec.Lock
}

func TestMain(m *testing.M) {
	run.Supervise() // npm is asked through it
	job := os.Getenv(childEnv)
	if job == "" {
		os.Exit(m.Run())
	}
	if err := childMain(job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func childMain(text string) error {
	var j childJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	tree, err := Fetch(context.Background(), Options{Cache: j.Cache, Override: j.Override, Lock: j.Lock}, "llama.cpp",
		tag.MustParse(j.Tag))
	if err != nil {
		return err
	}
	fmt.Println(tree.ID())
	if j.Dir == "" {
		return nil
	}
	_, err = tree.Checkout(context.Background(), j.Dir, nil)
	return err
}

func (j childJob) command(t *testing.T) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	return cmd
}

// git runs the real git, without the user's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=2026-03-17T02:01:52Z",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_COMMITTER_DATE=2026-03-17T04:01:52+02:00")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// upstream is a real repository with three commits: b101, b102 (an annotated
// tag) and b103.
type upstream struct {
	dir  string
	lock spec.Lock
}

var upstreamTags = []string{"b101", "b102", "b103"}

func newUpstream(t *testing.T) upstream {
	t.Helper()
	u := upstream{dir: t.TempDir(), lock: spec.Lock{"llama.cpp": {}}}
	git(t, u.dir, "init", "-q", "-b", "master")
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(n int) []byte {
		var b bytes.Buffer
		for range n {
			fmt.Fprintf(&b, "line %d of some source text\n", rng.IntN(1000))
		}
		return b.Bytes()
	}
	files := map[string]File{
		"CMakeLists.txt":        {Regular, text(40)},
		"LICENSE":               {Regular, text(20)},
		"build.sh":              {Executable, []byte("#!/bin/sh\n")},
		"docs/a/b/guide.md":     {Regular, text(50)},
		"docs/readme.md":        {Regular, text(50)},
		"empty":                 {Regular, nil},
		"ggml/src/ggml.c":       {Regular, text(4000)},
		"ggml/src/ggml-cpu.c":   {Regular, text(3000)},
		"ggml-x":                {Regular, text(3)},
		"ggml.h":                {Regular, text(30)},
		"link":                  {Symlink, []byte("ggml/src")},
		"models/big.gguf":       {Regular, bytes.Repeat([]byte{1, 2, 3}, 9000)},
		"src/llama \"x\" é.cpp": {Regular, text(400)},
	}
	for i, name := range upstreamTags {
		f := files["ggml/src/ggml.c"]
		files["ggml/src/ggml.c"] = File{f.Mode, slices.Concat(f.Data[:2000*i], []byte("changed in "+name+"\n"),
			f.Data[2000*i:])}
		writeAll(t, u.dir, files)
		git(t, u.dir, "add", "-A")
		git(t, u.dir, "commit", "-q", "-m", name)
		args := []string{"tag", name}
		if name == "b102" {
			args = []string{"tag", "-a", "-m", "annotated", name}
		}
		git(t, u.dir, args...)
		u.lock["llama.cpp"][name] = u.pin(t, name, 101+i)
	}
	return u
}

func (u upstream) pin(t *testing.T, rev string, build int) spec.Pin {
	t.Helper()
	return spec.Pin{
		Commit: git(t, u.dir, "rev-parse", rev+"^{commit}"), Tree: git(t, u.dir, "rev-parse", rev+"^{tree}"),
		Build: build,
	}
}

func (u upstream) tree(name string) string { return u.lock["llama.cpp"][name].Tree }

// bundle makes a bundle as npm packages hold it: one squashed commit, HEAD only.
func (u upstream) bundle(t *testing.T, rev string) string {
	t.Helper()
	commit := git(t, u.dir, "commit-tree", "-m", "squashed", rev+"^{tree}")
	bare := t.TempDir()
	git(t, bare, "init", "-q", "--bare", "-b", "x")
	git(t, u.dir, "push", "-q", bare, commit+":refs/heads/x")
	path := filepath.Join(t.TempDir(), "gitRelease.bundle")
	git(t, bare, "bundle", "create", "-q", path, "HEAD")
	return path
}

func writeAll(t *testing.T, dir string, files map[string]File) {
	t.Helper()
	for p, f := range files {
		p = filepath.Join(dir, filepath.FromSlash(p))
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.RemoveAll(p))
		switch f.Mode {
		case Symlink:
			must(t, os.Symlink(string(f.Data), p))
		case Executable:
			must(t, os.WriteFile(p, f.Data, 0o755))
		default:
			must(t, os.WriteFile(p, f.Data, 0o644))
		}
	}
}

// diskTree is the tree id that git gives to what stands in dir, less the marker
// of a folder of CheckoutOwn.
func diskTree(t *testing.T, dir string) string {
	t.Helper()
	repo := t.TempDir()
	git(t, repo, "init", "-q", "--bare")
	git(t, dir, "--git-dir", repo, "--work-tree", dir, "add", "-A", "-f", ".", ":(exclude,top)"+ownMarker)
	return git(t, dir, "--git-dir", repo, "--work-tree", dir, "write-tree")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// options are those of a fetch with a cache of its own; log gets the messages.
func options(t *testing.T, lock spec.Lock) (Options, *syncBuffer) {
	t.Helper()
	log := &syncBuffer{}
	return Options{Cache: t.TempDir(), Dir: t.TempDir(), Lock: lock, Log: slog.New(slog.NewTextHandler(log, nil))}, log
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func fetch(t *testing.T, o Options, name string) (*Tree, error) {
	t.Helper()
	tree, err := Fetch(t.Context(), o, "llama.cpp", tag.MustParse(name))
	if tree != nil {
		t.Cleanup(func() { must(t, tree.Close()) })
	}
	return tree, err
}

func mustFetch(t *testing.T, o Options, name string) *Tree {
	t.Helper()
	tree, err := fetch(t, o, name)
	must(t, err)
	return tree
}

// wantErr checks that err is there and says all of parts.
func wantErr(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error does not say %q:\n%v", p, err)
		}
	}
}

// nothingLeft checks that a failed fetch left nothing that a later one would use.
func nothingLeft(t *testing.T, cache string) {
	t.Helper()
	for _, pattern := range []string{"*.git/objects/pack/*", "*.git/refs/llpatch/trees/*", "*.scratch/*"} {
		if got, err := filepath.Glob(filepath.Join(cache, pattern)); err != nil || len(got) > 0 {
			t.Errorf("left in the cache: %v (%v)", got, err)
		}
	}
}

// listDir returns every file and folder below dir.
func listDir(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if p != dir {
			out = append(out, filepath.ToSlash(p[len(dir)+1:]))
		}
		return err
	}))
	return out
}

// sorted are the keys of a map.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func as[T error](t *testing.T, err error) T {
	t.Helper()
	var e T
	if !errors.As(err, &e) {
		t.Fatalf("error is %T, want %T: %v", err, e, err)
	}
	return e
}
