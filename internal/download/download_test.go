package download

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server answers each request by the next function of its list, the last one again and again.
type server struct {
	asked []string // the Range of each request
	then  []http.HandlerFunc
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Header.Get("Range"))
	s.then[min(len(s.asked), len(s.then))-1](w, r)
}

var content = strings.Repeat("0123456789", 1000)

// cutAt sends so many bytes of all and breaks off.
func cutAt(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10000")
		_, _ = w.Write([]byte(content[:n]))
		panic(http.ErrAbortHandler)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// short sends a whole file that ends early, and does not say how long it is.
func short(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	_, _ = w.Write([]byte(content[:7000]))
	w.(http.Flusher).Flush()
}

// What is kept after a failure, and how often a server is asked.
func TestGet(t *testing.T) {
	whole := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}
	sum := sha256.Sum256([]byte(content))
	for name, tc := range map[string]struct {
		then  []http.HandlerFunc
		hash  bool
		asked string // the Range of each request
		kept  int    // bytes of the part
		err   string // empty: it comes whole
	}{
		"cut, then on":     {[]http.HandlerFunc{cutAt(4000), whole}, true, "|bytes=4000-", 0, ""},
		"cut, then busy":   {[]http.HandlerFunc{cutAt(4000), status(503)}, true, "|bytes=4000-", 4000, "503"},
		"cut, then gone":   {[]http.HandlerFunc{cutAt(4000), status(404)}, true, "|bytes=4000-", 4000, "404"},
		"cut at one place": {[]http.HandlerFunc{cutAt(4000)}, false, "|", 4000, "4000 bytes are kept"},
		"ends early":       {[]http.HandlerFunc{short}, true, "|bytes=7000-||bytes=7000-", 0, "it has 7000 bytes"},
		"another file":     {[]http.HandlerFunc{cutAt(4000), status(416), whole}, true, "|bytes=4000-|", 0, ""},
		"larger than it may": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(content + "x"))
		}}, false, "", 0, "more than 10000 bytes"},
		"not there at all":     {[]http.HandlerFunc{status(404)}, true, "", 0, "404"},
		"no hash, cut, resume": {[]http.HandlerFunc{cutAt(4000), whole}, false, "|", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{then: tc.then}
			srv := httptest.NewServer(s)
			defer srv.Close()
			at, err := url.Parse(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			f := File{
				Client: srv.Client(), URL: at, Name: filepath.Join(t.TempDir(), "f"), Most: int64(len(content)),
				Stall: time.Minute,
			}
			if tc.hash {
				f.SHA256 = hex.EncodeToString(sum[:])
			}
			_, err = f.Get(t.Context())
			if tc.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			if got := strings.Join(s.asked, "|"); got != tc.asked {
				t.Errorf("asked for %q, want %q", got, tc.asked)
			}
			got, rerr := os.ReadFile(f.Name)
			if tc.err == "" && string(got) != content || tc.err != "" && !errors.Is(rerr, os.ErrNotExist) {
				t.Errorf("the file has %d bytes, %v", len(got), rerr)
			}
			part, _ := os.ReadFile(f.part())
			if len(part) != tc.kept {
				t.Errorf("%d bytes are kept, want %d", len(part), tc.kept)
			}
		})
	}
}
