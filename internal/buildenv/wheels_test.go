//go:build linux

package buildenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// wheel makes what pip takes for a wheel for Windows.
func wheel(t *testing.T, dir, name, version string, items ...item) string {
	t.Helper()
	info := name + "-" + version + ".dist-info/"
	items = append(items,
		item{name: info + "METADATA", text: "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		item{name: info + "WHEEL", text: "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-win_amd64\n"},
		item{name: info + "License.txt", text: "terms"}, item{name: info + "RECORD", text: "nvidia/rt/bin/rt64.dll,,\n"})
	file := filepath.Join(dir, name+"-"+version+"-py3-none-win_amd64.whl")
	must(t, os.WriteFile(file, zipped(t, items...), 0o644))
	return file
}

func needPip(t *testing.T) {
	t.Helper()
	if _, err := findPip(Options{}); err != nil {
		t.Fatal("this test runs pip (Debian package python3-pip): ", err)
	}
}

// The user's own pip fetches wheels, from a folder here, and each is unpacked as it is.
func TestWheels(t *testing.T) {
	needPip(t)
	from := t.TempDir()
	wheel(t, from, "nv_rt", "11.8", item{name: "nvidia/rt/bin/rt64.dll", text: "MZ"},
		item{name: "nvidia/rt/bin/rt32.dll", text: "MZ"}, item{name: "nvidia/__init__.py"})
	wheel(t, from, "nv_rt", "11.9")
	wheel(t, from, "nv_blas", "2", item{name: "nvidia/blas/bin/blas64.dll", text: "MZ"}, item{name: "nvidia/__init__.py"})
	d := Decl{
		Name: "dlls", Arch: "amd64", RoomMiB: 1, Exclude: []string{"**/rt32.dll"}, Holds: []string{"nvidia/rt/bin/rt64.dll"},
		Wheels: &Wheels{Platform: "win_amd64", Packages: []string{"nv-rt==11.8", "nv-blas==2"}},
	}
	cache := filepath.Join(t.TempDir(), "a [b] *") // of which no part is a pattern
	o := Options{Cache: cache, Mirror: from}
	var err error
	d.Lock, err = Update(t.Context(), d, o)
	must(t, err)
	if p := d.Lock.Packages; len(p) != 2 || p[1].Name != "nv-rt" || p[1].File != "nv_rt-11.8-py3-none-win_amd64.whl" ||
		p[1].Arch != "win_amd64" {
		t.Fatalf("lock:\n%s", d.Lock)
	}
	made, err := Create(t.Context(), d, o)
	must(t, err)
	got := contents(t, made.Root)
	for name, text := range map[string]string{
		"nvidia/rt/bin/rt64.dll": "MZ", "nvidia/blas/bin/blas64.dll": "MZ",
		"nv_rt-11.8.dist-info/License.txt": "terms",
	} {
		if got[name] != text {
			t.Errorf("%s: %q of %v", name, got[name], got)
		}
	}
	if _, ok := got["nvidia/rt/bin/rt32.dll"]; ok {
		t.Error("rt32.dll is not left out")
	}
	if _, ok := got["version.txt"]; ok || made.Suite != "win_amd64" {
		t.Errorf("%+v", made)
	}

	// Another wheel of that name and version, and none.
	_, err = Remove(cache, "dlls")
	must(t, err)
	wheel(t, from, "nv_rt", "11.8", item{name: "nvidia/rt/bin/rt64.dll", text: "MZ, and more"})
	var bad *Unavailable
	_, err = Create(t.Context(), d, o)
	if !errors.As(err, &bad) || bad.Package != "nv-rt" {
		t.Errorf("another wheel: %v", err)
	}
	wantErr(t, err, "buildenv dlls: package nv-rt 11.8", "HASHES", d.Lock.Packages[1].SHA256, "--mirror FOLDER")
	if roots, err := List(cache); err != nil || len(roots) != 0 {
		t.Errorf("there is a root: %v, %v", roots, err)
	}
	must(t, os.Remove(filepath.Join(from, "nv_rt-11.8-py3-none-win_amd64.whl")))
	_, err = Update(t.Context(), d, o)
	if !errors.As(err, &bad) {
		t.Errorf("no wheel: %v", err)
	}
	wantErr(t, err, "nv-rt==11.8")
	d.Wheels.Packages = []string{"nv-rt==11.9", "nv-blas==2"}
	_, err = Create(t.Context(), d, o)
	wantErr(t, err, "packages.lock has nv-rt 11.8, for which env.toml does not ask")
}

// A machine with no pip is told what it lacks.
func TestNoPip(t *testing.T) {
	d := Decl{
		Name: "dlls", Arch: "amd64", RoomMiB: 1, Holds: []string{"x"},
		Wheels: &Wheels{Platform: "win_amd64", Packages: []string{"nv-rt==1"}},
	}
	t.Setenv("PATH", t.TempDir())
	var missing *Missing
	if _, err := Update(t.Context(), d, Options{}); !errors.As(err, &missing) {
		t.Error(err)
	}
	if _, err := exec.LookPath("pip"); err == nil {
		t.Error("the PATH of this test has a pip")
	}
}

// A pip that leaves something else than one wheel is said to, and not waited for.
func TestOddPip(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for script, want := range map[string]string{
		`exit 3`: "exit code 3",
		`true`:   "pip has left 0 wheels of nv-rt==1",
		`echo x >"$dir/a.whl"; cp "$dir/a.whl" "$dir/b.whl"`: "pip has left 2 wheels of nv-rt==1",
		`mkfifo "$dir/a.whl"`:                                "pip has left a.whl, which is no file",
		`ln -s /dev/zero "$dir/a.whl"`:                       "pip has left a.whl, which is no file",
		`mkdir "$dir/a.whl"`:                                 "pip has left a.whl, which is no file",
	} {
		dir := t.TempDir()
		text := "#!/bin/sh\nwhile [ $# -gt 0 ]; do if [ \"$1\" = --dest ]; then dir=$2; fi; shift; done\n" + script + "\n"
		must(t, os.WriteFile(filepath.Join(dir, "pip3"), []byte(text), 0o755))
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		d := Decl{
			Name: "dlls", Arch: "amd64", RoomMiB: 1, Holds: []string{"x"},
			Wheels: &Wheels{Platform: "win_amd64", Packages: []string{"nv-rt==1"}},
		}
		_, err := Update(t.Context(), d, Options{})
		wantErr(t, err, want, "buildenv dlls: package nv-rt 1", "--mirror FOLDER takes the wheels that lie there")
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
