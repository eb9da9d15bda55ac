package lint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// Proof is what was proven on upstream's history.
type Proof struct {
	Tags    int                 `json:"tags"`    // that a variant was judged on, each variant by itself
	Commits int                 `json:"commits"` // at the ends of ranges, likewise
	Pins    int                 `json:"pins"`    // that the history confirms or contradicts
	Defects int                 `json:"defects"` // commits that brought or cured a defect, likewise
	Ranges  []compat.RangeProof `json:"ranges"`
}

// prove judges every declared range and every pin on the history.
func (r *Report) prove(ctx context.Context, repo *spec.Repo, lock spec.Lock, parsed map[string][]patch.Patch,
	o Options,
) (err error) {
	stack, err := compat.Declared(repo, o.Upstream, parsed)
	if err != nil {
		return err
	}
	h, err := compat.Open(o.Source, o.Upstream, lock[o.Upstream])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	ranges, err := h.Prove(ctx, compat.Options{Cache: o.Cache, Log: o.Log, Progress: o.Progress}, stack)
	if err != nil {
		return fmt.Errorf("prove ranges on %s: %w", o.Source, err)
	}
	r.Proof = &Proof{Ranges: ranges}
	for _, p := range ranges {
		r.Proof.Tags += p.Tags
		r.Proof.Commits += p.Commits
		file := path.Join("patches", p.Fix, "fix.toml")
		for _, f := range p.Faults {
			why := string(f.Verdict)
			if f.Why != "" {
				why += ": " + f.Why
			}
			r.add(spec.ErrorAt(repo.FS, file, fmt.Sprintf("variant[%d].range", p.Variant),
				"range %q declares %s, where %s does not fit: %s", p.Range, f.Where, p.Patch, why))
		}
		for _, note := range p.Notes {
			r.Notes = append(r.Notes, fmt.Sprintf("%s (%s): %s", p.Fix, p.Range, note))
		}
	}
	pins, err := h.CheckPins(ctx)
	if err != nil {
		return fmt.Errorf("check %s on %s: %w", spec.LockFile, o.Source, err)
	}
	r.Proof.Pins = pins.Checked
	r.pinFaults(repo, pins.Faults)
	r.Notes = append(r.Notes, pins.Notes...)
	defects, err := h.CheckDefects(ctx, repo.Fixes, repo.Advisories.All)
	if err != nil {
		return fmt.Errorf("check defects on %s: %w", o.Source, err)
	}
	r.Proof.Defects = defects.Checked
	r.Notes = append(r.Notes, defects.Notes...)
	for _, f := range defects.Faults {
		if f.Fix == "" {
			r.add(spec.ErrorAt(repo.FS, spec.AdvisoriesFile, fmt.Sprintf("advisory[%d].%s", f.Index, f.Key), "%s", f.Msg))
			continue
		}
		r.add(spec.ErrorAt(repo.FS, path.Join("patches", f.Fix, "fix.toml"), defectKey(repo, f.Fix, o.Upstream)+f.Key, "%s",
			f.Msg))
	}
	for _, upstream := range slices.Sorted(maps.Keys(lock)) {
		if upstream != o.Upstream && len(lock[upstream]) > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("the pins of %s are not checked: the history is %s's", upstream, o.Upstream))
		}
	}
	for _, f := range repo.Fixes {
		for _, upstream := range f.Upstreams() {
			if upstream != o.Upstream {
				r.Notes = append(r.Notes, fmt.Sprintf("%s: its variants for %s are not proven: the history is %s's", f.ID,
					upstream, o.Upstream))
			}
		}
	}
	return nil
}

// defectKey is the table of a fix's defect in an upstream.
func defectKey(repo *spec.Repo, fix, upstream string) string {
	for _, f := range repo.Fixes {
		for i, d := range f.Defects {
			if f.ID == fix && d.Upstream == upstream {
				return fmt.Sprintf("defect[%d].", i)
			}
		}
	}
	return ""
}

// pinFaults places what the history contradicts at the lines of the pins.
func (r *Report) pinFaults(repo *spec.Repo, faults []compat.PinFault) {
	data, err := fs.ReadFile(repo.FS, spec.LockFile)
	if err != nil {
		data = nil // the places are lost, the findings are not
	}
	for _, f := range faults {
		r.add(spec.ErrorOn(spec.LockFile, data, lineOf(data, fmt.Sprintf("%q: {", f.Tag)), "%s: %s", f.Tag, f.Msg))
	}
}
