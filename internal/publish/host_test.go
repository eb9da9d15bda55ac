package publish

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
)

// open opens the repository of a GitHub of one's own. What fails is tried again at once.
func (g *gitHub) open(t *testing.T) *host {
	t.Helper()
	h := must[Place](t)(Open(t.Context(), g.URL+"/o/r", Tokens{Enterprise: token}, false)).(*host)
	h.pause = time.Millisecond
	return h
}

func isUpload(r *http.Request, of string) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Query().Get("name"), of)
}

// once gives a fault to the first request that fits.
func once(fault string, fits func(r *http.Request) bool) func(r *http.Request) string {
	done := false
	return func(r *http.Request) string {
		if done || !fits(r) {
			return ""
		}
		done = true
		return fault
	}
}

var now = Options{Now: time.Date(2026, 12, 1, 2, 3, 4, 5, time.UTC)}

// right looks whether all of a set is public, and in the index.
func (g *gitHub) right(t *testing.T, s *Set) {
	t.Helper()
	if len(g.releases) != 1 || g.releases[0].Draft || len(g.releases[0].Assets) != len(s.files) {
		t.Fatalf("%+v", g.releases)
	}
	for _, f := range s.files {
		found := false
		for _, a := range g.releases[0].Assets {
			found = found || a.Name == f.name && int64(a.Size) == f.bytes && (g.noDigest || a.Digest == "sha256:"+f.sha256)
		}
		if !found {
			t.Errorf("%s is not there", f.name)
		}
	}
	var x bundle.Index
	if err := json.Unmarshal([]byte(g.file(indexFile)), &x); err != nil {
		t.Fatal(err)
	}
	if len(x.Releases) != 1 || x.Schema != 1 || !x.Date.Equal(now.Now.Truncate(time.Second)) ||
		x.Releases[0].Archives[0].SHA256 != s.Archives[0].SHA256 ||
		x.Releases[0].Archives[0].URLs[0] != g.URL+"/o/r/releases/download/b8833-llp1/"+s.Archives[0].URLs[0] {
		t.Errorf("%+v", x)
	}
	for _, name := range []string{pageFile, shFile, cmdFile} {
		if g.file(name) == "" {
			t.Errorf("no %s", name)
		}
	}
}

// Whatever happens on the way, it ends with all of it right, or can be run again.
func TestGitHub(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	for name, c := range map[string]struct {
		fault    func(r *http.Request) string
		noDigest bool
		first    string // what the first run says; empty: it goes well
	}{
		"plain":     {},
		"no digest": {noDigest: true},
		"502":       {fault: once("500", func(r *http.Request) bool { return isUpload(r, ".cdx.json") })},
		"cut":       {fault: once("cut", func(r *http.Request) bool { return isUpload(r, ".gz") })},
		"lost":      {fault: once("lost", func(r *http.Request) bool { return isUpload(r, ".gz") })},
		"lost begin": {fault: once("lost", func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/releases")
		})},
		"lost show": {fault: once("lost", func(r *http.Request) bool { return r.Method == http.MethodPatch })},
		"limit":     {fault: once("limit", func(r *http.Request) bool { return isUpload(r, ".NOTES.md") })},
		"long limit": {fault: once("secondary", func(r *http.Request) bool {
			return isUpload(r, ".NOTES.md")
		}), first: "takes no more requests for 1h"},
		"damaged": {fault: once("damage", func(r *http.Request) bool {
			return isUpload(r, ".intoto.jsonl")
		}), first: "has the SHA-256"},
		"down": {fault: func() func(r *http.Request) string {
			n := 0
			return func(r *http.Request) string {
				if isUpload(r, ".minisig") && n < attempts {
					n++
					return "500"
				}
				return ""
			}
		}(), first: "it answers 502: Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGitHub(t)
			g.fault, g.noDigest = c.fault, c.noDigest
			d, err := Publish(t.Context(), g.open(t), s, now)
			if c.first != "" {
				if err == nil || !strings.Contains(err.Error(), c.first) || exit.Code(err) != exit.Source || exit.Hint(err) == "" {
					t.Fatalf("%v (%s)", err, exit.Hint(err))
				}
				if len(g.releases) != 1 || !g.releases[0].Draft || g.head != "" {
					t.Errorf("something is public: %+v", g.releases)
				}
				d, err = Publish(t.Context(), g.open(t), s, now)
				if d.Sent == 0 || d.Sent >= len(s.files) {
					t.Errorf("%d of %d were sent again", d.Sent, len(s.files))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			g.right(t, s)
			uploads := len(g.seen)
			if d, err := Publish(t.Context(), g.open(t), s, now); err != nil || !d.Already || d.Sent != 0 {
				t.Errorf("%+v %v", d, err)
			}
			for _, line := range g.seen[uploads:] {
				if strings.HasPrefix(line, "POST /api/uploads") || strings.HasPrefix(line, "DELETE") ||
					strings.HasPrefix(line, "PATCH /api/v3/repos/o/r/releases") {
					t.Errorf("a published release was changed: %s", line)
				}
			}
			g.right(t, s)
		})
	}
}

// Ended in the middle of a file, it goes on with that one.
func TestGitHubKilled(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	g := newGitHub(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	g.fault = once("cut", func(r *http.Request) bool {
		if isUpload(r, ".SHA256SUMS") {
			cancel(errors.New("killed"))
			return true
		}
		return false
	})
	if _, err := Publish(ctx, g.open(t), s, now); err == nil || err.Error() != "killed" {
		t.Fatal(err)
	}
	d := must[Done](t)(Publish(t.Context(), g.open(t), s, now))
	if d.Sent == 0 || d.Sent >= len(s.files) {
		t.Errorf("%d of %d were sent again", d.Sent, len(s.files))
	}
	g.right(t, s)
}

// What is public is not changed by another set of that name, and the token is in no error.
func TestGitHubRefuses(t *testing.T) {
	key, public := newKey(t)
	key2, public2 := newKey(t)
	first := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	g := newGitHub(t)
	must[Done](t)(Publish(t.Context(), g.open(t), first, now))
	for name, s := range map[string]*Set{
		"other bytes":    read(t, public2, makeRelease(t, "b8833", "linux-cpu", key2, 1<<20)),
		"another target": read(t, public, makeRelease(t, "b8833", "linux-cuda", key, 1<<20)),
	} {
		_, err := Publish(t.Context(), g.open(t), s, now)
		if exit.Code(err) != exit.Source || !strings.Contains(exit.Hint(err), "never changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.right(t, first)

	// Somebody else's commit comes between the reading and the writing of the index.
	g.fault = func(r *http.Request) string {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git/trees") {
			g.commits["other"] = ghCommit{SHA: "other", Tree: g.commits[g.head].Tree, parents: []string{g.head}}
			g.head, g.fault = "other", nil
		}
		return ""
	}
	if _, err := Publish(t.Context(), g.open(t), first, now); exit.Code(err) != exit.Source ||
		!strings.Contains(err.Error(), "index was not written") {
		t.Error(err)
	}
	must[Done](t)(Publish(t.Context(), g.open(t), first, now))

	h := must[Place](t)(Open(t.Context(), g.URL+"/o/r", Tokens{Enterprise: "wrong-" + token}, false))
	_, err := Publish(t.Context(), h, first, now)
	if exit.Code(err) != exit.Source || !strings.Contains(err.Error(), "401: Bad credentials") ||
		strings.Contains(err.Error(), token) {
		t.Error(err)
	}
	away := g.open(t)
	g.Close()
	if _, err := Publish(t.Context(), away, first, now); exit.Code(err) != exit.Source ||
		strings.Contains(err.Error(), token) {
		t.Error(err)
	}
	if _, err := Open(t.Context(), g.URL+"/o/r", Tokens{Enterprise: token}, false); exit.Code(err) != exit.Source ||
		!strings.Contains(err.Error(), "it answers neither as Gitea (") {
		t.Error(err)
	}
}

// Whatever a host answers, the token goes to it alone, and into no message.
func TestTokenStaysHome(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	for _, path := range []string{"/releases", "/git/ref/heads/llpatch-index", "/git/trees", "/assets"} {
		g := newGitHub(t)
		sent := false
		g.fault = func(r *http.Request) string {
			if strings.HasSuffix(r.URL.Path, path) {
				sent = true
				return "away"
			}
			return ""
		}
		_, err := Publish(t.Context(), g.open(t), s, now) // g.objects looks for the token
		if err == nil || !sent {
			t.Errorf("%s: sent on: %v, and %v", path, sent, err)
		}
	}
	g := newGitHub(t)
	g.fault = func(*http.Request) string { return "echo" }
	_, err := Publish(t.Context(), g.open(t), s, now)
	if err == nil || strings.Contains(err.Error(), token) || len(err.Error()) > 700 ||
		!strings.Contains(err.Error(), "Bearer (the token)") {
		t.Error(err)
	}
	h := g.open(t)
	for at, want := range map[string]bool{
		g.URL + "/x": true,
		strings.Replace(g.URL, "http:", "https:", 1):    false,
		strings.Replace(g.URL, "127.0.0.1", "h", 1):     false,
		"http://127.0.0.1/x":                            false,
		strings.Replace(g.URL, "://", "://u@", 1) + "/": true,
	} {
		u, err := url.Parse(at)
		if err != nil || h.owns(u) != want {
			t.Errorf("%s: %v, %v", at, h.owns(u), err)
		}
	}
}

func TestBadPlaces(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, to := range []string{
		"github.com/o/r", "git@github.com:o/r", "file:/srv/x", "file:///srv/w#1",
		"file:///srv/w?x", "file://localhost", "ssh://h/o/r", "https://u:p@h/o/r", "http://example.com/o/r",
	} {
		if _, err := Open(t.Context(), to, Tokens{}, false); !errors.As(err, new(*BadPlace)) {
			t.Errorf("%s: %v", to, err)
		}
	}
	for _, to := range []string{"www", "./x.y/z"} {
		must[Place](t)(Open(t.Context(), to, Tokens{}, false))
	}
	for _, name := range []string{"index.html", "index.json", "which.sh", "which.cmd", ".x", "-x", "a/b"} {
		if PlainName(name) {
			t.Errorf("a release may be called %s", name)
		}
	}
}

// A page that is no Gitea's gets no token.
func TestNoGitea(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("it gets a token")
		}
		_, _ = io.WriteString(w, "<html>")
	}))
	defer s.Close()
	if _, err := Open(t.Context(), s.URL+"/o/r", Tokens{
		Enterprise: token,
		Gitea:      token,
	}, false); exit.Code(err) != exit.Source || !strings.Contains(err.Error(), "it answers neither as Gitea (") {
		t.Error(err)
	}
}

// A withdrawn release says so on its page and in the index, and its files stay.
func TestWithdraw(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	g := newGitHub(t)
	must[Done](t)(Publish(t.Context(), g.open(t), s, now))
	const why = "It crashes *on* start."
	for range 2 {
		must[Done](t)(Withdraw(t.Context(), g.open(t), s.Name, why, now))
		r := g.releases[0]
		if !r.Prerelease || strings.Count(r.Body, withdrawnHead+why) != 1 ||
			!strings.Contains(r.Body, "b8833 for linux-cpu") || r.Name != "b8833-llp1 (withdrawn)" ||
			len(r.Assets) != len(s.files) {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(g.file(pageFile), "Withdrawn on 2026-12-01: It crashes *on* start.") ||
			!strings.Contains(g.file(indexFile), `"why": "It crashes *on* start."`) {
			t.Error(g.file(pageFile))
		}
		if strings.Contains(g.file(shFile), s.Archives[0].Name) {
			t.Error("which.sh names a withdrawn archive")
		}
	}
	if _, err := Withdraw(t.Context(), g.open(t), s.Name, "Another reason.", now); exit.Code(err) != exit.Source ||
		!strings.Contains(err.Error(), why) {
		t.Error(err)
	}
	if _, err := Withdraw(t.Context(), g.open(t), "b1-llp1", why, now); exit.Code(err) != exit.Source ||
		!strings.Contains(err.Error(), "no release b1-llp1") {
		t.Error(err)
	}
	again := *s
	for _, name := range []string{s.Name, "b8833-again"} { // the same archive is not published by another name
		again.Name = name
		if _, err := Publish(t.Context(), g.open(t), &again, now); exit.Code(err) != exit.Source ||
			!strings.Contains(err.Error(), "was withdrawn") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The page says so as well, where the index was lost.
	g.head = ""
	if _, err := Publish(t.Context(), g.open(t), s, now); exit.Code(err) != exit.Source ||
		!strings.Contains(err.Error(), "as its page says") {
		t.Error(err)
	}
}

// What one run does not bring stays in the index, and in the release.
func TestSubset(t *testing.T) {
	key, public := newKey(t)
	cpu, cuda := makeRelease(t, "b8833", "linux-cpu", key, 1<<20), makeRelease(t, "b8833", "linux-cuda", key, 1<<20)
	at := must[Place](t)(Open(t.Context(), t.TempDir(), Tokens{}, false))
	must[Done](t)(Publish(t.Context(), at, read(t, public, cpu, cuda), now))
	if d := must[Done](t)(Publish(t.Context(), at, read(t, public, cpu), now)); !d.Already {
		t.Errorf("%+v", d)
	}
	x := must[*index](t)(readIndex(t.Context(), at))
	if len(x.Releases) != 1 || len(x.Releases[0].Archives) != 2 {
		t.Errorf("%+v", x)
	}
}

// An index is made into scripts: what no bundle says of itself is not taken.
func TestHostileIndex(t *testing.T) {
	for _, facts := range []string{`{"x=1; echo y; z": "1"}`, `{"cards": "8.6\r\necho y"}`, `{"x": "\u0000"}`} {
		text := strings.ReplaceAll(`{"schema":1,"date":"2026-12-01T00:00:00Z","releases":[{"name":"b1-llp1","archives":[{"name":"a","facts":FACTS}]}]}`,
			"FACTS", facts)
		if _, err := bundle.ReadIndex([]byte(text)); err == nil || !strings.Contains(err.Error(),
			"a fact that no bundle has") {
			t.Errorf("%s: %v", facts, err)
		}
	}
	for _, date := range []string{"", `"date":"0001-01-01T00:00:00Z",`, `"date":"1970-01-01T00:00:00Z",`} {
		if _, err := bundle.ReadIndex([]byte(`{"schema":1,` + date + `"releases":[]}`)); err == nil {
			t.Errorf("%s is taken", date)
		}
	}
}
