package source

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIndexAgainstGit compares our index of real packs with git's, byte for byte.
func TestIndexAgainstGit(t *testing.T) {
	u := newUpstream(t)
	for name, args := range map[string][]string{
		"offset deltas": {"--delta-base-offset"},
		"ref deltas":    {},
		"no deltas":     {"--window=0"},
		"long chains":   {"--window=250", "--depth=250"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			list := git(t, u.dir, "rev-list", "--objects", "--all", "--no-object-names")
			must(t, os.WriteFile(filepath.Join(dir, "list"), []byte(list+"\n"), 0o644))
			cmd := append([]string{"-c", "pack.threads=1", "pack-objects", "-q", "--all", filepath.Join(dir, "pack")}, args...)
			git(t, u.dir, cmd...)
			packs, err := filepath.Glob(filepath.Join(dir, "pack-*.pack"))
			if err != nil || len(packs) != 1 {
				t.Fatalf("%v %v", packs, err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(packs[0], ".pack") + ".idx")
			must(t, err)
			file, err := os.Open(packs[0])
			must(t, err)
			defer func() { must(t, file.Close()) }()
			fi, err := file.Stat()
			must(t, err)
			var got bytes.Buffer
			sum, err := indexPack(t.Context(), file, fi.Size(), &got)
			must(t, err)
			if !strings.Contains(packs[0], sum.String()) || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("index of %s differs from git's", packs[0])
			}
			if deltas := strings.Count(git(t, dir, "verify-pack", "-v", packs[0]),
				"chain length"); (deltas > 0) == (name == "no deltas") {
				t.Errorf("the pack has chains of %d lengths", deltas)
			}
		})
	}
}

// FuzzIndexPack: no input may crash it, take much memory or pass as sound when
// go-git's reading of it then fails.
func FuzzIndexPack(f *testing.F) {
	dir := f.TempDir()
	s := &scratch{dir: dir}
	if err := os.MkdirAll(s.packDir(), 0o755); err != nil {
		f.Fatal(err)
	}
	p, err := s.newPack()
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		if _, err := p.add(typeBlob, fmt.Appendf(nil, "blob %d", i)); err != nil {
			f.Fatal(err)
		}
	}
	if err := p.finish(f.Context()); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.packDir(), s.packs[0]+".pack"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := os.CreateTemp(t.TempDir(), "pack")
		must(t, err)
		defer func() { must(t, file.Close()) }()
		_, err = file.Write(b)
		must(t, err)
		var idx bytes.Buffer
		if _, err := indexPack(t.Context(), file, int64(len(b)), &idx); err == nil && idx.Len() == 0 {
			t.Error("no error and no index")
		}
	})
}
