package source

import (
	"archive/tar"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// recording are options whose Record keeps what it is given, for a source.
func recording(t *testing.T, lock spec.Lock, from string) (Options, map[string]spec.Pin) {
	t.Helper()
	o, _ := options(t, lock)
	pins := map[string]spec.Pin{}
	o.Override = from
	o.Record = func(_ string, t tag.Tag, p spec.Pin) error { pins[t.String()] = p; return nil }
	return o, pins
}

// TestEvidence: a tag that is in no lock is taken only from what says that it is
// that tag; a pinned one is proven by its tree.
func TestEvidence(t *testing.T) {
	u := newUpstream(t)
	save := func(name string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, b, 0o644))
		return path
	}
	tagged := filepath.Join(t.TempDir(), "tag.bundle")
	git(t, u.dir, "bundle", "create", "-q", tagged, "b102")
	both := filepath.Join(t.TempDir(), "both.bundle")
	git(t, u.dir, "bundle", "create", "-q", both, "HEAD", "b103")
	archive := func(prefix string) string {
		path := filepath.Join(t.TempDir(), "src.tar.gz")
		git(t, u.dir, "archive", "--prefix="+prefix+"/", "-o", path, "b102")
		return path
	}
	info := func(text string) entry { return file("package/llama/llama.cpp.info.json", text) }
	b, err := os.ReadFile(u.bundle(t, "b102"))
	must(t, err)
	early := save("early.tgz", tarGzOf(t, info(`{"tag": "b102"}`), file("package/llama/gitRelease.bundle", string(b))))
	for name, c := range map[string]struct {
		path  string
		tells string // the tag that it says it is; "": none
	}{
		"bundle of a tag":           {tagged, "b102"},
		"bundle of HEAD and a tag":  {both, "b103"},
		"bundle of HEAD":            {u.bundle(t, "b102"), ""},
		"archive named as upstream": {archive("llama.cpp-b102"), "b102"},
		"archive of another name":   {archive("x"), ""},
		"archive of a commit":       {archive("llama.cpp-" + u.lock["llama.cpp"]["b102"].Commit), ""},
		"npm package": {
			save("p.tgz", npmPackage(t, u, info(`{"tag": "b102", "llamaCppGithubRepo": "x/y"}`))),
			"b102",
		},
		"npm package, info first":  {early, "b102"},
		"npm package without info": {save("q.tgz", npmPackage(t, u)), ""},
		"npm package, broken info": {save("r.tgz", npmPackage(t, u, info(`{"tag": 102}`))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, asked := range upstreamTags {
				o, pins := recording(t, nil, c.path)
				tree, err := fetch(t, o, asked)
				if asked == c.tells {
					if err != nil || tree.ID() != u.tree(asked) || pins[asked].Tree != tree.ID() {
						t.Errorf("%s: %v, recorded %v", asked, err, pins)
					}
					continue
				}
				gone := as[*Unavailable](t, err)
				if c.tells != "" {
					wantErr(t, err, "it is "+c.tells)
					if strings.Join(gone.Nearest, " ") != c.tells {
						t.Errorf("%s: nearest %v", asked, gone.Nearest)
					}
				} else {
					wantErr(t, err, "nothing", "recipes/tags.lock",
						fmt.Sprintf(`"%s": {"tree":"%s","build":%s,"time":"2026-03-17T02:01:52Z"}`, asked, u.tree("b102"), asked[1:]))
				}
				nothingLeft(t, o.Cache)
				if _, err := os.Stat(filepath.Join(o.Cache, "llama.cpp.pins.json")); err == nil || len(pins) > 0 {
					t.Errorf("%s was recorded: %v", asked, pins)
				}
			}
			right := c.tells
			if right == "" {
				right = "b102"
			}
			o, _ := options(t, u.lock)
			o.Override = c.path
			mustFetch(t, o, right)
		})
	}
	// The tag's own name counts for less than a pin: two tags may be one commit.
	o, _ := options(t, spec.Lock{"llama.cpp": {"v0.5.0": u.lock["llama.cpp"]["b102"]}})
	o.Override = tagged
	mustFetch(t, o, "v0.5.0")
	// A pinned tag that the bundle is not, and does not claim to be, is no forgery.
	o, _ = options(t, u.lock)
	o.Override = tagged
	_, err = fetch(t, o, "b101")
	if gone := as[*Unavailable](t, err); strings.Join(gone.Nearest, " ") != "b102" {
		t.Errorf("nearest %v", gone.Nearest)
	}
}

// TestPinMustBeReadable: what the lock's own reader would refuse is not recorded.
func TestPinMustBeReadable(t *testing.T) {
	u := newUpstream(t)
	archive := func(when time.Time, entries ...entry) string {
		for i := range entries {
			entries[i].h.ModTime = when
			entries[i].h.Format = tar.FormatPAX
		}
		path := filepath.Join(t.TempDir(), "src.tar.gz")
		must(t, os.WriteFile(path, tarGzOf(t, entries...), 0o644))
		return path
	}
	f := file("llama.cpp-b104/a", "a")
	folder := entry{tar.Header{Typeflag: tar.TypeDir, Name: "llama.cpp-b104/", Mode: 0o755}, ""}
	commit := func(text string) string {
		cmd := exec.CommandContext(t.Context(), "git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
		cmd.Dir, cmd.Stdin = u.dir, strings.NewReader("tree "+u.tree("b103")+"\n"+text+"\n\nx\n")
		out, err := cmd.Output()
		must(t, err)
		git(t, u.dir, "update-ref", "refs/tags/b104", strings.TrimSpace(string(out)))
		path := filepath.Join(t.TempDir(), "x.bundle")
		git(t, u.dir, "bundle", "create", "-q", path, "b104")
		return path
	}
	late := commit("author A <a@x> 1 +0000\ncommitter A <a@x> 300000000000 +0000")
	for name, c := range map[string]struct{ path, says string }{
		"archive of the year 1970": {archive(time.Unix(0, 0), f), "time"},
		"archive before 1970":      {archive(time.Unix(-5, 0), f), "time"},
		"archive of a far year":    {archive(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), f), "12000"},
		"empty archive":            {archive(time.Unix(1700000000, 0), folder), "no file"},
		"commit of a far year":     {late, "year"},
		"no committer":             {commit("author A <a@x> 1 +0000"), "time"},
		"repository":               {u.dir, "time"},
	} {
		o, pins := recording(t, nil, c.path)
		_, err := fetch(t, o, "b104")
		as[*Unavailable](t, err)
		wantErr(t, err, c.says)
		nothingLeft(t, o.Cache)
		if _, err := os.Stat(filepath.Join(o.Cache, "llama.cpp.pins.json")); err == nil || len(pins) > 0 {
			t.Errorf("%s: recorded %v", name, pins)
		}
	}
}

// TestNoNearestCommit: an id that nobody has is not the newest release.
func TestNoNearestCommit(t *testing.T) {
	u := newUpstream(t)
	o, _ := options(t, u.lock)
	o.Override, o.Nearest = u.dir, true
	_, err := fetch(t, o, strings.Repeat("ab", 20))
	if gone := as[*Unavailable](t, err); len(gone.Nearest) > 0 {
		t.Errorf("nearest %v", gone.Nearest)
	}
}

// TestLogOfNearest: one short line says what is used; what the sources said is
// for --verbose.
func TestLogOfNearest(t *testing.T) {
	u := newUpstream(t)
	o, log := options(t, u.lock)
	o.Override, o.Nearest = u.dir, true
	mustFetch(t, o, "b110")
	var debug syncBuffer
	o.Log = slog.New(slog.NewTextHandler(&debug, &slog.HandlerOptions{Level: slog.LevelDebug}))
	mustFetch(t, o, "b110")
	if got := log.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, `\n`) ||
		!strings.Contains(got, "b110") || !strings.Contains(got, "USING b103 INSTEAD") || !strings.Contains(got, u.dir) {
		t.Errorf("log:\n%s", got)
	}
	if !strings.Contains(debug.String(), "source does not serve") {
		t.Errorf("debug log:\n%s", debug.String())
	}
}

// TestSecretsOfURLs: the password of an address is in no message, no log, no
// record and no file.
func TestSecretsOfURLs(t *testing.T) {
	u := newUpstream(t)
	url := gitServer(t, filepath.Join(u.dir, ".git"), nil)
	withUser := func(user string) string { return strings.Replace(url, "http://", "http://"+user+"@", 1) }
	for name, address := range map[string]string{
		"served":            withUser("me:hunter2"),
		"gone":              withUser("me:hunter2") + "/none",
		"token alone":       withUser("hunter2"),
		"no URL":            "http://me:hunter2%zz@127.0.0.1/x.git",
		"file":              withUser("me:hunter2") + "/x.tgz",
		"file, token alone": withUser("hunter2") + "/x.tgz",
		"ssh":               "ssh://me:hunter2@127.0.0.1:1/x.git",
	} {
		t.Run(name, func(t *testing.T) {
			o, log := options(t, nil)
			o.Override = address
			o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			tree, err := fetch(t, o, "b102")
			said := fmt.Sprintf("%s\n%v", log, err)
			if tree != nil {
				said += tree.Source
			} else if name == "served" || name == "token alone" {
				t.Errorf("%v", err)
			}
			if strings.Contains(said, "hunter2") {
				t.Errorf("said: %s", said)
			}
			o.Lock = spec.Lock{"llama.cpp": {"b102": u.lock["llama.cpp"]["b101"]}}
			if _, err := fetch(t, o, "b102"); strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("said: %v", err)
			}
			for _, p := range listDir(t, o.Cache) {
				if b, err := os.ReadFile(filepath.Join(o.Cache, p)); err == nil && bytes.Contains(b, []byte("hunter2")) {
					t.Errorf("%s: %s", p, b)
				}
			}
		})
	}
	for in, want := range map[string]string{
		"https://me:pw@h/x.git": "https://xxxxx@h/x.git",
		"https://tok@h/x":       "https://xxxxx@h/x",
		"ssh://git@h/x":         "ssh://git@h/x",
		"ssh://git:pw@h/x":      "ssh://git:xxxxx@h/x",
		"git@h:x/y.git":         "git@h:x/y.git",
		"/a/b@c:d":              "/a/b@c:d",
		"https://a:%zz@h/x":     "https://xxxxx@h/x",
	} {
		if got := redacted(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
