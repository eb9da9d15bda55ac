//go:build linux

package buildenv

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
)

// item is an entry of an archive that a test makes.
type item struct {
	name, text, link string
	kind             byte // of tar; zero: a file
	mode             fs.FileMode
}

func tarXZ(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{
			Name: i.name, Typeflag: i.kind, Linkname: i.link, Mode: int64(i.mode | 0o644),
			Size: int64(len(i.text)),
		}
		if i.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		must(t, w.WriteHeader(h))
		_, err := w.Write([]byte(i.text))
		must(t, err)
	}
	must(t, w.Close())
	c := exec.Command("xz", "-1", "-c")
	c.Stdin = &b
	out, err := c.Output()
	if err != nil {
		t.Fatal("these tests pack with xz (Debian package xz-utils): ", err)
	}
	return out
}

func zipped(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, i := range items {
		h := &zip.FileHeader{Name: i.name, Method: zip.Deflate}
		h.SetMode(i.mode | 0o644)
		f, err := w.CreateHeader(h)
		must(t, err)
		_, err = f.Write([]byte(i.text))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// nvidia serves archives as NVIDIA's server has them: a list, and a folder for each
// component and platform.
type nvidia struct {
	files map[string][]byte // by path
	url   string

	mu     sync.Mutex
	cut    map[string]bool // whose next answer ends in the middle
	ranges []string
}

func newNVIDIA(t *testing.T) *nvidia {
	n := &nvidia{files: map[string][]byte{}, cut: map[string]bool{}}
	s := httptest.NewServer(n)
	t.Cleanup(s.Close)
	n.url = s.URL + "/redist"
	return n
}

// ServeHTTP sends a file, or, once, its first half.
func (n *nvidia) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/redist/")
	n.mu.Lock()
	data, ok := n.files[name]
	cut := n.cut[name]
	delete(n.cut, name)
	if h := r.Header.Get("Range"); h != "" {
		n.ranges = append(n.ranges, h)
	}
	n.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:len(data)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Now(), bytes.NewReader(data))
}

// put adds an archive and writes the list anew.
func (n *nvidia) put(t *testing.T, name, version, platform string, data []byte) {
	t.Helper()
	ending := "tar.xz"
	if platform == windowsArchives {
		ending = "zip"
	}
	file := fmt.Sprintf("%s/%s/%s-%s-%s-archive.%s", name, platform, name, platform, version, ending)
	list := map[string]any{"release_date": "2022-02-01"}
	if have := n.files["redistrib_11.4.4.json"]; have != nil {
		must(t, json.Unmarshal(have, &list))
	}
	c, ok := list[name].(map[string]any)
	if !ok {
		c = map[string]any{
			"name": name, "license": "CUDA Toolkit", "version": version,
			"linux-sbsa": map[string]any{"size": "1"},
		}
	}
	c[platform] = map[string]any{"relative_path": file, "sha256": sha(data), "md5": "0", "size": fmt.Sprint(len(data))}
	list[name] = c
	text, err := json.Marshal(list)
	must(t, err)
	n.files[file], n.files["redistrib_11.4.4.json"] = data, text
}

// toolkit fills the server with what the tests' buildenv asks for.
func (n *nvidia) toolkit(t *testing.T) Decl {
	t.Helper()
	const a, c, w = "cuda_cudart-linux-x86_64-11.4.148-archive/", "cuda_nvcc-linux-x86_64-11.4.152-archive/",
		"cuda_cudart-windows-x86_64-11.4.148-archive/"
	n.put(t, "cuda_cudart", "11.4.148", linuxArchives, tarXZ(t,
		item{name: a, kind: tar.TypeDir}, item{name: a + "LICENSE", text: "terms"},
		item{name: a + "include/cuda.h", text: "#define CUDA_VERSION 11040"},
		item{name: a + "include/shared.h", text: "same"},
		item{name: a + "lib/libcudart.so", kind: tar.TypeSymlink, link: "libcudart.so.11.0"},
		item{name: a + "lib/libcudart.so.11.0", text: "elf", mode: fs.ModeSetuid | 0o4755},
		item{name: a + "lib/stubs/libcuda.so", text: "stub"}, item{name: a + "lib/again.so", kind: tar.TypeLink, link: a +
			"lib/stubs/libcuda.so"},
		item{name: a + "lib/libx_static.a", text: "large"}))
	n.put(t, "cuda_nvcc", "11.4.152", linuxArchives, tarXZ(t,
		item{name: c + "bin/ptxas", text: "#!", mode: 0o755}, item{name: c + "nvvm/libdevice/libdevice.10.bc", text: "BC"},
		item{name: c + "include/shared.h", text: "same"}))
	n.put(t, "cuda_cudart", "11.4.148", windowsArchives, zipped(t,
		item{name: w + "LICENSE", text: "terms"}, item{name: w + "bin/cudart64_110.dll", text: "MZ"},
		item{name: w + "lib/x64/cudart.lib", text: "lib"}))
	return Decl{
		Name: "kit", Summary: "for a test", Arch: "amd64", RoomMiB: 16,
		Redist: &Redist{
			URL: n.url, Release: "11.4.4", Linux: []string{"cuda_cudart", "cuda_nvcc"},
			Windows: []string{"cuda_cudart"},
		},
		Exclude: []string{"lib64/*_static.a"}, Links: map[string]string{"/lib": "lib64"},
		Holds: []string{"bin/ptxas", "lib64/libcudart.so", "windows/cuda_cudart/bin/cudart64_110.dll"},
	}
}

// contents lists a folder: path -> content, "-> x" for a link.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			m[rel] = "-> " + to
			return err
		}
		data, err := os.ReadFile(p)
		m[rel] = string(data)
		return err
	}))
	return m
}

// NVIDIA's archives become a folder as an installed toolkit is one.
func TestRedist(t *testing.T) {
	n := newNVIDIA(t)
	d := n.toolkit(t)
	var err error
	d.Lock, err = Update(t.Context(), d, Options{})
	must(t, err)
	again, err := ParseLock([]byte(d.Lock.String()))
	if err != nil || again.String() != d.Lock.String() || len(again.Packages) != 3 {
		t.Fatalf("the lock does not read as it was written: %v\n%s", err, d.Lock)
	}

	cache := t.TempDir()
	o := Options{Cache: cache}
	n.cut[d.Lock.Packages[2].File] = true // goes on in the middle
	made, err := Create(t.Context(), d, o)
	must(t, err)
	want := map[string]string{
		"LICENSE": "", "bin/ptxas": "#!", "include/cuda.h": "#define CUDA_VERSION 11040", "include/shared.h": "same",
		"lib": "-> lib64", "lib64/libcudart.so": "-> libcudart.so.11.0", "lib64/libcudart.so.11.0": "elf",
		"lib64/stubs/libcuda.so": "stub", "lib64/again.so": "stub",
		"licenses/cuda_cudart/LICENSE": "terms", "nvvm/libdevice/libdevice.10.bc": "BC",
		"version.txt":                 "CUDA Version 11.4.148\n",
		"windows/cuda_cudart/LICENSE": "terms", "windows/cuda_cudart/bin/cudart64_110.dll": "MZ",
		"windows/cuda_cudart/lib/x64/cudart.lib": "lib",
	}
	delete(want, "LICENSE")
	if got := contents(t, made.Root); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if len(n.ranges) != 1 || n.ranges[0] == "bytes=0-" {
		t.Errorf("what was cut did not go on: %q", n.ranges)
	}
	st, err := os.Stat(filepath.Join(made.Root, "lib64/libcudart.so.11.0"))
	if err != nil || st.Mode()&fs.ModeSetuid != 0 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if st, err = os.Stat(filepath.Join(made.Root, "bin/ptxas")); err != nil || st.Mode().Perm()&0o111 == 0 {
		t.Errorf("ptxas cannot be run: %v, %v", st.Mode(), err)
	}
	if made, err = Create(t.Context(), d, o); err != nil || !made.Existed {
		t.Errorf("again: %+v, %v", made, err)
	}
	all, err := List(cache)
	if err != nil || len(all) != 1 || all[0].Name != "kit" || all[0].Suite != "11.4.4" || all[0].Packages != 3 {
		t.Errorf("listed: %+v, %v", all, err)
	}
	// In use it is a folder, and cannot be removed.
	e, err := Open(t.Context(), cache, d, nil)
	must(t, err)
	var use *InUse
	if _, err := Remove(cache, "kit"); !errors.As(err, &use) || e.Root != made.Root {
		t.Errorf("removed while in use: %v; root %s", err, e.Root)
	}
	must(t, e.Close())
	if removed, err := Remove(cache, "kit"); err != nil || !slices.Equal(removed, []string{d.id()}) {
		t.Errorf("removed %v, %v", removed, err)
	}
	// The other folder with the same layout, and one without anything.
	d.Redist.URL = "http://127.0.0.1:1/redist"
	if _, err = Create(t.Context(), d, Options{Cache: cache, Mirror: n.url}); err != nil {
		t.Error(err)
	}
	var gone *Unavailable
	if _, err = Update(t.Context(), d, Options{Mirror: n.url + "/other"}); !errors.As(err, &gone) || !gone.Gone {
		t.Errorf("no list: %v", err)
	}
	wantErr(t, err, "redistrib_11.4.4.json is not there", "--mirror URL")
	_, err = Update(t.Context(), d, Options{})
	wantErr(t, err, "127.0.0.1:1", "refused")
}

// A list that makes no lock.
func TestRedistList(t *testing.T) {
	n := newNVIDIA(t)
	d := n.toolkit(t)
	good := n.files["redistrib_11.4.4.json"]
	for want, spoil := range map[string]func(string) string{
		"is no list of archives":            func(string) string { return "<html>" },
		"has no cuda_nvcc for linux-x86_64": func(s string) string { return strings.ReplaceAll(s, "cuda_nvcc", "cuda_nvcx") },
		"is not the path of a .tar.xz": func(s string) string {
			return strings.ReplaceAll(s, `"cuda_nvcc/`, `"../../cuda_nvcc/`)
		},
		"no numbers that make sense": func(s string) string { return strings.ReplaceAll(s, `"size":"`, `"size":"-`) },
		"invalid syntax":             func(s string) string { return strings.ReplaceAll(s, `"size":"`, `"size":"x`) },
		"is not a SHA-256":           func(s string) string { return strings.ReplaceAll(s, `"sha256":"`, `"sha256":"g`) },
		"cannot unmarshal number": func(s string) string {
			return strings.ReplaceAll(s, `"sha256":"`, `"sha256":7,"x":"`)
		},
		`"11.4_152" is not a version`: func(s string) string {
			return strings.ReplaceAll(s, `"version":"11.4.152"`, `"version":"11.4_152"`)
		},
		"it has more than 8388608 bytes": func(s string) string { return s + strings.Repeat(" ", maxList) },
	} {
		n.files["redistrib_11.4.4.json"] = []byte(spoil(string(good)))
		_, err := Update(t.Context(), d, Options{})
		wantErr(t, err, want, "kit")
	}
}

// A list that stops in the middle is waited for no longer than the mirror may be silent;
// one that the user stops waiting for is no fault of the mirror's.
func TestRedistStall(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	d := Decl{Name: "kit", Arch: "amd64", Redist: &Redist{URL: s.URL, Release: "11.4.4", Linux: []string{"a"}}}
	_, err := Update(t.Context(), d, Options{Stall: 200 * time.Millisecond})
	if bad := new(Unavailable); !errors.As(err, &bad) {
		t.Error(err)
	}
	wantErr(t, err, "no answer for 200ms", "redistrib_11.4.4.json")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	_, err = Update(ctx, d, Options{})
	if bad := new(Unavailable); !errors.Is(err, context.Canceled) || errors.As(err, &bad) {
		t.Errorf("cancelled: %v", err)
	}
}

// A server that leads astray, or does not come to an end, is said to.
func TestRedistServer(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("{}"), 0o600))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.Split(r.URL.Path, "/")[1] {
		case "file":
			http.Redirect(w, r, "file://"+secret, http.StatusFound)
		case "loop":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case "login":
			_, _ = w.Write([]byte("<html>"))
		default:
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}
	}))
	defer s.Close()
	for name, want := range map[string]string{
		"file": "leads to a file of this machine", "loop": "it leads on and on", "login": "it is no list of archives",
		"drip": "no answer for 500ms",
	} {
		d := Decl{Name: "kit", Arch: "amd64", RoomMiB: 1, Redist: &Redist{
			URL: s.URL + "/" + name, Release: "11.4.4",
			Linux: []string{"a"},
		}}
		_, err := Update(t.Context(), d, Options{Stall: 500 * time.Millisecond})
		wantErr(t, err, want, s.URL, "--mirror URL takes another folder")
		if u := new(Unavailable); !errors.As(err, &u) {
			t.Errorf("%s: %T", name, err)
		}
	}
}

// Another archive than the lock's is not opened.
func TestRedistOther(t *testing.T) {
	n := newNVIDIA(t)
	d := n.toolkit(t)
	var err error
	d.Lock, err = Update(t.Context(), d, Options{})
	must(t, err)
	p := d.Lock.Packages[0]
	other := bytes.Clone(n.files[p.File])
	other[len(other)/2] ^= 1
	n.files[p.File] = other
	cache := t.TempDir()
	_, err = Create(t.Context(), d, Options{Cache: cache})
	wantErr(t, err, "is not what the lock has", p.SHA256, sha(other),
		"--mirror URL takes another folder with the same layout")
	if roots, err := List(cache); err != nil || len(roots) != 0 {
		t.Errorf("there is a root: %v, %v", roots, err)
	}
	// A lock of another release, and one that has what nobody asked for.
	bad := d
	redist := *d.Redist
	bad.Redist = &redist
	bad.Redist.Release = "11.4.3"
	_, err = Create(t.Context(), bad, Options{Cache: cache})
	wantErr(t, err, "packages.lock is of redist 11.4.4 amd64, and env.toml asks for redist 11.4.3 amd64")
	bad.Redist.Release, bad.Redist.Windows = "11.4.4", nil
	_, err = Create(t.Context(), bad, Options{Cache: cache})
	wantErr(t, err, "packages.lock has cuda_cudart windows-x86_64 11.4.148, for which env.toml does not ask")
	bad.Redist.Windows = []string{"cuda_cudart", "libcublas"}
	_, err = Create(t.Context(), bad, Options{Cache: cache})
	wantErr(t, err, "packages.lock lacks libcublas windows-x86_64")
}
