package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// release makes a signed release of two real programs and a library, in a folder, and returns
// its archive. It has a library more for each of the files that it is given, with that in it.
func release(t testing.TB, dir, tag, format string, key *trust.Key, inside ...string) string {
	t.Helper()
	top := filepath.Join(dir, "stage")
	cc := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("cc %v: %v\n%s", args, err, out)
		}
	}
	for name, text := range map[string]string{
		"lib.c":  "int answer(void) { return 42; }\n",
		"main.c": "int answer(void);\nint main(void) { return answer() != 42; }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(top, 0o755); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(top, "libanswer.so")
	cc("-shared", "-fPIC", "-Wl,-soname,libanswer.so", "-o", lib, filepath.Join(dir, "lib.c"))
	for _, name := range []string{"llama-server", "llama-cli"} {
		cc("-o", filepath.Join(top, name), filepath.Join(dir, "main.c"), lib, "-Wl,-rpath,$ORIGIN")
	}
	names := []string{"libanswer.so", "llama-server", "llama-cli"}
	for n, file := range inside {
		name := fmt.Sprintf("libdata%d.so", n)
		source := filepath.Join(dir, "data.s")
		if err := os.WriteFile(source, fmt.Appendf(nil, ".section .rodata\n.incbin %q\n"+
			".section .note.GNU-stack,\"\",%%progbits\n", file), 0o600); err != nil {
			t.Fatal(err)
		}
		cc("-shared", "-nostdlib", "-Wl,-soname,"+name, "-o", filepath.Join(top, name), source)
		names = append(names, name)
	}
	patch := []byte("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
	i := bundle.Info{
		Llpatch: "test", Upstream: spec.LlamaCpp, Tag: tag, Build: 8833, Commit: strings.Repeat("c", 40),
		Tree:    strings.Repeat("a", 40),
		Patched: strings.Repeat("b", 40), Target: "linux-cpu", Revision: 1, Plan: strings.Repeat("d", 64),
		Sums: map[string]string{},
		Series: &spec.Series{
			Upstream: spec.LlamaCpp, Tag: tag, Target: "linux-cpu",
			In: []spec.Chosen{{Fix: "a-fix", Summary: "Mend it", SHA256: sumOf(patch)}},
		},
		Checks: []bundle.CheckInfo{{Name: "health", Verdict: "passed", Place: "host"}},
		Vendored: []bundle.Vendored{{
			Name: "cpp-httplib", Version: "0.40.0", File: "vendor/cpp-httplib/httplib.h",
			Page: "https://github.com/yhirose/cpp-httplib",
		}},
		Security: spec.Known{
			Date: "2026-12-01", Through: 9000, Build: 8833,
			Open: []spec.Judged{{Advisory: spec.Advisory{
				ID: "open-one", Effect: "it reads", Needs: []string{"model"},
				State: "sure", Score: 7.5, ScoredBy: "x",
			}}},
		},
	}
	for _, name := range names {
		f, err := binary.Inspect(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		f.Name = name
		i.Files = append(i.Files, f)
		if i.Sums[name], err = build.SumFile(filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	i.Glibc, i.Needs = binary.Floor(i.Files, "GLIBC"), binary.Outside(i.Files)
	c := bundle.Content{
		Info: i, Patches: [][]byte{patch},
		Licenses: map[string][]byte{"LICENSE": []byte("Do as you like.\n")},
	}
	archive := filepath.Join(dir, "out", fmt.Sprintf("llama-%s-llp1-bin-linux-cpu-x64.%s", tag, format))
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := c.Pack(t.Context(), top, archive, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	beside, err := c.Beside(t.Context(), p, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range beside {
		if err := os.WriteFile(filepath.Join(filepath.Dir(archive), name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return archive
}

func newKey(t testing.TB) (trust.Key, *trust.PublicKey) {
	t.Helper()
	k, err := trust.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := k.Public()
	return k, &p
}

// one verifies one archive.
func one(ctx context.Context, t testing.TB, name string, o Options) *Report {
	t.Helper()
	all, err := Path(ctx, name, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d reports", len(all))
	}
	return all[0]
}

func TestWhole(t *testing.T) {
	k, public := newKey(t)
	other, _ := newKey(t)
	strangerKey := other.Public()
	for _, format := range []string{spec.TarGz, spec.Zip} {
		t.Run(format, func(t *testing.T) {
			archive := release(t, t.TempDir(), "b8833", format, &k)
			o := Options{Key: public, Expect: "b8833", Version: "test"}
			for _, name := range []string{archive, filepath.Dir(archive)} {
				if r := one(t.Context(), t, name, o); r.Err() != nil || r.Tag != "b8833" || len(r.Findings) != 6 {
					t.Errorf("%s: %s", name, r.Text())
				}
			}
			for what, c := range map[string]struct {
				o    Options
				want string
				err  any
			}{
				"no key":      {Options{Version: "test"}, "no key was given", new(*Unproven)},
				"another tag": {Options{Key: public, Expect: "b8834", Version: "test"}, "b8834 was expected", new(*Failed)},
				"another key": {Options{Key: &strangerKey, Version: "test"}, "made it, not", new(*Failed)},
			} {
				r := one(t.Context(), t, archive, c.o)
				if err := r.Err(); !errors.As(err, c.err) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// What another llpatch wrote of an archive is not called wrong where this one would write it
// otherwise, and what this one would have written is.
func TestMaterials(t *testing.T) {
	k, public := newKey(t)
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, &k)
	sums := filepath.Join(filepath.Dir(archive), bundle.SumsFile)
	data, err := os.ReadFile(archive + bundle.SBOMSuffix)
	if err != nil {
		t.Fatal(err)
	}
	other := append(data, '\n')
	text, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), sumOf(data), sumOf(other), 1))
	signature, err := k.Sign(strings.NewReader(string(text)), bundle.Info{
		Tag: "b8833", Target: "linux-cpu",
		Revision: 1,
	}.SignedComment(bundle.SumsFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{archive + bundle.SBOMSuffix: other, sums: text, sums +
		trust.SignatureSuffix: signature} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := one(t.Context(), t, archive, Options{Key: public, Version: "newer"}).Err(); !errors.As(err,
		new(*Unproven)) || !strings.Contains(err.Error(), "cannot write it again") {
		t.Error(err)
	}
	if err := one(t.Context(), t, archive, Options{Key: public, Version: "test"}).Err(); !errors.As(err, new(*Failed)) ||
		!strings.Contains(err.Error(), "materials") {
		t.Error(err)
	}
}

// A key that another one lets take its place is as good.
func TestRotated(t *testing.T) {
	old, public := newKey(t)
	next, _ := newKey(t)
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, &next)
	o := Options{Key: public, Version: "test"}
	if err := one(t.Context(), t, archive, o).Err(); !errors.As(err, new(*Failed)) {
		t.Errorf("without a succession: %v", err)
	}
	signature, err := old.Succeed(next.Public())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(archive), "next.pub")
	if err := errors.Join(os.WriteFile(file, next.Public().Text(), 0o600),
		os.WriteFile(file+trust.SignatureSuffix, signature, 0o600)); err != nil {
		t.Fatal(err)
	}
	if r := one(t.Context(), t, archive, o); r.Err() != nil || !strings.Contains(r.Text(), "took the place of") {
		t.Error(r.Text())
	}
}

// An unpacked bundle has no signature, and its files are compared all the same.
func TestUnpacked(t *testing.T) {
	k, public := newKey(t)
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, &k)
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "xzf", archive, "-C", dir,
		"--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	o := Options{Key: public, Version: "test"}
	if err := one(t.Context(), t, dir, o).Err(); !errors.As(err, new(*Unproven)) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "more.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := one(t.Context(), t, dir, o).Err(); !errors.As(err, new(*Failed)) ||
		!strings.Contains(err.Error(), "more.txt") {
		t.Error(err)
	}
}

// A replay is an older release as it was published: it is found by the tag that is expected, or by
// an index that names a newer one.
func replays(t *testing.T, older, dir string, rnd *rand.Rand) (o Options, err error) {
	t.Helper()
	o.Expect = "b8833"
	if rnd.IntN(2) == 0 {
		of := bundle.Archive{Upstream: spec.LlamaCpp, Target: "linux-cpu", Tag: "b8800", Build: 8833, Revision: 1}
		newer := of
		newer.Name, newer.Tag, newer.Build = "llama-b8833-llp1-bin-linux-cpu-x64.tar.gz", "b8833", 8834
		of.Name = "llama-b8800-llp1-bin-linux-cpu-x64.tar.gz"
		of.SHA256, err = build.SumFile(filepath.Join(older, of.Name))
		o = Options{Index: &bundle.Index{Date: time.Unix(2e9, 0), Releases: []bundle.Release{
			{Archives: []bundle.Archive{newer}}, {Archives: []bundle.Archive{of}},
		}}}
	}
	entries, err1 := os.ReadDir(dir)
	err = errors.Join(err, err1)
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
	}
	return o, errors.Join(err, copyAll(older, dir, func(name string) string { return name }))
}

// Whatever is changed of a signed release is found: 200 random changes of 14 kinds.
func TestCorruptions(t *testing.T) {
	k, public := newKey(t)
	mallory, _ := newKey(t)
	good := filepath.Dir(release(t, t.TempDir(), "b8833", spec.TarGz, &k))
	older := filepath.Dir(release(t, t.TempDir(), "b8800", spec.TarGz, &k))
	forged := filepath.Dir(release(t, t.TempDir(), "b8833", spec.TarGz, &mallory))
	entries, err := os.ReadDir(good)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 7 {
		t.Fatalf("a release has %v", names)
	}
	archive := names[slices.IndexFunc(names, isArchive)]
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	const replay = "an older release, as it was published"
	kinds := map[string]func(dir, file string) error{
		replay: nil,
		"the signature of another archive": func(dir, _ string) error {
			return copyFile(filepath.Join(older, strings.Replace(archive, "b8833", "b8800", 1)+trust.SignatureSuffix),
				filepath.Join(dir, archive+trust.SignatureSuffix))
		},
		"a stale manifest in the archive": func(dir, _ string) error {
			return repack(t, filepath.Join(dir, archive), `sed -i s/b8833/b8800/ BUILD_INFO.json`)
		},
		"a stale manifest in the archive, whose sums fit": func(dir, _ string) error {
			return repack(t, filepath.Join(dir, archive), `sed -i s/b8833/b8800/ BUILD_INFO.json
				find . -type f ! -name SHA256SUMS | sort | sed 's,^\./,,' | xargs sha256sum >SHA256SUMS`)
		},
		"a bit flips": func(_, file string) error {
			data, err := os.ReadFile(file)
			if err == nil {
				data[rnd.IntN(len(data))] ^= 1 << rnd.IntN(8)
				err = os.WriteFile(file, data, 0o600)
			}
			return err
		},
		"cut": func(_, file string) error {
			st, err := os.Stat(file)
			if err == nil {
				err = os.Truncate(file, rnd.Int64N(st.Size()))
			}
			return err
		},
		"bytes behind it": func(_, file string) error {
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, append(data, "more"...), 0o600)
			}
			return err
		},
		"not there": func(_, file string) error { return os.Remove(file) },
		"swapped with another": func(dir, file string) error {
			other := filepath.Join(dir, names[rnd.IntN(len(names))])
			for other == file {
				other = filepath.Join(dir, names[rnd.IntN(len(names))])
			}
			return errors.Join(os.Rename(file, file+".x"), os.Rename(other, file), os.Rename(file+".x", other))
		},
		"of an older release": func(_, file string) error {
			return copyFile(filepath.Join(older, strings.Replace(filepath.Base(file), "b8833", "b8800", 1)), file)
		},
		"of another's key": func(_, file string) error { return copyFile(filepath.Join(forged, filepath.Base(file)), file) },
		"the whole of another's key": func(dir, _ string) error {
			return copyAll(forged, dir, func(name string) string { return name })
		},
		"an older release under the new name": func(dir, _ string) error {
			return copyAll(older, dir, func(name string) string { return strings.Replace(name, "b8800", "b8833", 1) })
		},
		"a file in the archive": func(dir, _ string) error {
			return repack(t, filepath.Join(dir, archive), "date +%N >more")
		},
	}
	order := make([]string, 0, len(kinds))
	for kind := range kinds {
		order = append(order, kind)
	}
	slices.Sort(order)
	o := Options{Key: public, Expect: "b8833", Version: "test"}
	const rounds = 200
	found := map[string]int{}
	for n := 0; n < rounds; {
		kind, name := order[n%len(order)], names[rnd.IntN(len(names))]
		dir := t.TempDir()
		if err := copyAll(good, dir, func(name string) string { return name }); err != nil {
			t.Fatal(err)
		}
		o, at := o, filepath.Join(dir, archive)
		if kind == replay {
			of, err := replays(t, older, dir, rnd)
			if err != nil {
				t.Fatal(err)
			}
			o.Expect, o.Index, at = of.Expect, of.Index, filepath.Join(dir, strings.Replace(archive, "b8833", "b8800", 1))
		} else if err := kinds[kind](dir, filepath.Join(dir, name)); err != nil {
			t.Fatalf("%s, %s: %v", kind, name, err)
		}
		if changed, err := differ(good, dir, names); err != nil {
			t.Fatal(err)
		} else if !changed {
			continue // another's key gives the same archive
		}
		n++
		reports, err := Path(t.Context(), at, o)
		switch {
		case err != nil && (name != archive || kind != "not there"):
			t.Errorf("%s, %s, seed %d: %v", kind, name, seed, err)
		case err == nil && reports[0].Err() == nil:
			t.Errorf("%s, %s, seed %d: not found:\n%s", kind, name, seed, reports[0].Text())
		default:
			found[kind]++
		}
	}
	all := 0
	for _, kind := range order {
		t.Logf("%2d  %s", found[kind], kind)
		all += found[kind]
	}
	t.Logf("%d of %d found (seed %d)", all, rounds, seed)
}

// repack does something in the top folder of an archive.
func repack(t *testing.T, file, what string) error {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", `cd "$2"; tar xzf "$1"; cd */; eval "$3"; cd ..; tar czf "$1" *`,
		"sh", file, t.TempDir(), what).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	return err
}

func copyAll(from, to string, as func(string) string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		err = errors.Join(err, copyFile(filepath.Join(from, e.Name()), filepath.Join(to, as(e.Name()))))
	}
	return err
}

func differ(a, b string, names []string) (bool, error) {
	for _, name := range names {
		x, err := os.ReadFile(filepath.Join(a, name))
		if err != nil {
			return false, err
		}
		y, err := os.ReadFile(filepath.Join(b, name))
		if errors.Is(err, os.ErrNotExist) || string(x) != string(y) {
			return true, nil
		}
	}
	return false, nil
}

// What was not llpatch's is told in words, and never called proven.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	archive := release(t, dir, "b8833", spec.TarGz, nil)
	foreign := filepath.Join(dir, "llama-b1-bin-ubuntu-x64.tar.gz")
	if out, err := exec.CommandContext(t.Context(), "tar", "czf", foreign, "-C", dir, "--exclude", bundle.InfoFile,
		"stage").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	_ = archive
	r := one(t.Context(), t, foreign, Options{Version: "test"})
	err := r.Err()
	if !errors.As(err, new(*Unproven)) || !strings.Contains(err.Error(), "by whom it was built cannot be known") {
		t.Errorf("%v", err)
	}
	// How others pack is not wrong, but what leads out is.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "stage", "sub"), 0o755),
		os.Symlink("../llama-cli", filepath.Join(dir, "stage", "sub", "up")),
		os.Remove(filepath.Join(dir, "stage", bundle.InfoFile))); err != nil {
		t.Fatal(err)
	}
	if err := one(t.Context(), t, filepath.Join(dir, "stage"), Options{Version: "test"}).Err(); !errors.As(err,
		new(*Unproven)) {
		t.Errorf("a folder of somebody's: %v", err)
	}
	dotted := filepath.Join(dir, "dotted.tgz")
	for _, wrong := range []bool{false, true} {
		if wrong {
			if err := os.Symlink("../../../out", filepath.Join(dir, "stage", "sub", "out")); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.CommandContext(t.Context(), "tar", "czf", dotted, "-C", filepath.Join(dir, "stage"),
			".").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if err := one(t.Context(), t, dotted, Options{Version: "test"}).Err(); errors.As(err, new(*Failed)) != wrong {
			t.Errorf("links out: %v: %v", wrong, err)
		}
	}
	for _, bad := range []string{"empty.tar.gz", "text.zip"} {
		file := filepath.Join(dir, bad)
		if err := os.WriteFile(file, []byte("no archive"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := one(t.Context(), t, file, Options{Version: "test"}).Err(); !errors.As(err, new(*Failed)) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := Path(t.Context(), t.TempDir(), Options{}); !errors.As(err, new(*NotArchive)) {
		t.Errorf("an empty folder: %v", err)
	}
}

func FuzzArchive(f *testing.F) {
	k, _ := newKey(f)
	for _, format := range []string{spec.TarGz, spec.Zip} {
		data, err := os.ReadFile(release(f, f.TempDir(), "b1", format, &k))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, format == spec.Zip)
	}
	f.Fuzz(func(t *testing.T, data []byte, isZip bool) {
		name := filepath.Join(t.TempDir(), "llama-b1-llp1-bin-linux-cpu-x64."+
			map[bool]string{false: spec.TarGz, true: spec.Zip}[isZip])
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := Path(t.Context(), name, Options{})
		if err != nil || len(all) != 1 || all[0].Err() == nil {
			t.Errorf("%v, %v", all, err)
		}
	})
}
