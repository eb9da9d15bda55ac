package compat

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// cacheFormat is part of the cache folder's name; raise it when what is kept
// there changes its form.
const cacheFormat = 3

// store keeps rows and outcomes between runs. Everything in it can be worked out
// again: what cannot be read is left out, and nothing is trusted without its
// checksum. A nil store keeps nothing.
type store struct{ dir string }

// unusedFor is how long what another build of llpatch kept stays.
const unusedFor = 30 * 24 * time.Hour

// openStore returns the store in the cache folder. Each build of llpatch has one
// of its own, because the rules by which a patch is placed are part of what a
// verdict depends on.
func openStore(cache string) (*store, error) {
	if cache == "" {
		return nil, nil
	}
	engine, err := engine()
	if err != nil {
		return nil, err
	}
	parent := filepath.Join(cache, "compat")
	s := &store{dir: filepath.Join(parent, engine)}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cache of verdicts: %w", err)
	}
	now := time.Now()
	if err := os.Chtimes(s.dir, now, now); err != nil {
		return nil, fmt.Errorf("cache of verdicts: %w", err)
	}
	old, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("cache of verdicts: %w", err)
	}
	for _, e := range old {
		fi, err := e.Info()
		if err == nil && now.Sub(fi.ModTime()) > unusedFor {
			_ = os.RemoveAll(filepath.Join(parent, e.Name())) // it stays for the next run to remove
		}
	}
	return s, nil
}

// engine names this build of llpatch: its released version, or else the
// program's file, which a rebuild changes.
func engine() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") &&
		!strings.Contains(info.Main.Version, "+dirty") {
		return fmt.Sprintf("%d-%s", cacheFormat, info.Main.Version), nil
	}
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-dev-%x-%x", cacheFormat, fi.ModTime().UnixNano(), fi.Size()), nil
}

// save writes v below the name, whole or not at all.
func (s *store) save(name string, v any) (err error) {
	if s == nil {
		return nil
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return fmt.Errorf("cache of verdicts: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	b.Write(sum[:])
	f, err := os.CreateTemp(s.dir, ".new-*")
	if err != nil {
		return fmt.Errorf("cache of verdicts: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("cache of verdicts: %w", err), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(b.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(s.dir, name))
}

// errDamaged is a file of the store that is not as it was written.
var errDamaged = errors.New("damaged")

// load reads what save wrote into v. It reports whether it did: nothing was
// kept, or it is damaged and will be written anew.
func (s *store) load(name string, v any) (bool, error) {
	if s == nil {
		return false, nil
	}
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cache of verdicts: %w", err)
	}
	body := len(data) - sha256.Size
	if body < 0 || sha256.Sum256(data[:body]) != [sha256.Size]byte(data[body:]) {
		return false, fmt.Errorf("cache of verdicts: %s: %w", name, errDamaged)
	}
	if err := gob.NewDecoder(bytes.NewReader(data[:body])).Decode(v); err != nil {
		return false, fmt.Errorf("cache of verdicts: %s: %w: %w", name, errDamaged, err)
	}
	return true, nil
}

// keptRows is rows by the object that they were read from. Entries are stored
// once: neighbouring tags share nearly all of them.
type keptRows struct {
	Entries []entry
	Rows    map[plumbing.Hash][]uint32
}

// rowsName depends on the paths, because rows hold nothing else.
func rowsName(paths []string, made map[string]bool) string {
	h := sha256.New()
	for _, p := range paths {
		_, _ = fmt.Fprintf(h, "%q %v\n", p, made[p]) // a hash takes everything
	}
	return "rows-" + hex.EncodeToString(h.Sum(nil)[:16])
}

func (k *keptRows) row(id plumbing.Hash, width int) (row, bool) {
	at, ok := k.Rows[id]
	if !ok || len(at) != width {
		return nil, false
	}
	r := make(row, width)
	for i, n := range at {
		if int(n) >= len(k.Entries) {
			return nil, false
		}
		r[i] = k.Entries[n]
	}
	return r, true
}

func keepRows(rows map[plumbing.Hash]row) *keptRows {
	k := &keptRows{Rows: map[plumbing.Hash][]uint32{}}
	number := map[entry]uint32{}
	for id, r := range rows {
		at := make([]uint32, len(r))
		for i, e := range r {
			n, ok := number[e]
			if !ok {
				n = uint32(len(k.Entries))
				number[e] = n
				k.Entries = append(k.Entries, e)
			}
			at[i] = n
		}
		k.Rows[id] = at
	}
	return k
}

// keptUnit is what was judged of a patch file.
type keptUnit struct {
	Keys     []string
	Outcomes []*outcome
}

func (u *unit) name() string { return "unit-" + u.digest }

// restore takes in what an earlier run judged.
func (u *unit) restore(s *store) error {
	return u.load(s, u.name(), u.known)
}

// load takes kept outcomes into known.
func (u *unit) load(s *store, name string, known map[string]*outcome) error {
	var k keptUnit
	ok, err := s.load(name, &k)
	if err != nil || !ok {
		return err
	}
	if len(k.Keys) != len(k.Outcomes) {
		return fmt.Errorf("cache of verdicts: %s: %w", name, errDamaged)
	}
	for i, key := range k.Keys {
		out := k.Outcomes[i]
		if out.Verdict.changes() && len(out.After) != len(u.paths) {
			return fmt.Errorf("cache of verdicts: %s: %w", name, errDamaged)
		}
		out.kept = true
		known[key] = out
	}
	return nil
}

// keep writes what this run judged.
func (u *unit) keep(s *store) error {
	if !u.fresh {
		return nil
	}
	err := s.saveOutcomes(u.name(), u.known)
	u.fresh = err != nil
	return err
}

// restoreMerges and keepMerges are restore and keep for what was merged.
func (u *unit) restoreMerges(s *store, m *merging) error { return u.load(s, m.name(u), u.merges) }

func (u *unit) keepMerges(s *store, m *merging) error {
	if !u.freshMerges {
		return nil
	}
	err := s.saveOutcomes(m.name(u), u.merges)
	u.freshMerges = err != nil
	return err
}

func (s *store) saveOutcomes(name string, known map[string]*outcome) error {
	var k keptUnit
	for key, out := range known {
		if out.Verdict != Unknown && !(out.Merge != nil && out.Merge.lacks) {
			k.Keys = append(k.Keys, key)
			k.Outcomes = append(k.Outcomes, out)
		}
	}
	return s.save(name, k)
}
