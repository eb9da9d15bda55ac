//go:build linux

package buildenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
)

// probe is the one program of the test roots: it tells what it sees inside.
const probeSource = `package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

func main() {
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	switch os.Args[1] {
	case "--version":
		fmt.Println("probe 1.2.3")
	case "write":
		must(os.WriteFile(os.Args[2], []byte("inside\n"), 0o644))
	case "install":
		text, err := os.ReadFile(os.Args[2])
		must(err)
		must(os.MkdirAll(filepath.Dir(os.Args[3]), 0o755))
		must(os.WriteFile(os.Args[3], text, 0o644))
	case "list":
		entries, err := os.ReadDir(os.Args[2])
		must(err)
		for _, e := range entries {
			fmt.Println(e.Name())
		}
	case "dir":
		d, err := os.Getwd()
		must(err)
		fmt.Println(d, os.Getenv("WORD"), len(os.Environ()))
	case "dial":
		c, err := net.Dial("tcp", os.Args[2])
		must(err)
		c.Close()
	case "pid":
		fmt.Println(os.Getpid())
	case "self":
		s, err := os.Readlink("/proc/self/exe")
		must(err)
		fmt.Println(s)
	case "null":
		must(os.WriteFile("/dev/null", []byte("x"), 0))
	}
}
`

var probe = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(probeSource), 0o644); err != nil {
		return nil, err
	}
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", "probe", "main.go")
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "probe"))
})

// deb is a package to be made: fields of its control file, and its files.
type deb struct {
	control string
	files   map[string]string // path -> content; "-> x" is a link
	modes   map[string]string // as chmod takes them
	newer   bool              // of the suite newer, not of tiny
}

// mirror is a Debian repository that tests serve, and can spoil.
type mirror struct {
	t    *testing.T
	dir  string
	key  *openpgp.Entity
	url  string
	keys string // file
	past bool   // the time of its lists is over

	mu       sync.Mutex
	requests []string                                                       // paths of .deb files
	ranges   []string                                                       // their Range headers, where there is one
	spoil    func(path string, w http.ResponseWriter, r *http.Request) bool // true: answered
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// decl is what the tests declare.
func decl() Decl {
	return Decl{
		Name: "tiny-1", Summary: "for tests", Suite: "tiny", Arch: "amd64", Components: []string{"main"},
		Base: []string{"tools"}, Unpack: []string{"big-dev"},
		Exclude:  []string{"usr/lib/*_static*.a", "usr/share/doc/**"},
		Keep:     []string{"usr/lib/libcudart_static.a", "usr/share/doc/*/copyright"},
		Links:    map[string]string{"/usr/bin/cc": "probe"},
		Programs: map[string]Program{"cc": {Path: "/usr/bin/cc", Version: "1.2"}},
	}
}

// packages are what every test mirror begins with.
func packages(tool string) []deb {
	return []deb{
		{
			control: "Package: tools\nVersion: 1.0-1\nDepends: libtiny (>= 1)\nRecommends: unwanted",
			files:   map[string]string{"usr/bin/probe": tool, "bin/old-place": "#!/bin/sh\n"},
			modes:   map[string]string{"usr/bin/probe": "4755"},
		},
		{
			control: "Package: libtiny\nVersion: 1:2.0+b~1\nMulti-Arch: same",
			files: map[string]string{
				"usr/lib/libtiny.so.2": "tiny\n", "usr/lib/libtiny.so": "-> libtiny.so.2",
				"usr/share/doc/libtiny/copyright": "free\n",
				"usr/share/doc/libtiny/README":    "long\n", "etc/tiny.conf": "a=1\n", "usr/lib/outside": "-> /etc/passwd",
			},
			modes: map[string]string{"etc/tiny.conf": "440"},
		},
		{control: "Package: basis\nVersion: 1\nEssential: yes", files: map[string]string{"usr/share/basis": "basis\n"}},
		{control: "Package: unwanted\nVersion: 1", files: map[string]string{"usr/share/unwanted": "x\n"}},
		{
			control: "Package: big-dev\nVersion: 3\nDepends: not-to-be-had",
			files: map[string]string{
				"usr/include/big.h": "#pragma once\n", "usr/lib/libbig_static.a": strings.Repeat("big", 1<<16),
				"usr/lib/libcudart_static.a": "small\n",
			},
		},
	}
}

// pool makes them once, in a folder that holds pool/ alone.
var pool = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "pool")
	if err != nil {
		return "", err
	}
	tool, err := probe()
	if err != nil {
		return dir, err
	}
	for _, d := range packages(string(tool)) {
		if err := d.make(dir); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

// make puts the package into the pool below dir.
func (d deb) make(dir string) error {
	root, err := os.MkdirTemp("", "deb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	control := d.control + "\nArchitecture: amd64\nMaintainer: tests <tests@example.org>\nDescription: for tests\n"
	files := maps.Clone(d.files)
	files["DEBIAN/control"] = control
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if mode := d.modes[name]; err == nil && mode != "" {
			err = exec.Command("chmod", mode, path).Run()
		}
		if err != nil {
			return err
		}
	}
	fields := stanzas(control)[0]
	_, v, found := strings.Cut(fields["Version"], ":")
	if !found {
		v = fields["Version"]
	}
	to := filepath.Join(dir, "pool/main", fields["Package"])
	if d.newer {
		to = filepath.Join(dir, "pool/newer", fields["Package"])
	}
	if err := errors.Join(os.Chmod(root, 0o755), os.MkdirAll(to, 0o755)); err != nil {
		return err
	}
	c := exec.Command("dpkg-deb", "--root-owner-group", "-Zxz", "-b", root,
		filepath.Join(to, fields["Package"]+"_"+v+"_amd64.deb"))
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// signer is whose lists the test mirrors serve.
var signer = sync.OnceValues(func() (*openpgp.Entity, error) {
	return openpgp.NewEntity("tests", "", "tests@example.org", nil)
})

func writeKeys(t *testing.T, key *openpgp.Entity, file string) {
	t.Helper()
	var pub bytes.Buffer
	must(t, key.Serialize(&pub))
	must(t, os.WriteFile(file, pub.Bytes(), 0o644))
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{t: t, dir: t.TempDir()}
	made, err := pool()
	must(t, err)
	must(t, os.CopyFS(m.dir, os.DirFS(made)))
	m.key, err = signer()
	must(t, err)
	m.keys = filepath.Join(m.dir, "keys.gpg")
	writeKeys(t, m.key, m.keys)
	m.index()
	m.serve()
	return m
}

// add puts packages into the mirror and its lists.
func (m *mirror) add(all ...deb) {
	m.t.Helper()
	for _, d := range all {
		must(m.t, d.make(m.dir))
	}
	m.index()
}

// index writes the package lists and signs them.
func (m *mirror) index() {
	m.t.Helper()
	m.suite("tiny", "main")
	m.suite("newer", "newer")
}

// suite writes the list of the packages below a folder of the pool.
func (m *mirror) suite(name, below string) {
	m.t.Helper()
	var list strings.Builder
	debs, err := filepath.Glob(filepath.Join(m.dir, "pool", below, "*/*.deb"))
	must(m.t, err)
	for _, file := range debs {
		control, err := exec.Command("dpkg-deb", "-f", file).Output()
		must(m.t, err)
		data, err := os.ReadFile(file)
		must(m.t, err)
		path, err := filepath.Rel(m.dir, file)
		must(m.t, err)
		fmt.Fprintf(&list, "%sFilename: %s\nSize: %d\nInstalled-Size: 9\nSHA256: %s\n\n", control, path, len(data), sha(data))
	}
	dist := filepath.Join(m.dir, "dists", name, "main/binary-amd64")
	must(m.t, os.MkdirAll(dist, 0o755))
	must(m.t, os.WriteFile(filepath.Join(dist, "Packages"), []byte(list.String()), 0o644))
	release := fmt.Sprintf("Origin: tests\nLabel: tests\nSuite: %s\nCodename: %[1]s\nDate: %s\nArchitectures: "+
		"amd64\nComponents: main\nSHA256:\n %s %d main/binary-amd64/Packages\n",
		name, time.Now().UTC().Format(time.RFC1123), sha([]byte(list.String())), list.Len())
	if m.past {
		release = strings.Replace(release, "Architectures", "Valid-Until: "+
			time.Now().Add(-time.Hour).UTC().Format(time.RFC1123)+"\nArchitectures", 1)
	}
	var signed bytes.Buffer
	w, err := clearsign.Encode(&signed, m.key.PrivateKey, nil)
	must(m.t, err)
	_, err = io.WriteString(w, release)
	must(m.t, err)
	must(m.t, w.Close())
	must(m.t, os.WriteFile(filepath.Join(m.dir, "dists", name, "InRelease"), signed.Bytes(), 0o644))
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (m *mirror) serve() {
	files := http.FileServer(http.Dir(m.dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		spoil := m.spoil
		if strings.HasSuffix(r.URL.Path, ".deb") {
			m.requests = append(m.requests, r.URL.Path)
			if h := r.Header.Get("Range"); h != "" {
				m.ranges = append(m.ranges, h)
			}
		}
		m.mu.Unlock()
		if spoil == nil || !spoil(r.URL.Path, w, r) {
			files.ServeHTTP(w, r)
		}
	}))
	m.t.Cleanup(s.Close)
	m.url = s.URL
}

// set changes how requests are answered, and forgets those that came.
func (m *mirror) set(spoil func(string, http.ResponseWriter, *http.Request) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spoil, m.requests, m.ranges = spoil, nil, nil
}

func (m *mirror) came() (requests, ranges []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests), slices.Clone(m.ranges)
}

// file is the path of a package in the mirror.
func (m *mirror) file(name string) string {
	m.t.Helper()
	all, err := filepath.Glob(filepath.Join(m.dir, "pool/main", name, "*.deb"))
	must(m.t, err)
	if len(all) != 1 {
		m.t.Fatalf("%s: %v", name, all)
	}
	return all[0]
}

// locked is the declaration with a lock of what the mirror has now.
func (m *mirror) locked() Decl {
	m.t.Helper()
	d := decl()
	var err error
	d.Lock, err = Update(m.t.Context(), d, Options{Mirror: m.url, Keyring: m.keys})
	must(m.t, err)
	return d
}

func (m *mirror) options() Options {
	cache := filepath.Join(m.t.TempDir(), "a [b] *") // of which no part is a pattern
	must(m.t, os.Mkdir(cache, 0o755))
	return Options{Cache: cache, Mirror: m.url, Stall: 20 * time.Second}
}

// tree lists a root: every path with its kind, permissions and content's hash.
func tree(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		what := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what = sha(data)[:12] + " " + info.ModTime().UTC().Format(time.DateOnly)
		case info.Mode()&os.ModeSymlink != 0:
			if what, err = os.Readlink(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%s %s %s\n", info.Mode(), rel, what)
		return nil
	}))
	return b.String()
}

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

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	all, err := fs.Glob(os.DirFS(dir), pattern)
	must(t, err)
	for i := range all {
		all[i] = filepath.Join(dir, all[i])
	}
	return all
}
