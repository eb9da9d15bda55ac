package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/lock"
)

// TestLockWaits holds the lock: another process must say that it waits, and go
// on when the lock is free.
func TestLockWaits(t *testing.T) {
	u := newUpstream(t)
	cache := t.TempDir()
	l, err := lock.Wait(t.Context(), filepath.Join(cache, "llama.cpp.lock"), false, nil)
	must(t, err)
	cmd := childJob{Cache: cache, Override: u.bundle(t, "b102"), Tag: "b102", Lock: u.lock}.command(t)
	var out, log syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &log
	must(t, cmd.Start())
	for start := time.Now(); !strings.Contains(log.String(), "waiting for it"); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("it does not say that it waits: %s", log.String())
		}
	}
	nothingLeft(t, cache)
	must(t, l.Close())
	must(t, cmd.Wait())
	if strings.TrimSpace(out.String()) != u.tree("b102") {
		t.Errorf("tree %q", out.String())
	}
}

// TestRace starts several processes at once on one cache.
func TestRace(t *testing.T) {
	u := newUpstream(t)
	bundles := map[string]string{}
	for _, b := range upstreamTags {
		bundles[b] = u.bundle(t, b)
	}
	cache := t.TempDir()
	var wg sync.WaitGroup
	for i := range 9 {
		b := upstreamTags[i%3]
		wg.Go(func() {
			cmd := childJob{Cache: cache, Override: bundles[b], Tag: b, Lock: u.lock}.command(t)
			var log bytes.Buffer
			cmd.Stderr = &log
			out, err := cmd.Output()
			if err != nil || strings.TrimSpace(string(out)) != u.tree(b) {
				t.Errorf("%s: %q, %v\n%s", b, out, err, log.String())
			}
		})
	}
	wg.Wait()
	packs, err := filepath.Glob(filepath.Join(cache, "llama.cpp.git", "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 3 {
		t.Errorf("packs %v, %v", packs, err)
	}
}

// TestKill ends a process with SIGKILL at many moments of fetching and checking
// out. Whatever it leaves, the next run gives the right tree, and sweeps.
func TestKill(t *testing.T) {
	u := newUpstream(t)
	// Enough work that a kill can hit the middle of each step.
	big := map[string]File{}
	for i := range 150 {
		big[fmt.Sprintf("src/f%03d/file.c", i)] = File{Regular, bytes.Repeat(fmt.Appendf(nil, "%d some text\n", i), 3000)}
	}
	writeAll(t, u.dir, big)
	git(t, u.dir, "add", "-A")
	git(t, u.dir, "commit", "-q", "-m", "big")
	git(t, u.dir, "tag", "b104")
	u.lock["llama.cpp"]["b104"] = u.pin(t, "b104", 104)
	job := childJob{Override: u.bundle(t, "b104"), Tag: "b104", Lock: u.lock}

	// How long a whole run takes tells where to kill.
	job.Cache, job.Dir = t.TempDir(), filepath.Join(t.TempDir(), "out")
	start := time.Now()
	if out, err := job.command(t).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole := time.Since(start)
	killed := 0
	const rounds = 18
	for i := range rounds {
		if i%6 == 0 { // a fresh start now and then; else on top of what the last kill left
			job.Cache, job.Dir = t.TempDir(), filepath.Join(t.TempDir(), "out")
		}
		cmd := job.command(t)
		must(t, cmd.Start())
		time.Sleep(whole * time.Duration(i%6*3+i/6+1) / rounds)
		_ = cmd.Process.Kill() // it may have ended already
		if cmd.Wait() != nil {
			killed++
		}
		if i%6 != 5 {
			continue
		}
		if out, err := job.command(t).CombinedOutput(); err != nil {
			t.Fatalf("after kills: %v\n%s", err, out)
		}
		if got := diskTree(t, job.Dir); got != u.tree("b104") {
			t.Errorf("after kills: tree %s", got)
		}
		git(t, filepath.Join(job.Cache, "llama.cpp.git"), "fsck", "--full")
		// Whoever holds the lock next sweeps; a fetch of what is there needs no lock.
		o, _ := options(t, nil)
		o.Cache = job.Cache
		unlock, err := newFetcher(t.Context(), o, "llama.cpp").lock(t.Context())
		must(t, err)
		must(t, unlock())
		left, err := filepath.Glob(filepath.Join(job.Cache, "*.scratch", "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left after kills: %v %v", left, err)
		}
	}
	if killed < rounds/4 {
		t.Errorf("only %d of %d runs were killed before their end", killed, rounds)
	}
}

// TestDamagedCache changes what is in the cache: it is noticed, named, and the
// tree fetched again, when it is opened or when a file is read later.
func TestDamagedCache(t *testing.T) {
	u := newUpstream(t)
	o, log := options(t, u.lock)
	o.Override, o.Cache = u.bundle(t, "b102"), filepath.Join(o.Cache, "odd [name]")
	cached := func(ext string) string {
		t.Helper()
		dir := filepath.Join(o.Cache, "llama.cpp.git", "objects", "pack")
		got, err := fs.Glob(os.DirFS(dir), "*"+ext)
		if err != nil || len(got) != 1 {
			t.Fatalf("%v %v", got, err)
		}
		return filepath.Join(dir, got[0])
	}
	mustFetch(t, o, "b102")
	good := map[string][]byte{}
	for _, ext := range []string{".pack", ".idx"} {
		b, err := os.ReadFile(cached(ext))
		must(t, err)
		good[ext] = b
	}
	noticed := 0
	for _, ext := range []string{".pack", ".idx"} {
		for i := 0; i < len(good[ext]); i += max(1, len(good[ext])/16) {
			mustFetch(t, o, "b102") // so that there is something to damage
			bad := bytes.Clone(good[ext])
			bad[i] ^= 0x08
			must(t, os.WriteFile(cached(ext), bad, 0o644))
			tree := mustFetch(t, o, "b102")
			for _, e := range tree.Files() {
				f, err := tree.Read(e.Path)
				if err != nil || blobID(f.Data) != e.Blob {
					t.Errorf("%s byte %d, %s: %v", ext, i, e.Path, err)
				}
			}
		}
	}
	if noticed = strings.Count(log.String(), "damaged"); noticed < 16 {
		t.Errorf("damage was noticed %d times", noticed)
	}
	for what, damage := range map[string]func(){
		"pack gone":  func() { must(t, os.Remove(cached(".pack"))) },
		"index gone": func() { must(t, os.Remove(cached(".idx"))) },
		"pack empty": func() { must(t, os.Truncate(cached(".pack"), 0)) },
		"pack cut":   func() { must(t, os.Truncate(cached(".pack"), int64(len(good[".pack"])/2))) },
		"index cut":  func() { must(t, os.Truncate(cached(".idx"), int64(len(good[".idx"])/2))) },
	} {
		mustFetch(t, o, "b102")
		damage()
		tree := mustFetch(t, o, "b102")
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := tree.Checkout(t.Context(), dir, nil); err != nil || diskTree(t, dir) != tree.ID() {
			t.Errorf("%s: %v", what, err)
		}
	}

	// Damage where nothing can be fetched again is an error that names it.
	tree := mustFetch(t, o, "b102")
	must(t, os.Truncate(cached(".pack"), 30))
	must(t, os.Remove(o.Override))
	_, err := tree.Read("ggml/src/ggml.c")
	c := as[*Corrupt](t, err)
	if c.Path != "ggml/src/ggml.c" || c.ID != git(t, u.dir, "rev-parse", "b102:ggml/src/ggml.c") {
		t.Errorf("%+v", c)
	}
	wantErr(t, err, "ggml/src/ggml.c", "llama.cpp.git", "nothing is there")
}

// TestDamagedRepository: a repository that is not ours is not repaired.
func TestDamagedRepository(t *testing.T) {
	u := newUpstream(t)
	id := git(t, u.dir, "rev-parse", "b103:LICENSE")
	other := git(t, u.dir, "rev-parse", "b103:CMakeLists.txt")
	object := func(id string) string { return filepath.Join(u.dir, ".git", "objects", id[:2], id[2:]) }
	must(t, os.Chmod(object(id), 0o644))
	b, err := os.ReadFile(object(other)) // sound, but another file's content
	must(t, err)
	must(t, os.WriteFile(object(id), b, 0o644))
	o, _ := options(t, u.lock)
	o.Override = u.dir
	tree := mustFetch(t, o, "b103")
	_, err = tree.Checkout(t.Context(), filepath.Join(t.TempDir(), "out"), nil)
	c := as[*Corrupt](t, err)
	if c.Path != "LICENSE" || c.ID != id || c.Where != u.dir {
		t.Errorf("%+v", c)
	}
	wantErr(t, err, "LICENSE", id, u.dir, "another id")
}

func TestUnusableCache(t *testing.T) {
	u := newUpstream(t)
	o, _ := options(t, u.lock)
	path := filepath.Join(o.Cache, "file")
	must(t, os.WriteFile(path, nil, 0o644))
	o.Cache, o.Override = path, u.bundle(t, "b102")
	_, err := fetch(t, o, "b102")
	if !errors.Is(err, errCache) {
		t.Errorf("%v", err)
	}
	wantErr(t, err, "the cache cannot be used", path)
}
