package records

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

func records(t *testing.T) (Store, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	r := Store{Dir: t.TempDir(), Cache: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, name := range []string{spec.LockFile, spec.RevisionsFile} {
		file := filepath.Join(r.Dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("{}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r, log
}

// A record that could not be read again is not written.
func TestPinKeepsTheLockReadable(t *testing.T) {
	r, _ := records(t)
	pin := spec.Pin{Tree: strings.Repeat("a", 40), Build: 100, Time: time.Unix(1, 0)}
	repo := &spec.Repo{Lock: spec.Lock{}}
	for name, c := range map[string]struct {
		upstream string
		pin      spec.Pin
	}{"upstream": {"../x", pin}, "pin": {spec.LlamaCpp, spec.Pin{Tree: "b"}}} {
		if err := r.Pin(t.Context(), repo, c.upstream, tag.MustParse("b100"), c.pin); err == nil {
			t.Errorf("%s: it was recorded", name)
		}
	}
	if _, err := r.tags(); err != nil {
		t.Error(err)
	}
	if err := r.Pin(t.Context(), repo, spec.LlamaCpp, tag.MustParse("b100"), pin); err != nil {
		t.Error(err)
	}
}

// What this machine learned of a tag counts where the declarations do not know its
// tree, and bounds that somebody wrote here are checked as theirs are.
func TestOverlay(t *testing.T) {
	r, _ := records(t)
	full := spec.Pin{Tree: strings.Repeat("a", 40), Build: 100, Time: time.Unix(1, 0).UTC()}
	for _, name := range []string{"v1.0.0", "v2.0.0"} {
		if err := r.Pin(t.Context(), &spec.Repo{Lock: spec.Lock{}}, spec.LlamaCpp, tag.MustParse(name), full); err != nil {
			t.Fatal(err)
		}
	}
	other := full
	other.Tree = strings.Repeat("b", 40)
	repo := &spec.Repo{
		Lock:      spec.Lock{spec.LlamaCpp: {"v1.0.0": {Build: 100}, "v2.0.0": other}},
		Revisions: spec.Revisions{},
	}
	if err := r.Overlay(repo); err != nil {
		t.Fatal(err)
	}
	if pins := repo.Lock[spec.LlamaCpp]; pins["v1.0.0"] != full || pins["v2.0.0"] != other {
		t.Errorf("pins %+v", pins)
	}
	// Where the two say different things of a tag, the narrower number counts, and what
	// contradicts the declarations is not taken: their number may have been corrected.
	within := full
	within.Build, within.Max = 90, 110
	exact := full
	exact.Commit = strings.Repeat("c", 40)
	narrow := within
	narrow.Build, narrow.Max = 95, 105
	for name, c := range map[string]struct{ learned, declared, want spec.Pin }{
		"v4.0.0": {within, spec.Pin{Build: 100, Note: "x"}, full},
		"v4.1.0": {within, spec.Pin{Build: 95, Max: 105}, narrow},
		"v4.2.0": {full, spec.Pin{Build: 90, Max: 110}, full},
		"v4.3.0": {full, spec.Pin{Build: 101}, spec.Pin{Build: 101}},
		"v4.4.0": {within, spec.Pin{Build: 111}, spec.Pin{Build: 111}},
		"v4.5.0": {exact, spec.Pin{Build: 100, Commit: exact.Commit}, exact},
		"v4.6.0": {exact, spec.Pin{Build: 100, Commit: full.Tree}, spec.Pin{Build: 100, Commit: full.Tree}},
		"v4.7.0": {within, spec.Pin{Build: 110, Max: 120}, func() spec.Pin { p := full; p.Build = 110; return p }()},
	} {
		if err := r.Pin(t.Context(), &spec.Repo{Lock: spec.Lock{}}, spec.LlamaCpp, tag.MustParse(name),
			c.learned); err != nil {
			t.Fatal(err)
		}
		repo := &spec.Repo{Lock: spec.Lock{spec.LlamaCpp: {name: c.declared}}, Revisions: spec.Revisions{}}
		if err := r.Overlay(repo); err != nil {
			t.Fatal(err)
		}
		if got := repo.Lock[spec.LlamaCpp][name]; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	data := `{"llama.cpp": {"v3.0.0": {"build": 90, "build_max": 110}}}`
	if err := os.WriteFile(filepath.Join(r.Dir, spec.LockFile), []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	repo.FS = os.DirFS(r.Dir)
	repo.Recipes = map[string]spec.Recipe{"small": {
		Name: "small", Upstream: spec.LlamaCpp,
		Range: tag.MustParseRange(">= 100"),
	}}
	if err := r.Overlay(repo); err == nil || !strings.Contains(err.Error(),
		"falls between the bounds of v3.0.0 (build 90 to 110") {
		t.Errorf("overlay of bounds: %v", err)
	}
}

// A level that another llpatch recorded meanwhile is not said to be new.
func TestLevelRecordedMeanwhile(t *testing.T) {
	r, log := records(t)
	s := &spec.Series{Upstream: spec.LlamaCpp, Tag: "b100", Target: "small"}
	for i, want := range []bool{true, false} {
		log.Reset()
		repo := &spec.Repo{Revisions: spec.Revisions{}} // as each of them loaded it before
		n, err := r.Revision(t.Context(), repo, s, "tree", "plan")
		if said := strings.Contains(log.String(), "new revision recorded"); err != nil || n != 1 || said != want {
			t.Errorf("%d: level %d, %v, log %q", i, n, err, log)
		}
	}
}
