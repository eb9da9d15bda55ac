package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// What lies beside one archive and cannot be read is a finding of that one, and takes no report of another's away.
func TestBesideUnread(t *testing.T) {
	k, public := newKey(t)
	o := Options{Key: public, Version: "test"}
	sum := strings.Repeat("0", 64)
	file := func(archive, name string) string { return filepath.Join(filepath.Dir(archive), name) }
	for what, c := range map[string]struct {
		lay  func(archive, base string) error
		says string
	}{
		"a long name": {func(archive, base string) error {
			return os.WriteFile(file(archive, bundle.SumsFile), fmt.Appendf(nil, "%s  %s.%s\n", sum, base,
				strings.Repeat("x", 300)), 0o600)
		}, "cannot be read: file name too long"},
		"a NUL": {func(archive, base string) error {
			return os.WriteFile(file(archive, bundle.SumsFile), fmt.Appendf(nil, "%s  %s.\x00\n", sum, base), 0o600)
		}, `.\x00, beside it, cannot be read: invalid argument`},
		"sums that lead in a circle": {func(archive, _ string) error {
			name := file(archive, bundle.SumsFile)
			return errors.Join(os.Remove(name), os.Symlink(bundle.SumsFile, name))
		}, "SHA256SUMS, beside it, cannot be read: too many levels"},
		"a signature that leads in a circle": {func(archive, base string) error {
			name := base + trust.SignatureSuffix
			return errors.Join(os.Remove(file(archive, name)), os.Symlink(name, file(archive, name)))
		}, "minisig, beside it, cannot be read: too many levels"},
		"statements that lead in a circle": {func(archive, base string) error {
			name := base + bundle.StatementsSuffix
			return errors.Join(os.Remove(file(archive, name)), os.Symlink(name, file(archive, name)))
		}, "intoto.jsonl, beside it, cannot be read: too many levels"},
		"a file twice": {func(archive, base string) error {
			return os.WriteFile(file(archive, bundle.SumsFile), fmt.Appendf(nil, "%s  %s\n%[1]s  %[2]s\n", sum, base), 0o600)
		}, "SHA256SUMS beside it names llama-b8833-llp1-bin-linux-cpu-x64.tar.gz twice."},
		"too many": {func(archive, base string) error {
			var text []byte
			for n := range 2001 {
				text = fmt.Appendf(text, "%s  %s.%d\n", sum, base, n)
			}
			return os.WriteFile(file(archive, bundle.SumsFile), text, 0o600)
		}, "SHA256SUMS beside it has 2001 lines, and none that llpatch reads has more than 2000."},
	} {
		t.Run(what, func(t *testing.T) {
			archive := release(t, t.TempDir(), "b8833", spec.TarGz, &k)
			if err := c.lay(archive, filepath.Base(archive)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file(archive, "other.zip"), []byte("no zip"), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := Path(t.Context(), filepath.Dir(archive), o)
			if err != nil || len(all) != 2 {
				t.Fatalf("%d reports, %v", len(all), err)
			}
			if r := all[0]; !slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Status == Wrong && strings.Contains(f.Says, c.says)
			}) || strings.Count(r.Text(), "SHA256SUMS names") > 0 {
				t.Error(r.Text())
			}
		})
	}
}

// Who interrupts is obeyed between two files.
func TestBesideInterrupted(t *testing.T) {
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &Report{}
	s := r.newSet(archive, &members{})
	enough := errors.New("enough")
	cancel(enough)
	for _, sum := range s.of.Beside {
		if err := r.listed(ctx, s, sum); !errors.Is(err, enough) {
			t.Errorf("%s: %v", sum.Name, err)
		}
	}
	if len(s.of.Beside) < 2 || len(r.Findings) > 0 {
		t.Errorf("%v, %v", s.of.Beside, r.Findings)
	}
}

// A page that no sum is of is wrong where this llpatch would have listed it, and nobody's word where another made
// the set.
func TestNotesUnlisted(t *testing.T) {
	k, public := newKey(t)
	for version, status := range map[string]Status{"test": Wrong, "v9.9.9": Open} {
		archive := release(t, t.TempDir(), "b8833", spec.TarGz, &k)
		file := filepath.Join(filepath.Dir(archive), bundle.SumsFile)
		var kept strings.Builder
		for line := range strings.Lines(string(must(os.ReadFile(file)))) {
			if !strings.Contains(line, bundle.NotesFile) {
				kept.WriteString(line)
			}
		}
		signature := must(k.Sign(strings.NewReader(kept.String()), bundle.Info{
			Tag: "b8833", Target: "linux-cpu", Revision: 1,
		}.SignedComment(bundle.SumsFile)))
		if err := errors.Join(os.WriteFile(file, []byte(kept.String()), 0o600),
			os.WriteFile(file+trust.SignatureSuffix, signature, 0o600)); err != nil {
			t.Fatal(err)
		}
		r := one(t.Context(), t, archive, Options{Key: public, Version: version})
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.Status == status && strings.Contains(f.Says, "NOTES.md lies beside it, and SHA256SUMS does not name it")
		}) || r.has(Wrong) != (status == Wrong) || r.Err() == nil {
			t.Errorf("%s: %s", version, r.Text())
		}
		if slices.ContainsFunc(r.Set(), func(f File) bool { return f.Name == bundle.NotesFile }) {
			t.Error("a page that nobody signed is published")
		}
	}
}

// Who changes his key is the same person before, between and after: no second builder.
func TestOwnerIsNoBuilder(t *testing.T) {
	a, b, c, d := must(trust.NewKey()), must(trust.NewKey()), must(trust.NewKey()), must(trust.NewKey())
	stranger := must(trust.NewKey())
	archive := release(t, t.TempDir(), "b8833", spec.TarGz, &c)
	lay(t, archive, "b", b, a)
	lay(t, archive, "c", c, b)
	lay(t, archive, "d", d, c)
	keys := map[string]trust.Key{"first": a, "between": b, "signer": c, "later": d, "stranger": stranger}
	var o Options
	for _, k := range keys {
		o.Builders = append(o.Builders, k.Public())
		name := fmt.Sprintf("%s.rebuilt-%s%s", archive, k.Public().Name(), bundle.StatementsSuffix)
		if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, trusted := range []trust.Key{a, c} {
		p := trusted.Public()
		o.Key, o.Version = &p, "test"
		r := one(t.Context(), t, archive, o)
		for who, k := range keys {
			want := Stated
			if who == "stranger" {
				want = Wrong // it is no statement
			}
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.About == "rebuilt" && f.Status == want && strings.Contains(f.Says, k.Public().Name())
			}) {
				t.Errorf("%s, %s", who, r.Text())
			}
		}
	}
}
