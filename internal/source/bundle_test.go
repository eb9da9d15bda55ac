package source

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestBundle(t *testing.T) {
	u := newUpstream(t)
	all := filepath.Join(t.TempDir(), "all.bundle")
	git(t, u.dir, "bundle", "create", "-q", "--version=3", all, "--all")
	for name, path := range map[string]string{"squashed": u.bundle(t, "b102"), "whole history, version 3": all} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(t, u.lock)
			o.Override, o.Offline = path, true
			tree := mustFetch(t, o, "b102")
			if tree.ID() != u.tree("b102") || tree.Pin.Commit != u.lock["llama.cpp"]["b102"].Commit {
				t.Errorf("tree %s, pin %+v", tree.ID(), tree.Pin)
			}
			// Without a lock the commit is not known: a squashed one is not upstream's.
			o.Cache, o.Lock = t.TempDir(), nil
			if name == "squashed" {
				return // what it is nobody can tell: TestEvidence
			}
			pin := mustFetch(t, o, "b102").Pin
			if pin.Commit != "" || pin.Tree != u.tree("b102") || pin.Build != 102 ||
				pin.Time.Format("2006-01-02T15:04") != "2026-03-17T02:01" {
				t.Errorf("unlocked pin %+v", pin)
			}
		})
	}
	o, _ := options(t, u.lock)
	o.Override = u.bundle(t, "b102")
	_, err := fetch(t, o, "b101")
	m := as[*Mismatch](t, err)
	if m.What != "tree" || m.Got != u.tree("b102") || m.Want != u.tree("b101") {
		t.Errorf("%+v", m)
	}
	wantErr(t, err, u.tree("b101"), u.tree("b102"))
	nothingLeft(t, o.Cache)
	_, err = fetch(t, Options{Cache: o.Cache, Override: o.Override}, "v1.0.0")
	wantErr(t, err, "build number of v1.0.0")

	thin := filepath.Join(t.TempDir(), "thin.bundle")
	git(t, u.dir, "bundle", "create", "-q", thin, "b101..b102")
	o.Override = thin
	_, err = fetch(t, o, "b102")
	wantErr(t, err, "not complete", u.lock["llama.cpp"]["b101"].Commit)
}

// TestIncompleteBundle: a sound bundle that lacks one file's content.
func TestIncompleteBundle(t *testing.T) {
	u := newUpstream(t)
	commit := u.lock["llama.cpp"]["b101"].Commit
	blob := git(t, u.dir, "rev-parse", "b101:LICENSE")
	list := git(t, u.dir, "rev-list", "--objects", "--no-object-names", "b101")
	cmd := exec.CommandContext(t.Context(), "git", "pack-objects", "-q", "--stdout")
	cmd.Dir = u.dir
	cmd.Stdin = strings.NewReader(strings.Replace(list, blob+"\n", "", 1) + "\n")
	pack, err := cmd.Output()
	must(t, err)
	path := filepath.Join(t.TempDir(), "less.bundle")
	must(t, os.WriteFile(path, append([]byte("# v2 git bundle\n"+commit+" refs/tags/b101\n\n"), pack...), 0o644))
	o, _ := options(t, u.lock)
	o.Override = path
	_, err = fetch(t, o, "b101")
	wantErr(t, err, "lacks LICENSE", blob)
	nothingLeft(t, o.Cache)
}

// TestCorruptBundle changes and cuts a bundle at many places: nothing of it may
// ever come out as the tree, or stay behind.
func TestCorruptBundle(t *testing.T) {
	u := newUpstream(t)
	good, err := os.ReadFile(u.bundle(t, "b102"))
	must(t, err)
	path := filepath.Join(t.TempDir(), "bad.bundle")
	try := func(what string, b []byte) {
		t.Helper()
		must(t, os.WriteFile(path, b, 0o644))
		o, _ := options(t, u.lock)
		o.Override = path
		if tree, err := fetch(t, o, "b102"); err == nil {
			t.Errorf("%s: gave tree %s", what, tree.ID())
		}
		nothingLeft(t, o.Cache)
	}
	at := bytes.Index(good, []byte("PACK"))
	step := max(1, (len(good)-at)/60)
	for i := 0; i < len(good); i += step {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		try(fmt.Sprintf("byte %d of %d changed", i, len(good)), bad)
		try(fmt.Sprintf("cut at %d of %d", i, len(good)), good[:i])
	}
	try("more at the end", append(bytes.Clone(good), "more"...))
	for i := range 20 {
		bad := bytes.Clone(good)
		bad[len(good)-1-i] ^= 1
		try(fmt.Sprintf("byte %d of the checksum", i), bad)
	}
}

func TestBundleHeader(t *testing.T) {
	id := strings.Repeat("a", 40)
	for text, says := range map[string]string{
		"":                                "EOF",
		"PACK":                            "EOF",
		"# v4 git bundle\n\n":             "version 2 or 3",
		"# v2 git bundle\n":               "EOF",
		"# v2 git bundle\n\n":             "no ref",
		"# v2 git bundle\n" + id + "\n\n": "no name",
		"# v2 git bundle\n" + id[1:] + " HEAD\n\n":                                "not known",
		"# v2 git bundle\n@object-format=sha1\n" + id + " HEAD\n\n":               "not known",
		"# v3 git bundle\n@object-format=sha256\n" + id + " HEAD\n\n":             "sha256",
		"# v3 git bundle\n@filter=blob:none\n" + id + " HEAD\n\n":                 "filter",
		"# v2 git bundle\n-" + id + " base\n" + id + " HEAD\n\n":                  "needs commit " + id,
		"# v2 git bundle\n" + id + " " + strings.Repeat("x", 1<<17) + "\n\n":      "too long",
		"# v2 git bundle\n" + strings.Repeat(id+" refs/heads/x\n", 20_000) + "\n": "too long",
	} {
		_, err := readBundleHeader(bufio.NewReaderSize(strings.NewReader(text), 64<<10))
		wantErr(t, err, says)
	}
	r := bufio.NewReaderSize(strings.NewReader("# v2 git bundle\n"+id+" HEAD\n"+id+" refs/tags/b1\n\nPACK"), 64<<10)
	refs, err := readBundleHeader(r)
	must(t, err)
	if rest, _ := io.ReadAll(r); len(refs) != 2 || refs[1].name != "refs/tags/b1" || string(rest) != "PACK" {
		t.Errorf("refs %v, rest %q", refs, rest)
	}
}

func FuzzBundleHeader(f *testing.F) {
	id := strings.Repeat("0f", 20)
	f.Add([]byte("# v2 git bundle\n" + id + " HEAD\n\nPACK"))
	f.Add([]byte("# v3 git bundle\n@object-format=sha1\n" + id + " refs/tags/b1\n\n"))
	f.Add([]byte("# v2 git bundle\n-" + id + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		refs, err := readBundleHeader(bufio.NewReaderSize(bytes.NewReader(b), 64<<10))
		if err == nil && len(refs) == 0 {
			t.Error("no ref and no error")
		}
		for _, r := range refs {
			if r.name == "" {
				t.Error("a ref without a name")
			}
		}
	})
}

func TestBundleByURLAndTags(t *testing.T) {
	u := newUpstream(t)
	b := u.bundle(t, "b102")
	must(t, os.Rename(b, filepath.Join(filepath.Dir(b), "llama-b102.bundle")))
	o, _ := options(t, u.lock)
	o.Sources = []spec.Source{{
		Name: "files", Upstream: "llama.cpp", Kind: "bundle",
		URL: filepath.Join(filepath.Dir(b), "llama-{tag}.bundle"),
	}}
	mustFetch(t, o, "b102")
	_, err := fetch(t, o, "b103")
	wantErr(t, err, "llama-b103.bundle", "no such file", "nearest tags to be had: b102")
	o.Sources[0].Kind = "archive"
	o.Cache = t.TempDir()
	_, err = fetch(t, o, "b102")
	wantErr(t, err, "is of kind bundle, not archive")
}
