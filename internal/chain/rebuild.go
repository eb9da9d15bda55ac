package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Rebuilt is an archive that was built once more.
type Rebuilt struct {
	Archive string             // ours
	SHA256  string             // of it
	Checks  []bundle.CheckInfo // what our own checks came to
}

// CannotRebuild says that an archive cannot be built again here.
type CannotRebuild struct {
	Tag, Target string
	Lacks       []string // what is not as it was, a clause each
}

// Error names what is not as it was.
func (e *CannotRebuild) Error() string {
	text := patch.Printable(e.Tag+" "+e.Target) + " cannot be built again here:"
	for _, lack := range e.Lacks {
		text += "\n  " + patch.Printable(lack)
	}
	return text
}

// ExitCode is exit.NotRun.
func (e *CannotRebuild) ExitCode() int { return exit.NotRun }

// Hint says what to do.
func (e *CannotRebuild) Hint() string {
	return "nothing was built; have what is named there, or ask who has it"
}

// Again is the order that an archive's manifest comes from. The error is a *CannotRebuild where
// these declarations, or this llpatch, are not those that it was made with.
func Again(e Workspace, info *bundle.Info) (Order, error) {
	t, err := tag.Parse(info.Tag)
	if err == nil && e.Version != info.Llpatch {
		err = errors.New(bundle.OtherLlpatch(info.Llpatch, e.Version))
	}
	if err != nil {
		return Order{}, cannot(info, err.Error())
	}
	f := Flags{Runtime: info.Runtime, BackendOnly: info.DropIn != "", Without: info.Series.Groups}
	for _, in := range info.Series.In {
		if slices.ContainsFunc(e.Repo.Fixes, func(fix spec.Fix) bool { return fix.ID == in.Fix && fix.OptIn }) {
			f.With = append(f.With, in.Fix)
		}
	}
	o, err := NewOrder(e, t, info.Target, f)
	if err != nil {
		return o, cannot(info, err.Error())
	}
	// Archs that were asked for by a flag stand among the options.
	for option, set := range map[string]func(string) error{
		"CMAKE_CUDA_ARCHITECTURES": o.Recipe.SetArchs, "CMAKE_HIP_ARCHITECTURES": o.Recipe.SetGFX,
	} {
		if list := info.Options[option]; list != "" {
			if err := set(strings.ReplaceAll(list, ";", ",")); err != nil {
				return o, cannot(info, err.Error())
			}
		}
	}
	o.As = info
	return o, nil
}

func cannot(info *bundle.Info, lacks ...string) *CannotRebuild {
	return &CannotRebuild{info.Tag, info.Target, lacks}
}

// Rebuild runs the whole chain again for the archive of a manifest, whose order is of Again, and
// gives the archive the name, the revision and what else of the first builder's own it has. What
// can be known to differ is a *CannotRebuild before anything is built. Where the source cannot be
// had the error is that of Patch.
func Rebuild(ctx context.Context, e Workspace, o Order, m Machine) (_ Rebuilt, err error) {
	info := o.As
	p, err := Prepare(ctx, e, o, m, nil)
	if err != nil {
		return Rebuilt{}, unless(ctx, info, err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	lacks, err := otherwise(e, p)
	if err != nil {
		return Rebuilt{}, unless(ctx, info, err)
	}
	if len(lacks) > 0 {
		return Rebuilt{}, cannot(info, lacks...)
	}
	venue, err := Device{Environ: os.Environ()}.Look(ctx, e, o, p.Site.Toolchain)
	if err != nil {
		return Rebuilt{}, err
	}
	e.Log.Info("built again", "tag", info.Tag, "target", info.Target, "folder", p.Dir)
	c, err := smoked(ctx, e, p, venue, nil)
	if err != nil {
		return Rebuilt{}, errors.Join(err, c.Close())
	}
	out := Rebuilt{}
	for _, r := range c.Report.Checks {
		out.Checks = append(out.Checks, bundle.CheckInfo{Name: r.Name, Verdict: string(r.Verdict), Place: r.Place})
	}
	packed, err := Pack(ctx, e, c, bundle.MaxPartMiB<<20, nil)
	out.Archive, out.SHA256 = packed.Archive, packed.SHA256
	return out, errors.Join(err, c.Close())
}

// Unless is a *CannotRebuild of an order of Again's for an error that tells what of it is not here.
func Unless(ctx context.Context, o Order, err error) error { return unless(ctx, o.As, err) }

// unless is a *CannotRebuild for an error that tells what is not here, but one of the source,
// or of who stopped it, stays what it is.
func unless(ctx context.Context, info *bundle.Info, err error) error {
	if code := exit.Code(err); ctx.Err() != nil || code == exit.Source || code == exit.Unexpected {
		return fmt.Errorf("build %s %s again: %w", info.Tag, info.Target, err)
	}
	return cannot(info, err.Error())
}

// otherTools says which programs of a site are not those that an archive was made with; of a
// new order there is nothing to say.
func otherTools(o Order, at Site) (lacks []string) {
	if o.As == nil {
		return nil
	}
	for _, role := range slices.Sorted(maps.Keys(o.As.Tools)) {
		if was, is := o.As.Tools[role], at.Facts.Tools[role].Banner; was != is && role != "llpatch" {
			lacks = append(lacks, fmt.Sprintf("%s was %q, and here it is %q", role, was, is))
		}
	}
	return lacks
}

// otherwise says what of a build would not be as the manifest has it.
func otherwise(e Workspace, p Prepared) (lacks []string, err error) {
	info := p.As
	differ := func(what, was, is string) {
		if was != is {
			lacks = append(lacks, fmt.Sprintf("%s was %s, and here it is %s", what, orNone(was), orNone(is)))
		}
	}
	differ("the tag's tree", info.Tree, p.Tree.ID())
	var was, is []string
	for _, in := range info.Series.In {
		was = append(was, in.Fix+" "+in.SHA256)
	}
	for _, in := range p.Series.In {
		is = append(is, in.Fix+" "+in.SHA256)
	}
	for _, fix := range was {
		if !slices.Contains(is, fix) {
			lacks = append(lacks, fmt.Sprintf("its fix %s (sha256 %s) is not one of these declarations, or its history is "+
				"not at hand", firstWord(fix), lastWord(fix)))
		}
	}
	for _, fix := range is {
		if !slices.Contains(was, fix) {
			lacks = append(lacks, fmt.Sprintf("these declarations have the fix %s (sha256 %s), and it was made without",
				firstWord(fix), lastWord(fix)))
		}
	}
	if len(lacks) > 0 {
		return lacks, nil
	}
	differ("the patched tree", info.Patched, p.Result.Tree.ID())
	plan, err := NewPlan(e, p)
	if err != nil {
		return nil, err
	}
	options := bundle.Options(plan)
	for _, name := range slices.Sorted(maps.Keys(info.Options)) {
		differ("the option "+name, info.Options[name], options[name])
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if _, there := info.Options[name]; !there {
			differ("the option "+name, "", options[name])
		}
	}
	differ("what is left out", strings.Join(info.LeftOut, "; "), strings.Join(plan.Off, "; "))
	if len(lacks) == 0 {
		differ("the plan", info.Plan, plan.Digest)
	}
	return lacks, nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func firstWord(s string) string { w, _, _ := strings.Cut(s, " "); return w }
func lastWord(s string) string  { _, w, _ := strings.Cut(s, " "); return w }

// as gives a manifest what the first builder's has of himself: from where he had the tree, what his checks came to and
// whose signature stands in the programs. All else must come out by itself.
func (p Patched) as(i *bundle.Info) {
	if p.As == nil {
		return
	}
	i.Source, i.Asked, i.Checks, i.Signed, i.MayDiffer = p.As.Source, p.As.Asked, p.As.Checks, p.As.Signed, p.As.MayDiffer
}
