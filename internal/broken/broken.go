// Package broken holds our own fixes with one thing wrong each, which their proofs must
// notice. A variant is a patch on the patched tree, placed by package patch like any
// other: whole context, one place. Its header says what must notice it:
//
//	Check: graph-replay      a check of the fix's proof, or Model
//	Case: the pool           which of the proof's checks of that name: "-" the one without a case; left out: any
//	Fault: freed-in-use      what that check must call it
//	Builds: >= 8832          where it applies; left out: wherever the fix does
//	Device: sim-hip          the simulated device that can tell; left out: both
//
// Only tests import it.
package broken

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/tag"
)

// Model is the Check of what the model of the graph cache alone can tell (model_test.go):
// on the simulated device it would take minutes, or makes no difference.
const Model = "model"

//go:embed testdata/*/*.patch
var files embed.FS

// Variant is a fix with one thing wrong.
type Variant struct {
	Fix, Name    string
	Check, Fault string
	Case         string // of the check; "-": none; "": any
	Device       string // "sim", "sim-hip", or "" for both
	Builds       tag.Range

	patches []patch.Patch
}

// ID is the fix and the name.
func (v Variant) ID() string { return v.Fix + "/" + v.Name }

// Fits tells whether the variant is meant for a build.
func (v Variant) Fits(build int) bool { return v.Builds.IsZero() || v.Builds.Contains(build) }

// Noticed tells whether a check of the fix's proof, by its name and case, must notice the variant.
func (v Variant) Noticed(check, kase string) bool {
	return v.Check == check && (v.Case == "" || v.Case == kase || v.Case == "-" && kase == "")
}

// All returns every variant, sorted by fix and name.
func All() ([]Variant, error) {
	names, err := fs.Glob(files, "testdata/*/*.patch")
	if err != nil {
		return nil, err
	}
	var all []Variant
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fix := path.Base(path.Dir(name))
		patches, err := patch.Parse(fix, path.Base(name), data)
		if err != nil {
			return nil, err
		}
		v := Variant{Fix: fix, Name: strings.TrimSuffix(path.Base(name), ".patch"), patches: patches}
		for _, t := range patches[0].Header.Trailers {
			switch t.Key {
			case "Check":
				v.Check = t.Value
			case "Fault":
				v.Fault = t.Value
			case "Case":
				v.Case = t.Value
			case "Device":
				v.Device = t.Value
			case "Builds":
				if v.Builds, err = tag.ParseRange(t.Value); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			default:
				return nil, fmt.Errorf("%s: its header says %s, which means nothing here", name, t.Key)
			}
		}
		if v.Check == "" || v.Fault == "" {
			return nil, fmt.Errorf("%s: its header names no Check or no Fault", name)
		}
		all = append(all, v)
	}
	return all, nil
}

// Change returns what becomes of files, given by their paths in the tree. A hunk that
// has no place, two, or is there already is an error.
func (v Variant) Change(tree map[string][]byte) (map[string][]byte, error) {
	in := map[string]source.File{}
	for name, data := range tree {
		in[name] = source.File{Mode: source.Regular, Data: data}
	}
	base, err := source.New(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.ID(), err)
	}
	res, err := patch.Apply(base, v.patches)
	if err != nil {
		return nil, fmt.Errorf("%s: it does not fit any more: %w", v.ID(), err)
	}
	for _, p := range res.Placements {
		if p.Kind == patch.Landed {
			return nil, fmt.Errorf("%s: %s has hunk %d already: the fix itself is wrong in that way", v.ID(), p.Path, p.Hunk)
		}
	}
	out := map[string][]byte{}
	for name := range tree {
		f, err := res.Tree.Read(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.ID(), err)
		}
		out[name] = f.Data
	}
	return out, nil
}

// In breaks the tree in a folder and returns what mends it again.
func (v Variant) In(dir string) (mend func() error, err error) {
	was := map[string][]byte{}
	for i := range v.patches {
		for _, name := range v.patches[i].Paths() {
			if was[name], err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return nil, err
			}
		}
	}
	is, err := v.Change(was)
	if err != nil {
		return nil, err
	}
	put := func(files map[string][]byte) error {
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return func() error { return put(was) }, put(is)
}
