package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/env"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Options is what every stage of a chain needs.
type Options struct {
	Repo     *spec.Repo
	Records  Records
	Cache    string // folder for fetched sources
	Out      string // folder for what the stages write: dist
	Source   string // one source to use instead of the declared ones: a URL or a path
	Locked   bool   // refuse tags that recipes/tags.lock does not have
	Offline  bool   // use no network
	Nearest  bool   // where the tag cannot be had, take the nearest that can
	Version  string // llpatch's own, for the records
	Runtime  string // spec.Thin or spec.Full; empty: as the recipe says
	PartMiB  int64  // a larger archive is also cut into parts of so much; 0: DefaultPartMiB
	Log      *slog.Logger
	Progress func(what string, done, total int64) // may be nil; total 0: unknown
	ThreeWay *ThreeWay                            // merge where a patch does not fit; nil: do not
	Place    Place                                // where smoke checks run

	Archs       string      // CUDA archs instead of the recipe's, as spec.Recipe.SetArchs takes them; empty: the recipe's
	With        []string    // fixes that are taken only on request
	GFX         string      // AMD targets instead of the recipe's, as spec.Recipe.SetGFX takes them; empty: the recipe's
	Env         *env.Decl   // the buildenv to build in; nil: this machine itself
	EnvRuntime  *env.Decl   // the one with the libraries that a full bundle carries; nil: Env names none
	Builds      bool        // a plan or a build follows: the tools are looked at before anything is fetched
	On          *build.Host // the machine to build on; nil: this one
	Box         bool        // plan for a Windows machine that nobody looks at, with the recipe's box
	Sign        *Signing    // signs what is for Windows; nil: nothing is signed
	BackendOnly bool        // make only the target's own backend, for the stock package of the tag
}

// Chain takes one tag to one target. Every stage makes those before it; what
// has not changed since the last run is not done again.
type Chain struct {
	Options
	Recipe    spec.Recipe
	Toolchain spec.Toolchain
	Tree      *source.Tree
	Series    *spec.Series
	Patched   *patch.Result
	Variants  []Variant // what --accept wrote

	drop   string // file name of the backend that is made alone; empty: the whole target
	facts  *build.Facts
	root   *env.Env // of Options.Env, once it was needed
	libs   *env.Env // of Options.EnvRuntime, likewise
	card   card
	signed signed   // what Stage signed
	lacks  []string // paths that the source does not have and the build can do without
	lock   *lockedfile.File
	dir    string // Out/<tag>/<target>
}

// Open fetches the tag, chooses its series for the target, and places every
// patch in memory. Nothing is written to Out yet.
func Open(ctx context.Context, o Options, t tag.Tag, target string) (_ *Chain, err error) {
	rec, err := o.recipe(target)
	if err != nil {
		return nil, err
	}
	if o.Archs != "" {
		if err := rec.SetArchs(o.Archs); err != nil {
			return nil, &BadOption{"--cuda-archs", err}
		}
	}
	if o.GFX != "" {
		if err := rec.SetGFX(o.GFX); err != nil {
			return nil, &BadOption{"--gfx", err}
		}
	}
	drop, err := o.dropIn(rec)
	if err != nil {
		return nil, err
	}
	if err := smoke.Validate(rec.Smoke); err != nil {
		return nil, &spec.Error{File: path.Join("recipes", target+".toml"), Msg: err.Error()}
	}
	if err := o.chooseRuntime(&rec); err != nil {
		return nil, err
	}
	if err := o.checkSigning(ctx, rec); err != nil {
		return nil, err
	}
	t = o.Repo.Lock.Named(rec.Upstream, t)
	if err := o.CheckTag(rec.Upstream, t); err != nil {
		return nil, err
	}
	if pin, known := o.numbered(rec, t); known && !o.Nearest && !rec.Range.Contains(pin.Build) {
		return nil, o.Repo.OutOfRange(rec, t.String(), pin)
	}
	c := &Chain{Options: o, Recipe: rec, drop: drop}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.closeRoots())
		}
	}()
	if c.Toolchain, err = o.toolchain(ctx, rec); err != nil {
		return nil, err
	}
	if o.Builds {
		if _, err := c.probe(ctx); err != nil {
			return nil, err
		}
	}
	var pins pending
	if c.Tree, err = o.fetch(ctx, rec.Upstream, t, &pins); err != nil {
		return nil, err
	}
	choose := o.Repo.Choose
	if o.ThreeWay != nil {
		choose = o.Repo.ChooseNearest
	}
	if c.Series, err = choose(rec, c.Tree.Tag.String(), c.Tree.Pin); err != nil {
		return nil, errors.Join(err, c.Tree.Close())
	}
	if err := c.Series.Asked(rec); err != nil {
		return nil, errors.Join(&BadOption{"--with", err}, c.Tree.Close())
	}
	patches, err := o.patches(ctx, c.Series)
	switch {
	case err != nil:
	case o.ThreeWay != nil:
		err = c.mergeSeries(ctx, patches)
	default:
		c.Patched, err = patch.Apply(c.Tree, patches)
	}
	if err != nil {
		return nil, errors.Join(err, c.Tree.Close())
	}
	if err := c.checkLicenses(); err != nil {
		return nil, errors.Join(err, c.Tree.Close())
	}
	c.landed()
	for _, note := range c.Patched.Notes {
		o.Log.Info(note)
	}
	lacks, err := c.Patched.Tree.Lacks()
	if err == nil {
		err = pins.record(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, c.Tree.Close())
	}
	for _, p := range lacks {
		if build.Dispensable(p) {
			c.lacks = append(c.lacks, p)
		}
	}
	c.dir = filepath.Join(o.Out, c.Tree.Tag.Short(), c.folder())
	return c, nil
}

// recipe is a target with the fixes that were asked for.
func (o Options) recipe(target string) (spec.Recipe, error) {
	rec, err := o.Repo.Recipe(target)
	if err != nil {
		return rec, err
	}
	if err := o.Repo.Ask(&rec, o.With); err != nil {
		return rec, &BadOption{"--with", err}
	}
	return rec, nil
}

// folder is the name of the chain's folder: with other fixes it is another build.
func (c *Chain) folder() string {
	return strings.Join(append([]string{c.Recipe.Name}, c.Recipe.With...), "+")
}

// landed takes out of the series what upstream has whole, and says of the rest
// what it has of that.
func (c *Chain) landed() {
	var in []spec.Chosen
	for _, f := range c.Series.In {
		switch held, all := c.held(f.Fix); {
		case held == all:
			c.Series.Landed = append(c.Series.Landed, spec.Left{
				Fix: f.Fix, Summary: f.Summary, Case: spec.Cured, Reason: fmt.Sprintf("%s; upstream has all of %s already", f.Reason, f.Patch+f.Commit),
			})
			continue
		case held > 0:
			f.Reason += fmt.Sprintf("; upstream has %d of its %d changes already", held, all)
		}
		in = append(in, f)
	}
	c.Series.In = append([]spec.Chosen{}, in...)
}

// patches reads and parses the patch files of a series, in order.
func (o Options) patches(ctx context.Context, s *spec.Series) ([]patch.Patch, error) {
	var all []patch.Patch
	var errs []error
	for i := range s.In {
		p, err := o.read(ctx, s.Upstream, &s.In[i])
		errs = append(errs, err)
		all = append(all, p...)
	}
	return all, errors.Join(errs...)
}

// Close gives back the lock and the source.
func (c *Chain) Close() error {
	err := c.Tree.Close()
	if c.lock != nil {
		err = errors.Join(err, c.lock.Close())
	}
	return errors.Join(err, c.closeRoots())
}

func (c *Chain) closeRoots() error {
	var errs []error
	for _, root := range []*env.Env{c.root, c.libs} {
		if root != nil {
			errs = append(errs, root.Close())
		}
	}
	return errors.Join(errs...)
}

func (c *Chain) file(name string) string { return filepath.Join(c.dir, name) }

// begin takes the lock of the chain's folder.
func (c *Chain) begin(ctx context.Context) error {
	if c.lock != nil {
		return nil
	}
	var err error
	if c.dir, err = c.absolute(); err != nil {
		return err
	}
	c.lock, err = lockFile(ctx, c.Log, c.file(".lock"), c.Tree.Tag.String()+" "+c.Recipe.Name)
	return err
}

// absolute is the chain's folder by a name that a build can take.
func (c *Chain) absolute() (string, error) {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return "", err
	}
	return dir, build.CheckFolder(dir)
}

// placed gives a declaration at fault its line.
func (c *Chain) placed(err error) error {
	if f := new(build.Fault); errors.As(err, &f) {
		return spec.ErrorAt(c.Repo.FS, f.File, f.Key, "%s", f.Msg)
	}
	return err
}

// record of the stages source, spec and patch.
type patchedRecord struct {
	Upstream   string            `json:"upstream"`
	Tag        string            `json:"tag"`
	Pin        spec.Pin          `json:"pin"`
	Source     string            `json:"source"`
	Series     *spec.Series      `json:"series"`
	Placements []patch.Placement `json:"placements"`
	Tree       string            `json:"patched_tree"`
	Checkout   source.Stats      `json:"checkout"`
}

// Checkout writes the patched tree to dir, without the paths that the recipe
// excludes. What is there already and right is left alone.
func (c *Chain) Checkout(ctx context.Context, dir string) (source.Stats, error) {
	return c.Patched.Tree.Checkout(ctx, dir, c.excluded())
}

// excluded are the paths that are not written.
func (c *Chain) excluded() []string { return slices.Concat(c.Recipe.Exclude, c.lacks) }

// prepare writes the patched tree to the chain's own folder and records how it
// came to be.
func (c *Chain) prepare(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	stats, err := c.Patched.Tree.CheckoutOwn(ctx, c.file("src"), c.excluded())
	if err != nil {
		return err
	}
	if stats.Written+stats.Removed > 0 {
		c.Log.Info("source: "+stats.String(), "tree", c.Patched.Tree.ID())
	}
	return writeJSON(c.file("patched.json"), patchedRecord{
		Upstream: c.Recipe.Upstream, Tag: c.Tree.Tag.String(), Pin: c.Tree.Pin, Source: c.Tree.Source, Series: c.Series,
		Placements: c.Patched.Placements, Tree: c.Patched.Tree.ID(), Checkout: stats,
	})
}

// Plan makes the build plan for the patched tree in the chain's folder, with
// the level that it has or would get. It records nothing.
func (c *Chain) Plan(ctx context.Context) (build.Plan, int, error) {
	dir, err := c.absolute()
	if err != nil {
		return build.Plan{}, 0, err
	}
	in, err := c.input(ctx, dir)
	if err != nil {
		return build.Plan{}, 0, err
	}
	plan, err := build.NewPlan(in)
	if err != nil {
		return build.Plan{}, 0, c.placed(err)
	}
	// The level is part of the version string, not of the plan's digest.
	in.Level, _ = c.Repo.Levels.Find(c.Series.Upstream, c.Series.Tag, c.Series.Target, in.Tree, plan.Digest)
	plan, err = build.NewPlan(in)
	return plan, in.Level, err
}

// Built is what the build stage hands on.
type Built struct {
	Plan      build.Plan      `json:"plan"`
	Level     int             `json:"level"`
	Artifacts build.Artifacts `json:"artifacts"`
}

// Build compiles the patched tree. What can be known to fail is looked at before
// anything is written.
func (c *Chain) Build(ctx context.Context) (*Built, error) {
	if _, err := c.probe(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(c.checkRoom(), c.openLibraries(ctx)); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	plan, level, err := c.Plan(ctx)
	if err != nil {
		return nil, err
	}
	n, err := c.Records.Level(ctx, c.Repo, c.Series, c.Patched.Tree.ID(), plan.Digest)
	if err != nil {
		return nil, err
	}
	if n != level { // another llpatch took the number in the meantime
		if plan, level, err = c.Plan(ctx); err != nil {
			return nil, err
		}
	}
	for _, off := range plan.Off {
		c.Log.Warn("left out of the build: " + off)
	}
	if err := writeJSON(c.file("plan.json"), plan); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.file("logs"), 0o755); err != nil {
		return nil, err
	}
	start := time.Now()
	options := build.RunOptions{Log: c.file("logs/build.log"), Logger: c.Log, Progress: c.Progress, Hold: c.hold(), Inside: c.root, On: c.On, Peaks: c.peaks(c.Recipe.Name)}
	art, err := build.Run(ctx, plan, options)
	if err == nil && c.tampered(plan, art) {
		art, err = build.Run(ctx, plan, options)
	}
	if err != nil {
		return nil, err
	}
	b := &Built{Plan: plan, Level: level, Artifacts: art}
	c.Log.Info("built", "target", c.Recipe.Name, "compiled", art.Compiled, "seconds", int(time.Since(start).Seconds()))
	return b, writeJSON(c.file("artifacts.json"), b)
}

// tampered removes the built files that are not what the last build of the
// same plan and tree left there, although this one had nothing to do: Ninja
// looks at times alone, and would let a changed program pass. It reports
// whether there were any.
func (c *Chain) tampered(plan build.Plan, art build.Artifacts) bool {
	var last Built
	if art.Steps > 0 || !readJSON(c.file("artifacts.json"), &last) || last.Plan.Digest != plan.Digest ||
		last.Plan.Tree != plan.Tree || last.Plan.VersionCommit != plan.VersionCommit {
		return false
	}
	found := false
	for _, f := range art.Files {
		was := slices.IndexFunc(last.Artifacts.Files, func(o build.Artifact) bool { return o.Path == f.Path })
		if was < 0 || last.Artifacts.Files[was] == f {
			continue
		}
		found = true
		c.Log.Warn("a built file was changed since; it is built again", "file", filepath.Join(art.Dir, f.Path))
		_ = os.Remove(filepath.Join(art.Dir, f.Path)) // where it stays, the next comparison says so again
	}
	return found
}

// hold lists the files that running programs keep open, so that the lock lasts
// until the last of them is gone, also after llpatch was killed.
func (c *Chain) hold() []*os.File {
	return []*os.File{c.lock.File}
}
