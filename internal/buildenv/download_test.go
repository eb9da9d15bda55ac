//go:build linux

package buildenv

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A mirror that is not what the lock says is refused, by name and with both
// hashes, and nothing of it is kept; the rest serves the next run.
func TestSpoiltMirror(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	name := "/" + d.Lock.Packages[2].File // libtiny, whose version has a plus sign and a tilde
	want := d.Lock.Packages[2].SHA256
	is := func(path string) bool { return path == name }
	whole, err := os.ReadFile(m.file("libtiny"))
	must(t, err)
	other := bytes.Repeat([]byte("other"), len(whole))[:len(whole)]

	for what, c := range map[string]struct {
		spoil func(w http.ResponseWriter)
		words []string
		gone  bool
		got   string
	}{
		"gone": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
		}, []string{"is gone from the mirror", want}, true, ""},
		"another": {func(w http.ResponseWriter) {
			_, _ = w.Write(other)
		}, []string{"is not what the lock has", want, sha(other)}, false, sha(other)},
		"longer": {func(w http.ResponseWriter) {
			_, _ = w.Write(append(slices.Clone(whole), other...))
		}, []string{"is not what the lock has", fmt.Sprintf(
			"sizes differ: the lock says %d bytes, and the mirror sends more", len(whole))}, false, ""},
		"shorter": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write(whole[:9])
		}, []string{"is not what the lock has", sha(whole[:9]) + ", 9 bytes"}, false, sha(whole[:9])},
		"ill": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, []string{"502"}, false, ""},
		"always cut": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "5000")
			w.WriteHeader(http.StatusOK)
		}, []string{"unexpected EOF"}, false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			o := m.options()
			m.set(func(path string, w http.ResponseWriter, _ *http.Request) bool {
				if !is(path) {
					return false
				}
				c.spoil(w)
				return true
			})
			_, err := Create(t.Context(), d, o)
			u := new(Unavailable)
			if !errors.As(err, &u) || u.Package != "libtiny" || u.Gone != c.gone || u.Got != c.got {
				t.Fatalf("%#v: %v", u, err)
			}
			wantErr(t, err, append(c.words, "tiny-1", "libtiny 1:2.0+b~1", m.url)...)
			if c.gone || c.got != "" || what == "longer" {
				wantErr(t, err, "llpatch env create tiny-1 --update-lock")
			}
			if list, _ := List(o.Cache); len(list) != 0 {
				t.Error("a root was made")
			}
			m.set(nil)
			_, err = Create(t.Context(), d, o)
			must(t, err)
			if requests, _ := m.came(); !slices.Contains(requests, name) {
				t.Errorf("not asked for again: %v", requests)
			}
		})
	}
}

// A download that is cut goes on where it was, also in the next run, and begins
// anew where the server cannot go on or has another file by now.
func TestCut(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	name := "/" + d.Lock.Packages[3].File // tools
	whole, err := os.ReadFile(m.file("tools"))
	must(t, err)
	for what, then := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"goes on": func(http.ResponseWriter, *http.Request) bool { return false },
		"cannot":  func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write(whole); return true },
		"other part": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") == "" {
				return false
			}
			n := len(whole) - 5000
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(5000)+"-")
			w.Header().Set("Content-Length", strconv.Itoa(n))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(make([]byte, n))
			return true
		},
	} {
		t.Run(what, func(t *testing.T) {
			var once sync.Once
			m.set(func(path string, w http.ResponseWriter, r *http.Request) bool {
				if path != name {
					return false
				}
				cut := false
				once.Do(func() { cut = true })
				if !cut {
					return then(w, r)
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
				_, _ = w.Write(whole[:5000])
				panic(http.ErrAbortHandler)
			})
			made, err := Create(t.Context(), d, m.options())
			must(t, err)
			_, ranges := m.came()
			if !slices.Equal(ranges, []string{"bytes=5000-"}) {
				t.Errorf("asked for %v", ranges)
			}
			if what == "goes on" && made.Downloaded != d.size() {
				t.Errorf("%d bytes came, of %d", made.Downloaded, d.size())
			}
		})
	}
}

// What a run before it has left is read first: that time is not the mirror's.
func TestStallOfPart(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "large")
	must(t, os.WriteFile(file+".part", nil, 0o644))
	must(t, os.Truncate(file+".part", 1<<30))
	d := &downloader{env: "tiny", mirror: s.URL, file: func(Package) string {
		return file
	}, client: newClient(nil), stall: 300 * time.Millisecond}
	_, err := d.one(t.Context(), Package{Name: "large", File: "large", Size: 2 << 30})
	if bad := new(Unavailable); !errors.As(err, &bad) || !bad.Gone {
		t.Error(err)
	}
}

func TestStall(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	o.Stall = 300 * time.Millisecond
	m.set(func(path string, _ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(path, "basis") {
			<-r.Context().Done()
		}
		return false
	})
	_, err := Create(t.Context(), d, o)
	wantErr(t, err, "package basis", "sent nothing for 300ms")
}
