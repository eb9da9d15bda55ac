package verify

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
)

// What the index of a place says of an archive.
func TestIndex(t *testing.T) {
	const name = "llama-b8833-llp1-bin-linux-cpu-x64.tar.gz"
	mine := bundle.Archive{
		Name: name, SHA256: "a", Upstream: "llama.cpp", Target: "linux-cpu", Tag: "b8833", Build: 8833,
		Revision: 1,
	}
	next, other, cuda := mine, mine, mine
	next.Name, next.SHA256, next.Revision = "llama-b8833-llp2-bin-linux-cpu-x64.tar.gz", "b", 2
	other.SHA256 = "c"
	later := next
	later.Name, later.Tag, later.Build = "llama-b8900-llp1-bin-linux-cpu-x64.tar.gz", "b8900", 8900
	cuda.Name, cuda.SHA256, cuda.Target, cuda.Build = "cuda.zip", "d", "linux-cuda", 9000
	gone := &bundle.Withdrawn{Date: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC), Why: "It crashes."}
	for what, c := range map[string]struct {
		releases []bundle.Release
		expect   string
		status   Status
		says     string
	}{
		"newest": {
			[]bundle.Release{{Archives: []bundle.Archive{cuda, mine}}},
			"", Proven,
			"no newer one for linux-cpu",
		},
		"not there": {
			[]bundle.Release{{Archives: []bundle.Archive{cuda}}},
			"", Open,
			"of 2026-12-01 does not name it",
		},
		"other bytes": {[]bundle.Release{{Archives: []bundle.Archive{other}}}, "", Wrong, "another SHA-256 for it, c"},
		"a replay": {
			[]bundle.Release{{Archives: []bundle.Archive{next}}, {Archives: []bundle.Archive{mine}}},
			"",
			Wrong, "newer one for linux-cpu: llama-b8833-llp2",
		},
		"expected": {
			[]bundle.Release{{Archives: []bundle.Archive{later}}, {Archives: []bundle.Archive{mine}}},
			"b8833", Proven, "and a newer one: llama-b8900-llp1",
		},
		"another revision": {
			[]bundle.Release{{Archives: []bundle.Archive{next}}, {Archives: []bundle.Archive{mine}}},
			"b8833", Wrong, "newer one for linux-cpu: llama-b8833-llp2",
		},
		"withdrawn": {
			[]bundle.Release{{Archives: []bundle.Archive{mine}, Withdrawn: gone}},
			"b8833", Wrong,
			"withdrawn on 2026-12-02: It crashes.",
		},
		"in two": {[]bundle.Release{
			{Archives: []bundle.Archive{mine}},
			{Archives: []bundle.Archive{mine}, Withdrawn: gone},
		}, "", Wrong, "withdrawn on 2026-12-02"},
		"newer, withdrawn": {[]bundle.Release{
			{Archives: []bundle.Archive{next}, Withdrawn: gone},
			{Archives: []bundle.Archive{mine}},
		}, "", Proven, "no newer one"},
	} {
		r := &Report{Subject: name, SHA256: "a", Tag: "b8833"}
		r.dated(Options{Expect: c.expect, Index: &bundle.Index{
			Date:     time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
			Releases: c.releases,
		}})
		if len(r.Findings) != 1 || r.Findings[0].Status != c.status || !strings.Contains(r.Findings[0].Says, c.says) {
			t.Errorf("%s: %+v", what, r.Findings)
		}
	}
}

// An archive that is published has its own SHA256SUMS, which counts before that of another.
func TestOwnSums(t *testing.T) {
	k, key := newKey(t)
	dir := t.TempDir()
	archive := release(t, dir, "b8833", "tar.gz", &k)
	there := t.TempDir()
	err := copyAll(filepath.Dir(archive), there, func(name string) string {
		if strings.HasPrefix(name, bundle.SumsFile) || name == bundle.NotesFile {
			return filepath.Base(archive) + "." + name
		}
		return name
	})
	if err != nil {
		t.Fatal(err)
	}
	r := one(t.Context(), t, filepath.Join(there, filepath.Base(archive)), Options{Key: key, Version: "test"})
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}
