//go:build linux

package buildenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// renewed runs Renew and returns the lock that was to be kept, if one was.
func renewed(ctx context.Context, t *testing.T, d Decl, o Options) (Made, *Lock, error) {
	t.Helper()
	var kept *Lock
	made, err := Renew(ctx, d, o, func(l *Lock) error {
		if kept != nil {
			t.Error("a lock is kept twice")
		}
		kept = l
		return nil
	})
	if (kept == nil) == (err == nil) {
		t.Fatalf("kept %v, %v", kept, err)
	}
	return made, kept, err
}

// list changes what the server says of its archives.
func (n *nvidia) list(old, now string) {
	const name = "redistrib_11.4.4.json"
	n.files[name] = []byte(strings.ReplaceAll(string(n.files[name]), old, now))
}

// sized is how the list says that an archive has so many bytes, or some more.
func sized(data []byte, more int) string { return fmt.Sprintf(`"size":"%d"`, len(data)+more) }

// swap puts another archive in the place of one, and into the list.
func (n *nvidia) swap(name string, data []byte) {
	old := n.files[name]
	n.list(sha(old), sha(data))
	n.list(sized(old, 0), sized(data, 0))
	n.files[name] = data
}

// A lock is kept when all that it names was fetched, is as it says, and was unpacked.
func TestRenew(t *testing.T) {
	const ptxas = "cuda_nvcc/linux-x86_64/cuda_nvcc-linux-x86_64-11.4.152-archive.tar.xz"
	for name, c := range map[string]struct {
		spoil func(n *nvidia, d *Decl)
		want  []string
	}{
		"all is well": {func(*nvidia, *Decl) {}, nil},
		"an archive is gone": {func(n *nvidia, _ *Decl) {
			delete(n.files, ptxas)
		}, []string{"cuda_nvcc 11.4.152 is gone from the mirror", "the mirror's list wants SHA-256"}},
		"another archive": {func(n *nvidia, _ *Decl) {
			n.files[ptxas] = n.files[ptxas][1:]
		}, []string{"cuda_nvcc 11.4.152 is not what the mirror's list has", "the mirror sent"}},
		"a hash that is wrong": {func(n *nvidia, _ *Decl) {
			n.list(sha(n.files[ptxas]), strings.Repeat("0", 64))
		}, []string{"is not what the mirror's list has", strings.Repeat("0", 64)}},
		"a size too small": {func(n *nvidia, _ *Decl) {
			n.list(sized(n.files[ptxas], 0), sized(n.files[ptxas], -1))
		}, []string{"the sizes differ"}},
		"a size too large": {func(n *nvidia, _ *Decl) {
			n.list(sized(n.files[ptxas], 0), sized(n.files[ptxas], 1))
		}, []string{"is not what the mirror's list has"}},
		"no archive": {func(n *nvidia, _ *Decl) {
			n.swap(ptxas, []byte("<html>"))
		}, []string{"cannot be unpacked"}},
		"not what it promises": {func(_ *nvidia, d *Decl) {
			d.Holds = append(d.Holds, "bin/nvcc")
		}, []string{"has no bin/nvcc"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNVIDIA(t)
			d := n.toolkit(t)
			d.Holds = slices.Clone(d.Holds)
			c.spoil(n, &d)
			cache := t.TempDir()
			made, kept, err := renewed(t.Context(), t, d, Options{Cache: cache})
			if c.want != nil {
				wantErr(t, err, append(c.want, "packages.lock stays as it was")...)
				if strings.Contains(err.Error(), "--update-lock") || strings.Contains(err.Error(), "the lock ") {
					t.Errorf("it sends the user where he comes from: %v", err)
				}
				if roots, err := List(cache); err != nil || len(roots) != 0 {
					t.Errorf("there is a root: %v, %v", roots, err)
				}
				return
			}
			must(t, err)
			if len(kept.Packages) != 3 || contents(t, made.Root)["bin/ptxas"] != "#!" {
				t.Errorf("%+v\n%s", made, kept)
			}
			// The same again: there is nothing to fetch.
			n.files = map[string][]byte{"redistrib_11.4.4.json": n.files["redistrib_11.4.4.json"]}
			if made, _, err = renewed(t.Context(), t, d, Options{Cache: cache}); err != nil || !made.Existed {
				t.Errorf("again: %+v, %v", made, err)
			}
		})
	}
}

// Whenever it is stopped, no lock is kept.
func TestRenewStopped(t *testing.T) {
	n := newNVIDIA(t)
	d := n.toolkit(t)
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		o := Options{Cache: t.TempDir(), Progress: func(string, int64, int64) {
			if calls++; calls == at {
				cancel()
			}
		}}
		_, _, err := renewed(ctx, t, d, o)
		cancel()
		if calls < at {
			must(t, err)
			if at < 8 {
				t.Errorf("it was stopped %d times only", at-1)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %d: %v", at, err)
		}
	}
}

// A root of the same archives is no proof of a lock that names other places or sizes for
// them, and neither is what an earlier run fetched.
func TestRenewElsewhere(t *testing.T) {
	const from, to = "cuda_nvcc/linux-x86_64/", "cuda_nvcc/elsewhere/"
	for _, before := range []string{"a root", "a root of a lock that is known", "what was fetched"} {
		t.Run(before, func(t *testing.T) {
			n := newNVIDIA(t)
			d := n.toolkit(t)
			o := Options{Cache: t.TempDir()}
			var roots int
			switch before {
			case "what was fetched":
				d.Holds = append(slices.Clone(d.Holds), "bin/nvcc") // the root fails, and what came stays
				_, _, err := renewed(t.Context(), t, d, o)
				wantErr(t, err, "has no bin/nvcc")
				d.Holds = d.Holds[:len(d.Holds)-1]
			default:
				made, kept, err := renewed(t.Context(), t, d, o)
				must(t, err)
				roots = 1
				if before == "a root" { // as llpatch made them that kept no lock beside
					must(t, os.Remove(filepath.Join(filepath.Dir(made.Root), lockFile)))
				} else {
					d.Lock = kept
				}
			}
			n.list(from, to)
			_, _, err := renewed(t.Context(), t, d, o)
			wantErr(t, err, "cuda_nvcc 11.4.152 is gone from the mirror", n.url+"/"+to)
			if all, err := List(o.Cache); err != nil || len(all) != roots {
				t.Errorf("of %d roots there are %v, %v", roots, all, err)
			}
			for name, data := range n.files {
				n.files[strings.Replace(name, from, to, 1)] = data
			}
			n.list(`"version":"11.4.148"`, `"version":"11.4.149"`)
			made, kept, err := renewed(t.Context(), t, d, o)
			must(t, err)
			if made.Existed || !strings.Contains(kept.String(), to) || contents(t,
				made.Root)["version.txt"] != "CUDA Version 11.4.149\n" {
				t.Errorf("%+v\n%s", made, kept)
			}
			d.Lock = kept
			if made, err := Create(t.Context(), d, o); err != nil || !made.Existed {
				t.Errorf("%+v, %v", made, err)
			}
			if left := glob(t, o.Cache, "env/*.*"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A lock that cannot be kept is the end of it, and the root stays for the next run.
func TestRenewNotKept(t *testing.T) {
	n := newNVIDIA(t)
	d := n.toolkit(t)
	cache := t.TempDir()
	full := errors.New("no room for a lock")
	if _, err := Renew(t.Context(), d, Options{Cache: cache}, func(*Lock) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	if made, _, err := renewed(t.Context(), t, d, Options{Cache: cache}); err != nil || !made.Existed {
		t.Errorf("%+v, %v", made, err)
	}
}

// A list that says more in a field than a lock has room for makes none.
func TestRedistListLines(t *testing.T) {
	n := newNVIDIA(t)
	d := n.toolkit(t)
	good := n.files["redistrib_11.4.4.json"]
	for _, more := range []string{`\n#.tar.xz`, `\r`, `\n\n.tar.xz`} {
		n.files["redistrib_11.4.4.json"] = good
		n.list(`-11.4.152-archive.tar.xz"`, `-11.4.152-archive.tar.xz`+more+`"`)
		_, err := Update(t.Context(), d, Options{})
		wantErr(t, err, "what it says makes no lock", "redistrib_11.4.4.json")
	}
}

// So it is with Debian's packages, whose list is signed and still may name what is not there,
// or what is not what the buildenv promises.
func TestRenewDebian(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	o := m.options()
	o.Keyring = m.keys
	d.Lock = nil
	m.set(func(path string, w http.ResponseWriter, _ *http.Request) bool {
		if strings.Contains(path, "libtiny") {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	_, _, err := renewed(t.Context(), t, d, o)
	wantErr(t, err, "libtiny 1:2.0+b~1 is gone from the mirror", "--mirror URL takes another mirror",
		"packages.lock stays as it was")
	m.set(nil)
	other := d
	other.Programs = map[string]Program{"cc": {Path: "/usr/bin/cc", Version: "2"}}
	_, _, err = renewed(t.Context(), t, other, o)
	wantErr(t, err, "promises 2", "packages.lock stays as it was")
	if _, kept, err := renewed(t.Context(), t, d, o); err != nil || len(kept.Packages) != 4 {
		t.Errorf("%s, %v", kept, err)
	}
}

// And with wheels, of which a lock is made only when they are fetched, and not unpacked.
func TestRenewWheels(t *testing.T) {
	needPip(t)
	from := t.TempDir()
	d := Decl{
		Name: "dlls", Arch: "amd64", RoomMiB: 1, Holds: []string{"rt64.dll"},
		Wheels: &Wheels{Platform: "win_amd64", Packages: []string{"nv-rt==11.8"}},
	}
	o := Options{Cache: t.TempDir(), Mirror: from}
	wheel(t, from, "nv_rt", "11.8", item{name: "rt32.dll", text: "MZ"})
	_, _, err := renewed(t.Context(), t, d, o)
	wantErr(t, err, "has no rt64.dll", "packages.lock stays as it was")
	wheel(t, from, "nv_rt", "11.8", item{name: "rt64.dll", text: "MZ"})
	_, _, err = renewed(t.Context(), t, d, o)
	must(t, err)
}
