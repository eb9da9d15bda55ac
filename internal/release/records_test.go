package release

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

func records(t *testing.T) (Records, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	r := Records{Dir: t.TempDir(), Cache: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, name := range []string{spec.LockFile, spec.LevelsFile} {
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

// A level that another llpatch recorded meanwhile is not said to be new.
func TestLevelRecordedMeanwhile(t *testing.T) {
	r, log := records(t)
	s := &spec.Series{Upstream: spec.LlamaCpp, Tag: "b100", Target: "small"}
	for i, want := range []bool{true, false} {
		log.Reset()
		repo := &spec.Repo{Levels: spec.Levels{}} // as each of them loaded it before
		n, err := r.Level(t.Context(), repo, s, "tree", "plan")
		if said := strings.Contains(log.String(), "new level recorded"); err != nil || n != 1 || said != want {
			t.Errorf("%d: level %d, %v, log %q", i, n, err, log)
		}
	}
}
