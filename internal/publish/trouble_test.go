package publish

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
)

// What a host answers that is neither of the two is said of both.
func TestWhatHost(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[bool]int{true: http.StatusTeapot, false: http.StatusBadGateway}[strings.Contains(r.URL.Path, "v1")])
	}))
	defer s.Close()
	_, err := Open(t.Context(), s.URL+"/o/r", Tokens{Enterprise: token}, false)
	if exit.Code(err) != exit.Source || !strings.Contains(err.Error(), "/api/v1/version: 418") ||
		!strings.Contains(err.Error(), "/api/v3/meta: 502") {
		t.Error(err)
	}
}

// A host that takes a request and never answers is given up, whatever it was asked.
func TestSilentHost(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	for _, path := range []string{"/releases", "/git/ref/heads/llpatch-index", "/git/trees"} {
		g := newGitHub(t)
		silent := make(chan struct{})
		g.Config.Handler = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, path) {
					<-silent
					return
				}
				next.ServeHTTP(w, r)
			})
		}(g.Config.Handler)
		t.Cleanup(func() { close(silent) }) // before the server is closed, which waits
		h := g.open(t)
		h.quiet = 20 * time.Millisecond
		_, err := Publish(t.Context(), h, s, now)
		if exit.Code(err) != exit.Source || !strings.Contains(err.Error(), "no answer came for 20ms") ||
			exit.Hint(err) == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A release that is public while its index could not be written is said to be.
func TestNoIndex(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	dir := t.TempDir()
	at := must[Place](t)(Open(t.Context(), dir, Tokens{}, false))
	must[Done](t)(Publish(t.Context(), at, s, now))
	if err := errors.Join(os.Remove(filepath.Join(dir, shFile)), os.Mkdir(filepath.Join(dir, shFile), 0o700)); err != nil {
		t.Fatal(err)
	}
	other := read(t, public, makeRelease(t, "b8834", "linux-cpu", key, 1<<20))
	_, err := Publish(t.Context(), at, other, now)
	if !errors.As(err, new(*NoIndex)) || !strings.Contains(err.Error(), "b8834-llp1 is there as it should be") ||
		!strings.Contains(exit.Hint(err), "same command again") {
		t.Error(err)
	}
	must[os.FileInfo](t)(os.Stat(filepath.Join(dir, other.Name)))
	// One that was withdrawn is not as it should be.
	_, err = Withdraw(t.Context(), at, s.Name, "It crashes.", now)
	if !errors.As(err, new(*NoIndex)) || strings.Contains(err.Error(), "as it should be") ||
		!strings.Contains(err.Error(), "is withdrawn, as its page says, and the index was not written") {
		t.Error(err)
	}
}

// Where something is withdrawn, something is.
func TestWithdrawNowhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wwww")
	if _, err := Open(t.Context(), dir, Tokens{}, true); exit.Code(err) != exit.Usage {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it was made")
	}
}
