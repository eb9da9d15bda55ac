package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// entry of a tarball made for a test.
type entry struct {
	h    tar.Header
	data string
}

func file(name, data string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, ModTime: time.Unix(1700000000, 0)}, data}
}

func tarGzOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		e.h.Size = int64(len(e.data))
		must(t, w.WriteHeader(&e.h))
		_, err := w.Write([]byte(e.data))
		must(t, err)
	}
	must(t, w.Close())
	must(t, z.Close())
	return b.Bytes()
}

// registry is an npm registry with one version of one package.
type registry struct {
	t         *testing.T
	tarball   []byte
	integrity string
	etag      string
	cut       int  // an answer is cut after so many bytes; 0: never
	cuts      int  // how often
	noRange   bool // it does not know ranges
	token     string

	mu       sync.Mutex
	requests []string // method, path and range of each
}

func (r *registry) start() (url string) {
	sum := sha512.Sum512(r.tarball)
	if r.integrity == "" {
		r.integrity = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	}
	if r.etag == "" {
		r.etag = `"one"`
	}
	s := httptest.NewServer(r)
	r.t.Cleanup(s.Close)
	return s.URL
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, strings.TrimSpace(req.Method+" "+req.URL.EscapedPath()+" "+req.Header.Get("Range")))
	if r.token != "" && req.Header.Get("Authorization") != "Bearer "+r.token {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	switch req.URL.EscapedPath() {
	case "/npm/node-llama-cpp/3.0.0":
		// A mirror that passes on the public registry's answer unchanged.
		_ = json.NewEncoder(w).Encode(map[string]any{"dist": map[string]string{
			"tarball": "https://public.example/node-llama-cpp/-/node-llama-cpp-3.0.0.tgz", "integrity": r.integrity,
		}})
	case "/npm/node-llama-cpp/-/node-llama-cpp-3.0.0.tgz":
		if r.noRange {
			req.Header.Del("Range")
		}
		w.Header().Set("ETag", r.etag)
		if r.cuts > 0 {
			r.cuts--
			cw := &cutWriter{ResponseWriter: w, left: r.cut}
			http.ServeContent(cw, req, "", time.Time{}, bytes.NewReader(r.tarball))
			return
		}
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(r.tarball))
	default:
		http.NotFound(w, req)
	}
}

// cutWriter drops the connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	c.left -= n
	if c.left <= 0 {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

var npmSource = spec.Source{
	Name: "npm", Upstream: "llama.cpp", Kind: "bundle", NPM: "node-llama-cpp", File: "llama/gitRelease.bundle",
	Tags: map[string]string{"b102": "3.0.0", "v0.5.0": "3.1.0"},
}

// npmPackage is a package that holds the bundle of b102.
func npmPackage(t *testing.T, u upstream, more ...entry) []byte {
	t.Helper()
	b, err := os.ReadFile(u.bundle(t, "b102"))
	must(t, err)
	return tarGzOf(t, append([]entry{
		file("package/package.json", "{}"),
		file("package/llama/gitRelease.bundle", string(b)),
	}, more...)...)
}

// npmOptions are those of a fetch from the registry at url, set in .npmrc.
func npmOptions(t *testing.T, u upstream, url, more string) (Options, *syncBuffer) {
	t.Helper()
	noNpmConfig(t)
	o, log := options(t, u.lock)
	o.Sources = []spec.Source{npmSource}
	must(t, os.WriteFile(filepath.Join(o.Dir, ".npmrc"), []byte("registry = "+url+"/npm\n"+more), 0o644))
	return o, log
}

// noNpmConfig hides what npm is configured for on this machine.
func noNpmConfig(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if k, _, _ := strings.Cut(kv, "="); strings.HasPrefix(strings.ToLower(k), "npm_config_") {
			t.Setenv(k, "")
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("npm_config_userconfig", none)
	t.Setenv("npm_config_globalconfig", none)
}

func TestNPM(t *testing.T) {
	u := newUpstream(t)
	r := &registry{t: t, tarball: npmPackage(t, u), token: "secret"}
	url := r.start()
	t.Setenv("TOKEN_FOR_TEST", "secret")
	o, _ := npmOptions(t, u, url, strings.TrimPrefix(url, "http:")+"/npm/:_authToken=${TOKEN_FOR_TEST}\n")
	tree := mustFetch(t, o, "b102")
	if tree.ID() != u.tree("b102") || tree.Source != "npm" {
		t.Errorf("tree %s from %s", tree.ID(), tree.Source)
	}
	if len(r.requests) != 2 {
		t.Errorf("requests %q", r.requests)
	}
	if left := listDir(t, filepath.Join(o.Cache, "llama.cpp.downloads")); len(left) > 0 {
		t.Errorf("left after the download: %v", left)
	}
	mustFetch(t, o, "b102")
	if len(r.requests) != 2 {
		t.Errorf("a cached tree was fetched again: %q", r.requests)
	}
	_, err := fetch(t, o, "b101")
	gone := as[*Unavailable](t, err)
	if strings.Join(gone.Nearest, " ") != "b102" {
		t.Errorf("nearest %v", gone.Nearest)
	}
	wantErr(t, err, "no known version of node-llama-cpp", "b102")
	o.Nearest = true
	if tree := mustFetch(t, o, "b101"); tree.Tag.String() != "b102" || tree.Asked.String() != "b101" {
		t.Errorf("nearest is %s, asked %s", tree.Tag, tree.Asked)
	}

	// The same package as a file.
	path := filepath.Join(t.TempDir(), "p.tgz")
	must(t, os.WriteFile(path, r.tarball, 0o644))
	o = Options{Cache: t.TempDir(), Lock: u.lock, Override: path, Offline: true}
	if tree := mustFetch(t, o, "b102"); tree.ID() != u.tree("b102") {
		t.Errorf("from a file: %s", tree.ID())
	}
}

func TestNPMTrouble(t *testing.T) {
	u := newUpstream(t)
	good := npmPackage(t, u)
	for name, c := range map[string]struct {
		r    *registry
		more string // of .npmrc
		says string
	}{
		"integrity": {&registry{tarball: good, integrity: "sha512-" +
			base64.StdEncoding.EncodeToString(make([]byte, 64))}, "", "sha512"},
		"no integrity": {&registry{tarball: good, integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}, "", "no sha512 integrity"},
		"no token":     {&registry{tarball: good, token: "secret"}, "", "401"},
		"no bundle":    {&registry{tarball: tarGzOf(t, file("package/x", ""))}, "", "does not hold llama/gitRelease.bundle"},
		"parent":       {&registry{tarball: npmPackage(t, u, file("package/../../x", "x"))}, "", `name ".." in a tree`},
		"absolute":     {&registry{tarball: npmPackage(t, u, file("/x", "x"))}, "", "absolute"},
		"truncated":    {&registry{tarball: good[:len(good)-9]}, "", "unexpected EOF"},
		"not gzip":     {&registry{tarball: []byte("hello, this is a page")}, "", "gzip"},
		"cafile":       {&registry{tarball: good}, "cafile=/does/not/exist\n", "cafile"},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.t = t
			o, _ := npmOptions(t, u, c.r.start(), c.more)
			_, err := fetch(t, o, "b102")
			as[*Unavailable](t, err)
			wantErr(t, err, "npm:", c.says)
			nothingLeft(t, o.Cache)
			// Nor may the next run find a tarball that is of no use.
			if left, _ := filepath.Glob(filepath.Join(o.Cache, "*.downloads", "*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	r := registry{t: t, tarball: good}
	o, _ := npmOptions(t, u, r.start(), "")
	o.Sources[0].Tags = map[string]string{"b102": "9.9.9"}
	_, err := fetch(t, o, "b102")
	wantErr(t, err, "404", "9.9.9")
	o.Offline = true
	_, err = fetch(t, o, "b102")
	wantErr(t, err, "--offline")
}

// TestResume cuts downloads, within a run and between two.
func TestResume(t *testing.T) {
	u := newUpstream(t)
	tarball := npmPackage(t, u)
	part := len(tarball) / 4
	ranges := func(r *registry) (out []string) {
		for _, q := range r.requests {
			if _, rng, ok := strings.Cut(q, "bytes="); ok {
				out = append(out, rng)
			}
		}
		return out
	}
	t.Run("within a run", func(t *testing.T) {
		r := &registry{t: t, tarball: tarball, cut: part, cuts: 2}
		o, log := npmOptions(t, u, r.start(), "")
		mustFetch(t, o, "b102")
		if got := ranges(r); len(got) != 2 || got[0] != fmt.Sprintf("%d-", part) || got[1] != fmt.Sprintf("%d-", 2*part) {
			t.Errorf("ranges %q of %d bytes", got, len(tarball))
		}
		if !strings.Contains(log.String(), "cut, going on") {
			t.Errorf("log: %s", log)
		}
	})
	t.Run("server without ranges", func(t *testing.T) {
		r := &registry{t: t, tarball: tarball, cut: part, cuts: 1, noRange: true}
		o, _ := npmOptions(t, u, r.start(), "")
		mustFetch(t, o, "b102")
	})
	// A run that ends with a part, as a kill would leave it.
	interrupted := func(t *testing.T, r *registry) (Options, string) {
		t.Helper()
		o, _ := npmOptions(t, u, r.start(), "")
		dir := filepath.Join(o.Cache, "llama.cpp.downloads")
		must(t, os.MkdirAll(dir, 0o755))
		rc, err := loadNpmConfig(o.Dir)
		must(t, err)
		u, err := npmTarball(rc, "node-llama-cpp", "https://public.example/node-llama-cpp/-/node-llama-cpp-3.0.0.tgz")
		must(t, err)
		path := filepath.Join(dir, downloadName(u.String()))
		must(t, os.WriteFile(path+".part", tarball[:part], 0o644))
		must(t, os.WriteFile(path+".part.of", []byte(`"one"`), 0o644))
		return o, path
	}
	t.Run("between runs", func(t *testing.T) {
		r := &registry{t: t, tarball: tarball}
		o, _ := interrupted(t, r)
		mustFetch(t, o, "b102")
		if got := ranges(r); len(got) != 1 || got[0] != fmt.Sprintf("%d-", part) {
			t.Errorf("ranges %q", got)
		}
	})
	t.Run("changed between runs", func(t *testing.T) {
		r := &registry{t: t, tarball: tarball}
		o, path := interrupted(t, r)
		// Had the old bytes stayed, the result would be wrong.
		must(t, os.WriteFile(path+".part", bytes.Repeat([]byte{'x'}, part), 0o644))
		r.mu.Lock()
		r.etag = `"two"`
		r.mu.Unlock()
		mustFetch(t, o, "b102")
	})
	t.Run("shorter between runs", func(t *testing.T) {
		r := &registry{t: t, tarball: tarball}
		o, path := interrupted(t, r)
		must(t, os.WriteFile(path+".part", bytes.Repeat([]byte{'x'}, 2*len(tarball)), 0o644))
		mustFetch(t, o, "b102") // it answers 416
	})
	t.Run("never more", func(t *testing.T) {
		r := &registry{t: t, tarball: tarball, cut: 1, cuts: 1 << 20}
		o, _ := npmOptions(t, u, r.start(), "")
		_, err := fetch(t, o, "b102")
		wantErr(t, err, "cut", "are kept", "the next run goes on")
		nothingLeft(t, o.Cache)
	})
	t.Run("stalled", func(t *testing.T) {
		r := &registry{t: t, tarball: tarball}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, ".tgz") {
				w.Header().Set("Content-Length", fmt.Sprint(len(tarball)))
				_, _ = w.Write(tarball[:part])
				w.(http.Flusher).Flush()
				<-q.Context().Done()
				return
			}
			r.ServeHTTP(w, q)
		}))
		t.Cleanup(s.Close)
		r.start()
		o, _ := npmOptions(t, u, s.URL, "")
		f := newFetcher(t.Context(), o, "llama.cpp")
		f.stall = 200 * time.Millisecond
		_, err := f.fetch(t.Context(), tag.MustParse("b102"))
		wantErr(t, err, "sent nothing for 200ms")
		nothingLeft(t, o.Cache)
	})
}

// Where nothing names a registry, npm itself is asked.
func TestAskNpm(t *testing.T) {
	bin := t.TempDir()
	npm := filepath.Join(bin, "npm")
	script := "#!/bin/sh\n[ \"$*\" = 'config get registry' ] || exit 9\necho https://asked.example/npm/\n"
	must(t, os.WriteFile(npm, []byte(script), 0o755))
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	got, err := askNpm(t.Context())
	must(t, err)
	if got != "https://asked.example/npm/" {
		t.Errorf("registry %q", got)
	}
	must(t, os.WriteFile(npm, []byte("#!/bin/sh\necho undefined\n"), 0o755))
	if _, err := askNpm(t.Context()); err == nil || !strings.Contains(err.Error(), "npm_config_registry") {
		t.Errorf("npm that knows none: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := askNpm(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no npm to ask") {
		t.Errorf("no npm: %v", err)
	}
}
