package compat

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asJSON is what a user sees of a report.
func asJSON(t *testing.T, r *Report) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCache(t *testing.T) {
	repo, dir := randomStack(t, 11, 12, 8)
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, repo)
	status := func(cache string, tags []Tag) (string, string) {
		var log bytes.Buffer
		r, err := h.Status(t.Context(), Options{Cache: cache, Log: slog.New(slog.NewTextHandler(&log, nil))}, s, tags)
		if err != nil {
			t.Fatal(err)
		}
		return asJSON(t, r), log.String()
	}
	fresh, _ := status("", h.Tags)
	cache := t.TempDir()
	// Half of the tags first: the rest comes on top of what is kept.
	if _, log := status(cache, h.Tags[:6]); log != "" {
		t.Errorf("log: %s", log)
	}
	files := func() []string {
		all, err := filepath.Glob(filepath.Join(cache, "compat", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, what := range []string{"half kept", "all kept"} {
		if got, log := status(cache, h.Tags); got != fresh || log != "" {
			t.Errorf("%s: the cache changes the answer\n%s\nwant\n%s\nlog %s", what, got, fresh, log)
		}
	}
	// A warm run opens no object of the repository.
	lost := filepath.Join(repo, "objects")
	if err := os.Rename(lost, lost+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(lost, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, log := status(cache, h.Tags); got != fresh || log != "" {
		t.Errorf("a warm run reads the repository: %s", log)
	}
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(lost+".away", lost); err != nil {
		t.Fatal(err)
	}
	if len(files()) != len(s.Fixes)+2 {
		t.Errorf("kept: %v", files())
	}
	for name, damage := range map[string]func(data []byte) []byte{
		"cut":      func(data []byte) []byte { return data[:len(data)/2] },
		"empty":    func([]byte) []byte { return nil },
		"one bit":  func(data []byte) []byte { data[len(data)/3] ^= 1; return data },
		"checksum": func(data []byte) []byte { data[len(data)-1] ^= 1; return data },
		"longer":   func(data []byte) []byte { return append(data, 0) },
	} {
		for _, f := range files() {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, damage(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, log := status(cache, h.Tags)
		if got != fresh {
			t.Errorf("%s: a damaged cache changes the answer", name)
		}
		if n := strings.Count(log, "damaged"); n != len(s.Fixes)+2 {
			t.Errorf("%s: the log tells of %d damaged files: %s", name, n, log)
		}
		if got, log := status(cache, h.Tags); got != fresh || log != "" {
			t.Errorf("%s: the cache is not mended: %s", name, log)
		}
	}
}

// What another build of llpatch kept goes when nobody used it for a month.
func TestCacheForgets(t *testing.T) {
	cache := t.TempDir()
	old, recent := filepath.Join(cache, "compat", "1-v0.0.1"), filepath.Join(cache, "compat", "1-v0.0.2")
	for dir, age := range map[string]time.Duration{old: unusedFor + time.Hour, recent: time.Hour} {
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(dir, when, when); err != nil {
			t.Fatal(err)
		}
	}
	st, err := openStore(cache)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the old one is still there")
	}
	for _, dir := range []string{recent, st.dir} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

// A cache folder that cannot be used must not change the answer, but be told.
func TestCacheUnwritable(t *testing.T) {
	hist, old, now := drift(t)
	h := open(t, hist.write())
	s := declared(t, 0, [2]string{">= 1, < 10", diffOf(t, "x", map[string]string{"src/f.c": old},
		map[string]string{"src/f.c": now})})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r, err := h.Status(t.Context(), Options{Cache: file, Log: slog.New(slog.NewTextHandler(&log, nil))}, s, h.Tags)
	if err != nil || r.Newest != "b8" || !strings.Contains(log.String(), "not a directory") {
		t.Errorf("%v %v, log %s", r, err, log.String())
	}
}

// Contents that were dropped are made again from what they were made from.
func TestContentsAreMadeAgain(t *testing.T) {
	repo, dir := randomStack(t, 12, 10, 8)
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, repo)
	j := newJudge(h, Options{Workers: 1}, s)
	if _, err := j.run(t.Context(), h.Tags); err != nil {
		t.Fatal(err)
	}
	objects, err := h.repo.Objects()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Release() }() // it was only read from
	want := map[string]string{}
	for id := range j.files.from {
		if at := j.files.byID[id]; at != nil {
			want[id.String()] = string(at.Value.(*content).data)
		}
	}
	if len(want) < 10 {
		t.Fatalf("only %d contents were made", len(want))
	}
	for id := range j.files.from {
		fresh := newSharedContents()
		fresh.from = j.files.from
		got, err := (&contents{fresh, objects}).get(id)
		if err != nil || blobID(got) != id || string(got) != want[id.String()] {
			t.Errorf("%s: %v", id, err)
		}
	}
}
