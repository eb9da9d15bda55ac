package source

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// gitServer serves a repository with git's own http-backend; wrap may interfere.
func gitServer(t *testing.T, dir string, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	backend := filepath.Join(git(t, dir, "--exec-path"), "git-http-backend")
	var h http.Handler = &cgi.Handler{
		Path: backend,
		Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
	}
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/" + filepath.Base(dir)
}

func TestRemote(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "tag", "v0.5.0", "b103")
	git(t, u.dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	var requests atomic.Int64
	url := gitServer(t, filepath.Join(u.dir, ".git"), func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests.Add(1); h.ServeHTTP(w, r) })
	})
	o, _ := options(t, u.lock)
	o.Sources = []spec.Source{{Name: "web", Upstream: "llama.cpp", Kind: "git", URL: url}}
	var last int64
	o.Progress = func(_ string, done, _ int64) { last = done }
	for _, b := range upstreamTags {
		tree := mustFetch(t, o, b)
		if tree.ID() != u.tree(b) || tree.Source != "web" {
			t.Errorf("%s: tree %s from %s", b, tree.ID(), tree.Source)
		}
		if f, err := tree.Read("ggml/src/ggml.c"); err != nil || !strings.Contains(string(f.Data), "changed in "+b) {
			t.Errorf("%s: Read: %v", b, err)
		}
	}
	if last == 0 {
		t.Error("no progress was reported")
	}
	// What was fetched needs no network again; one commit was fetched, not its history.
	before := requests.Load()
	start := time.Now()
	if tree := mustFetch(t, o, "b102"); tree.Source != "cache" {
		t.Errorf("second fetch from %s", tree.Source)
	}
	if took := time.Since(start); took > 100*time.Millisecond {
		t.Errorf("second fetch took %v", took)
	}
	o.Offline = true
	mustFetch(t, o, "b103")
	if n := requests.Load() - before; n != 0 {
		t.Errorf("%d requests for what is in the cache", n)
	}
	cached := filepath.Join(o.Cache, "llama.cpp.git")
	if n := git(t, cached, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"); strings.Count(n,
		"commit") != 3 {
		t.Errorf("cache holds %d commits", strings.Count(n, "commit"))
	}
	o.Offline = false

	// A commit by its id, and names whose number a fetch of one commit cannot give.
	commit := u.lock["llama.cpp"]["b103"].Commit
	if tree := mustFetch(t, Options{Cache: t.TempDir(), Lock: u.lock, Sources: o.Sources},
		commit); tree.ID() != u.tree("b103") {
		t.Errorf("by commit: %s", tree.ID())
	}
	_, err := fetch(t, o, "v0.5.0")
	wantErr(t, err, "build number of v0.5.0", "tags.lock")

	// A tag that is not there, and what is near.
	_, err = fetch(t, o, "b110")
	wantErr(t, err, "b110", "no such tag", "b103, b102, b101")

	// Unlocked, then offline from what the cache remembers.
	plain, _ := options(t, nil)
	plain.Sources = o.Sources
	if tree := mustFetch(t, plain, "b102"); tree.Pin.Commit != u.lock["llama.cpp"]["b102"].Commit ||
		tree.Pin.Build != 102 {
		t.Errorf("unlocked pin %+v", tree.Pin)
	}
	plain.Offline = true
	if tree := mustFetch(t, plain, "b102"); tree.Source != "cache" {
		t.Errorf("offline from %s", tree.Source)
	}
	_, err = fetch(t, plain, "b101")
	wantErr(t, err, "--offline")

	// The tag moves: refused without a download.
	git(t, u.dir, "tag", "-f", "b101", "b103")
	moved, _ := options(t, u.lock)
	moved.Sources = o.Sources
	_, err = fetch(t, moved, "b101")
	as[*Mismatch](t, err)
	wantErr(t, err, "moved upstream", u.lock["llama.cpp"]["b101"].Commit, u.lock["llama.cpp"]["b103"].Commit)
	nothingLeft(t, moved.Cache)
}

// TestRemoteTrouble: each kind of trouble ends in one message and leaves nothing.
func TestRemoteTrouble(t *testing.T) {
	u := newUpstream(t)
	dir := filepath.Join(u.dir, ".git")
	// A port that nothing listens on.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	dead := "http://" + l.Addr().String() + "/x.git"
	must(t, l.Close())
	onPack := func(bad http.HandlerFunc) string {
		return gitServer(t, dir, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
					bad(w, r)
					return
				}
				h.ServeHTTP(w, r)
			})
		})
	}
	// The real answer, cut in the middle or with a byte changed.
	var whole http.Handler
	gitServer(t, dir, func(h http.Handler) http.Handler { whole = h; return h })
	tampered := func(change func([]byte) []byte) string {
		return onPack(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			whole.ServeHTTP(rec, r)
			w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
			_, _ = w.Write(change(rec.Body.Bytes()))
		})
	}
	hang := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client is gone
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for name, c := range map[string]struct {
		url  string
		says string
	}{
		"dead": {dead, "refused"},
		"404":  {gitServer(t, dir, func(http.Handler) http.Handler { return http.NotFoundHandler() }), "not found"},
		"slow": {gitServer(t, dir, func(http.Handler) http.Handler {
			return http.HandlerFunc(hang)
		}), "nothing for"},
		"stall": {onPack(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, "0008NAK\n")
			hang(w, r)
		}), "nothing for"},
		"cut":  {tampered(func(b []byte) []byte { return b[:len(b)/2] }), "EOF"},
		"flip": {tampered(func(b []byte) []byte { b[len(b)/2] ^= 4; return b }), "pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _ := options(t, u.lock)
			o.Sources = []spec.Source{
				{Name: "bad", Upstream: "llama.cpp", Kind: "git", URL: c.url},
				{Name: "good", Upstream: "llama.cpp", Kind: "git", URL: u.dir},
			}
			f := newFetcher(t.Context(), o, "llama.cpp")
			f.stall = 300 * time.Millisecond
			tree, err := f.fetch(t.Context(), tag.MustParse("b102"))
			must(t, err)
			defer func() { must(t, tree.Close()) }()
			if tree.Source != "good" {
				t.Errorf("tree from %s", tree.Source)
			}
			nothingLeft(t, o.Cache)

			o.Sources = o.Sources[:1]
			f = newFetcher(t.Context(), o, "llama.cpp")
			f.stall = 300 * time.Millisecond
			_, err = f.fetch(t.Context(), tag.MustParse("b102"))
			as[*Unavailable](t, err)
			wantErr(t, err, "bad:", c.says)
			if _, err := os.Stat(filepath.Join(o.Cache, "llama.cpp.pins.json")); err == nil {
				t.Error("a failed fetch was remembered")
			}
		})
	}
}
