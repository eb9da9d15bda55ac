//go:build linux

package env

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

func wantErr(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v\nlacks %q", err, w)
		}
	}
}

func TestUpdate(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	var names []string
	for _, p := range d.Lock.Packages {
		names = append(names, p.Name)
		if data, err := os.ReadFile(filepath.Join(m.dir, p.File)); err != nil || sha(data) != p.SHA256 || int64(len(data)) != p.Size {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	// Not what is only recommended, and not what an unpacked package depends on.
	if !slices.Equal(names, []string{"basis", "big-dev", "libtiny", "tools"}) {
		t.Errorf("packages: %v", names)
	}
	again, err := ParseLock([]byte(d.Lock.String()))
	if err != nil || again.String() != d.Lock.String() {
		t.Errorf("a lock does not read as it was written: %v", err)
	}

	other := d
	other.Base = append(slices.Clone(d.Base), "no-such-package")
	_, err = Update(t.Context(), other, Options{Mirror: m.url, Keyring: m.keys})
	wantErr(t, err, "no-such-package", "tiny")
	other = d
	other.Unpack = []string{"libtiny"}
	_, err = Update(t.Context(), other, Options{Mirror: m.url, Keyring: m.keys})
	wantErr(t, err, "libtiny is to be unpacked alone")
	// A mirror that somebody else signed.
	stranger, err := openpgp.NewEntity("others", "", "others@example.org", nil)
	must(t, err)
	strange := filepath.Join(t.TempDir(), "keys.gpg")
	writeKeys(t, stranger, strange)
	_, err = Update(t.Context(), d, Options{Mirror: newMirror(t).url, Keyring: strange})
	wantErr(t, err, "package lists of tiny")
	_, err = Update(t.Context(), d, Options{Mirror: m.url, Keyring: "/no/such/keys"})
	var missing *Missing
	if !errors.As(err, &missing) {
		t.Errorf("keys that are not there: %v", err)
	}
}

// Lists whose time is over, as those of a snapshot are, count only on request, and
// their signatures all the same.
func TestUpdatePast(t *testing.T) {
	m := newMirror(t)
	m.past = true
	m.index()
	d := decl()
	_, err := Update(t.Context(), d, Options{Mirror: m.url, Keyring: m.keys})
	wantErr(t, err, "package lists of tiny", "expired", "--past")
	lock, err := Update(t.Context(), d, Options{Mirror: m.url, Keyring: m.keys, Past: true})
	must(t, err)
	if len(lock.Packages) != 4 {
		t.Errorf("%d packages", len(lock.Packages))
	}
	stranger, err := openpgp.NewEntity("others", "", "others@example.org", nil)
	must(t, err)
	strange := filepath.Join(t.TempDir(), "keys.gpg")
	writeKeys(t, stranger, strange)
	_, err = Update(t.Context(), d, Options{Mirror: m.url, Keyring: strange, Past: true})
	wantErr(t, err, "package lists of tiny")
}

func TestCreate(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	made, err := Create(t.Context(), d, o)
	must(t, err)
	for name, want := range map[string]string{
		"usr/lib/libtiny.so": "tiny\n", "bin/old-place": "#!/bin/sh\n", "usr/bin/old-place": "#!/bin/sh\n", "usr/include/big.h": "#pragma once\n",
		"usr/lib/libcudart_static.a": "small\n", "usr/share/doc/libtiny/copyright": "free\n", "usr/share/basis": "basis\n",
	} {
		if got, err := os.ReadFile(filepath.Join(made.Root, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"usr/lib/libbig_static.a", "usr/share/doc/libtiny/README", "usr/share/unwanted"} {
		if _, err := os.Lstat(filepath.Join(made.Root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there", name)
		}
	}
	for name, want := range map[string]fs.FileMode{"usr/bin/probe": 0o755, "etc/tiny.conf": 0o640} {
		if st, err := os.Stat(filepath.Join(made.Root, name)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if f := made.Programs["cc"]; f.Version != "1.2.3" || f.Path != "/usr/bin/cc" {
		t.Errorf("programs: %+v", made.Programs)
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(made.Root), logFile))
	if err != nil || !strings.Contains(string(log), "libtiny 1:2.0+b~1 ") {
		t.Errorf("log: %s, %v", log, err)
	}
	entries, _ := os.ReadDir(filepath.Join(o.Cache, "env"))
	if len(entries) != 2 { // the root and locks
		t.Errorf("left: %v", entries)
	}

	// A second time there is nothing to do, and elsewhere the same comes of it.
	m.set(nil)
	again, err := Create(t.Context(), d, o)
	if requests, _ := m.came(); err != nil || !again.Existed || len(requests) != 0 || again.Root != made.Root {
		t.Errorf("again: %+v, %v, %v", again, requests, err)
	}
	elsewhere, err := Create(t.Context(), d, m.options())
	must(t, err)
	if a, b := tree(t, made.Root), tree(t, elsewhere.Root); a != b {
		t.Errorf("two roots of one lock differ:\n%s\n%s", a, b)
	}
	list, err := List(o.Cache)
	if err != nil || len(list) != 1 || list[0].Root != made.Root || list[0].Bytes < 1<<20 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

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
		"gone":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, []string{"is gone from the mirror", want}, true, ""},
		"another":    {func(w http.ResponseWriter) { _, _ = w.Write(other) }, []string{"is not what the lock has", want, sha(other)}, false, sha(other)},
		"longer":     {func(w http.ResponseWriter) { _, _ = w.Write(append(slices.Clone(whole), other...)) }, []string{"is not what the lock has", fmt.Sprintf("sizes differ: the lock says %d bytes, and the mirror sends more", len(whole))}, false, ""},
		"shorter":    {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9"); _, _ = w.Write(whole[:9]) }, []string{"is not what the lock has", sha(whole[:9]) + ", 9 bytes"}, false, sha(whole[:9])},
		"ill":        {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, []string{"502"}, false, ""},
		"always cut": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "5000"); w.WriteHeader(http.StatusOK) }, []string{"unexpected EOF"}, false, ""},
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

func TestTwoAtOnce(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	var said safeBuffer
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	m.set(func(string, http.ResponseWriter, *http.Request) bool { <-held; return false })
	var all sync.WaitGroup
	made := make([]Made, 2)
	for i := range made {
		all.Go(func() {
			var err error
			if made[i], err = Create(t.Context(), d, o); err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), "waiting for it"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second does not say that it waits")
		}
	}
	release()
	all.Wait()
	if requests, _ := m.came(); made[0].Existed == made[1].Existed || len(requests) != len(d.Lock.Packages) {
		t.Errorf("%v %v, %d requests", made[0].Existed, made[1].Existed, len(requests))
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write keeps p.
func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String is what was written so far.
func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs the job in a program of its own.
func start(t *testing.T, j childJob, change func(*exec.Cmd)) (*exec.Cmd, *safeBuffer) {
	t.Helper()
	j.Lock = j.Decl.Lock
	text, err := json.Marshal(j)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), childVar+"="+string(text))
	var out safeBuffer
	c.Stdout, c.Stderr = &out, &out
	if change != nil {
		change(c)
	}
	must(t, c.Start())
	return c, &out
}

// TestKilled kills a creation while it fetches and while it unpacks. The next
// one takes what is there, and no half root is ever seen.
func TestKilled(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	t.Run("fetching", func(t *testing.T) {
		o := m.options()
		reached := make(chan struct{})
		once := sync.OnceFunc(func() { close(reached) })
		m.set(func(path string, _ http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(path, "tools") {
				time.Sleep(100 * time.Millisecond) // the others get through
				once()
				<-r.Context().Done()
			}
			return false
		})
		c, out := start(t, childJob{Decl: d, Cache: o.Cache, Mirror: o.Mirror}, nil)
		<-reached
		waitFor(t, func() bool { return len(glob(t, o.Cache, "env/*.work/packages/*.deb")) == 3 })
		must(t, c.Process.Kill())
		_ = c.Wait()
		if list, _ := List(o.Cache); len(list) != 0 {
			t.Fatalf("half a root: %s", out)
		}
		m.set(nil)
		_, err := Create(t.Context(), d, o)
		must(t, err)
		if requests, _ := m.came(); len(requests) != 1 {
			t.Errorf("fetched again: %v", requests)
		}
	})
	t.Run("unpacking", func(t *testing.T) {
		m.set(nil)
		want, err := Create(t.Context(), d, m.options())
		must(t, err)
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond} {
			o := m.options()
			c, _ := start(t, childJob{Decl: d, Cache: o.Cache, Mirror: o.Mirror}, nil)
			waitFor(t, func() bool {
				return len(glob(t, o.Cache, "env/*/new/root/usr")) == 1 || len(glob(t, o.Cache, "env/*/root/usr")) == 1
			})
			time.Sleep(after)
			must(t, c.Process.Kill())
			_ = c.Wait()
			if list, _ := List(o.Cache); len(list) != 0 && tree(t, list[0].Root) != tree(t, want.Root) {
				t.Error("half a root passes for a whole one")
			}
			made, err := Create(t.Context(), d, o)
			must(t, err)
			if tree(t, made.Root) != tree(t, want.Root) {
				t.Error("after a kill another root comes of it")
			}
			if left := glob(t, o.Cache, "env/*.work"); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		}
	})
	t.Run("another lock", func(t *testing.T) {
		o := m.options()
		m.set(func(path string, w http.ResponseWriter, _ *http.Request) bool {
			if strings.Contains(path, "tools") {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		})
		_, err := Create(t.Context(), d, o)
		wantErr(t, err, "is gone")
		// What came before the other one was missed is kept, whichever that is.
		kept := len(glob(t, o.Cache, "env/*.work/packages/*.deb"))
		m.set(nil)
		other := d
		other.Keep = nil
		_, err = Create(t.Context(), other, o)
		must(t, err)
		if requests, _ := m.came(); len(requests) != len(d.Lock.Packages)-kept || len(glob(t, o.Cache, "env/*.work")) != 0 {
			t.Errorf("%v, %d of %d were kept, %v", requests, kept, len(d.Lock.Packages), glob(t, o.Cache, "env/*"))
		}
	})
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	return all
}

// TestFullDisk makes a root on a disk that is too small by little and by much.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		// In a user namespace anybody may mount.
		c := exec.Command("unshare", "--map-root-user", "--mount", "--", os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullDisk")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	m := newMirror(t)
	d, o := m.locked(), m.options()
	must(t, syscall.Mount("tmpfs", o.Cache, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, syscall.Unmount(o.Cache, 0)) })
	full := func(size int64, words ...string) {
		t.Helper()
		must(t, syscall.Mount("tmpfs", o.Cache, "tmpfs", syscall.MS_REMOUNT, "size="+strconv.FormatInt(size, 10)))
		_, err := Create(t.Context(), d, o)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%d: %v", size, err)
		}
		wantErr(t, err, append(words, o.Cache, "tiny-1")...)
	}
	full(64<<10, "KiB free")
	// The root is larger than its packages.
	full(2*d.size()+64<<10, "is full", "removed again")
	// Somebody else fills the disk while the packages come.
	ballast := filepath.Join(o.Cache, "ballast")
	fill := sync.OnceFunc(func() { _ = os.WriteFile(ballast, make([]byte, 64<<20), 0o644) }) // until no more goes in
	m.set(func(string, http.ResponseWriter, *http.Request) bool {
		fill()
		return false
	})
	full(8<<20, "is full", "removed again")
	must(t, os.Remove(ballast))
	m.set(nil)
	if left := glob(t, o.Cache, "env/*"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	must(t, syscall.Mount("tmpfs", o.Cache, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	_, err := Create(t.Context(), d, o)
	must(t, err)
}

func TestWrongVersion(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	for version, ok := range map[string]bool{"1.2": true, "1.2.3": true, "1.20": false, "2": false} {
		d.Programs = map[string]Program{"cc": {Path: "/usr/bin/cc", Version: version}}
		_, err := Create(t.Context(), d, o)
		if ok != (err == nil) {
			t.Errorf("%s: %v", version, err)
		}
		if err != nil {
			wantErr(t, err, "/usr/bin/cc is version 1.2.3", "promises "+version)
		}
		_, err = Remove(o.Cache, d.Name)
		must(t, err)
	}
}

func TestUnlocked(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	for _, c := range []struct {
		change func(*Decl)
		words  string
	}{
		{func(d *Decl) { d.Lock = nil }, "has no packages.lock"},
		{func(d *Decl) { d.Base = []string{"tools", "newer"} }, "lacks newer"},
		{func(d *Decl) { d.Suite = "other" }, "asks for suite other amd64"},
	} {
		changed := d
		c.change(&changed)
		_, err := Create(t.Context(), changed, m.options())
		var u *Unlocked
		if !errors.As(err, &u) {
			t.Errorf("%v", err)
		}
		wantErr(t, err, c.words, "--update-lock")
	}
}
