package chain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/disk"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Built is a patched tree that was compiled. Its folder is locked until it is closed.
type Built struct {
	Plan      build.Plan      `json:"plan"`
	Artifacts build.Artifacts `json:"artifacts"`
	Prepared  `json:"-"`
	claim     *os.File
	libs      *buildenv.Entered // with the libraries that a full bundle carries; nil: they are this machine's
}

// Close gives back the folder and the libraries.
func (b Built) Close() error {
	var err error
	if b.claim != nil {
		err = b.claim.Close()
	}
	if b.libs != nil {
		err = errors.Join(err, b.libs.Close())
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

// NewPlan makes the plan of what was prepared, with the revision that it has or would get. It
// records nothing.
func NewPlan(e Workspace, p Prepared) (build.Plan, error) {
	return e.plan(p, func(tree, digest string) (int, error) {
		n, _ := e.Repo.Revisions.Find(p.Series.Upstream, p.Series.Tag, p.Series.Target, tree, digest)
		return n, nil
	})
}

// plan makes the plan of what was prepared, with its cost and its floor. revision is the n of
// -llp<n> of a tree and a digest; an archive that is built again keeps its own.
func (e Workspace) plan(p Prepared, revision func(tree, digest string) (int, error)) (build.Plan, error) {
	in, err := e.input(p)
	if err != nil {
		return build.Plan{}, err
	}
	digest, err := in.Digest()
	if err != nil {
		return build.Plan{}, e.placed(err)
	}
	if p.As != nil {
		in.Revision = p.As.Revision
	} else if in.Revision, err = revision(in.Tree, digest); err != nil {
		return build.Plan{}, err
	}
	plan, err := build.NewPlan(in)
	if err != nil {
		return plan, e.placed(err)
	}
	plan.Cost = build.Estimate(plan, p.Recipe, in.Peaks)
	plan.Glibc, err = glibcFloor(p.Recipe, p.Site)
	return plan, err
}

// glibcFloor is the newest glibc that what is built at a site may need: the recipe's limit or the
// buildenv's, else the glibc that is linked with; "" for another system than Linux, or where it is not known.
func glibcFloor(rec spec.Recipe, at Site) (string, error) {
	switch {
	case rec.OS != "linux" || rec.Verify.GlibcMax != "":
		return rec.Verify.GlibcMax, nil
	case at.Root != nil:
		return at.Root.Floor(), nil
	case at.Facts.Remote != nil:
		return "", nil
	}
	return binary.LibrariesUnder("/").Glibc(rec.Verify.Machine)
}

// input is what the plan of the patched tree is made of, all but its revision.
func (e Workspace) input(p Prepared) (build.Input, error) {
	in, err := e.inputFor(p, p.Result.Tree, p.Dir)
	in.Touched, in.Series, in.Only = p.Result.Changed(), p.fixes(), p.only()
	in.Page, in.NoPage = p.builtPage(), p.Web.Why
	return in, err
}

// inputFor is what a plan is made of that builds a tree below dir, one of the folders of p:
// its source is src, and it builds in build.
func (e Workspace) inputFor(p Prepared, tree *source.Tree, dir string) (build.Input, error) {
	facts := p.Site.Facts
	if facts.Remote != nil {
		below, err := filepath.Rel(p.Dir, dir)
		if err != nil {
			return build.Input{}, err
		}
		there := *facts.Remote
		there.Dir = path.Join(there.Dir, p.Tree.Tag.Short(), p.folder(), filepath.ToSlash(below))
		facts.Remote = &there
	}
	none, err := noVersion(p.Recipe.Upstream, tree)
	pin := p.Tree.Pin
	return build.Input{
		Tag: p.Tree.Tag.String(), Build: pin.Build, BuildMax: pin.Max, Commit: pin.Commit, Time: pin.Time,
		NoVersion: none, Tree: tree.ID(), Recipe: p.Recipe, Toolchain: p.Site.Toolchain, Facts: facts, Missing: p.Lacks,
		Source: filepath.Join(dir, "src"), Dir: filepath.Join(dir, "build"),
		Peaks: build.LoadPeaks(build.PeaksFile(e.Cache, p.Recipe.Name, facts)),
	}, err
}

// Build compiles what was prepared. What can be known to fail is looked at before anything is
// written.
func Build(ctx context.Context, e Workspace, p Prepared) (_ Built, err error) {
	b := Built{Prepared: p}
	if err := checkRoom(p.Patched); err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.libs, err = libraries(ctx, e, p.Order, p.Site.Machine); err != nil {
		return b, err
	}
	if b.claim, err = claim(ctx, e, p.Patched); err != nil {
		return b, err
	}
	if err := writeTree(ctx, e, p); err != nil {
		return b, err
	}
	if b.Plan, err = e.plan(p, func(tree, digest string) (int, error) {
		return e.Records.Revision(ctx, e.Repo, p.Series, tree, digest)
	}); err != nil {
		return b, err
	}
	if b.Plan.Glibc != "" {
		e.Log.Info("the result may need glibc up to " + b.Plan.Glibc)
	}
	if b.Plan.Cost.CPUSeconds > 0 {
		e.Log.Info("a whole build takes " + b.Plan.Cost.String())
	}
	for _, off := range b.Plan.Off {
		e.Log.Warn("left out of the build: " + off)
	}
	if err := errors.Join(records.Write(p.file("plan.json"), b.Plan), os.MkdirAll(p.file("logs"), 0o755)); err != nil {
		return b, err
	}
	start := time.Now()
	o := b.run(e, "build.log")
	o.Peaks = build.PeaksFile(e.Cache, p.Recipe.Name, p.Site.Facts)
	b.Artifacts, err = build.Run(ctx, b.Plan, o)
	if err == nil && b.tampered(e) {
		b.Artifacts, err = build.Run(ctx, b.Plan, o)
	}
	if err != nil {
		return b, err
	}
	if b.Artifacts.Compiled > 0 {
		if err := build.KeepCost(o.Peaks, b.Plan); err != nil {
			e.Log.Warn("what the build took could not be kept for the next estimate", "error", err)
		}
	}
	e.Log.Info("built", "target", p.Recipe.Name, "compiled", b.Artifacts.Compiled, "seconds",
		int(time.Since(start).Seconds()))
	return b, records.Write(p.file("artifacts.json"), b)
}

// claim takes the lock of the folder of a tag and target.
func claim(ctx context.Context, e Workspace, p Patched) (*os.File, error) {
	return records.Lock(ctx, e.Log, p.file(".lock"), p.Tree.Tag.String()+" "+p.Recipe.Name)
}

// writeTree writes the patched tree to its own folder and records how it came to be.
func writeTree(ctx context.Context, e Workspace, p Prepared) error {
	tree, err := p.tree()
	if err != nil {
		return err
	}
	stats, err := tree.CheckoutOwn(ctx, p.file("src"), p.excluded())
	if err == nil {
		err = p.setTimes()
	}
	if err != nil {
		return err
	}
	if stats.Written+stats.Removed > 0 {
		e.Log.Info("source: "+stats.String(), "tree", p.Result.Tree.ID())
	}
	return records.Write(p.file("patched.json"), patchedRecord{
		Upstream: p.Recipe.Upstream, Tag: p.Tree.Tag.String(), Pin: p.Tree.Pin, Source: p.Tree.Source, Series: p.Series,
		Placements: p.Result.Placements, Tree: p.Result.Tree.ID(), Checkout: stats,
	})
}

// run says how programs of a build at the same site are run, with their output in a log. The
// claim is inherited, so that it lasts until the last of them is gone, also after llpatch was
// killed.
func (b Built) run(e Workspace, log string) build.RunOptions {
	return build.RunOptions{
		Log: b.file(filepath.Join("logs", log)), Logger: e.Log, Progress: e.Progress, Hold: b.hold(),
		Inside: b.Site.root, On: b.Site.Remote,
	}
}

func (b Built) hold() []*os.File { return []*os.File{b.claim} }

// tampered removes the built files that are not what the last build of the
// same plan and tree left there, although this one had nothing to do: Ninja
// looks at times alone, and would let a changed program pass. It reports
// whether there were any.
func (b Built) tampered(e Workspace) bool {
	var last Built
	if b.Artifacts.Steps > 0 || !records.Read(b.file("artifacts.json"), &last) || last.Plan.Digest != b.Plan.Digest ||
		last.Plan.Tree != b.Plan.Tree || last.Plan.VersionCommit != b.Plan.VersionCommit {
		return false
	}
	found := false
	for _, f := range b.Artifacts.Files {
		was := slices.IndexFunc(last.Artifacts.Files, func(o build.Artifact) bool { return o.Path == f.Path })
		if was < 0 || last.Artifacts.Files[was] == f {
			continue
		}
		found = true
		e.Log.Warn("a built file was changed since; it is built again", "file", filepath.Join(b.Artifacts.Dir, f.Path))
		_ = os.Remove(filepath.Join(b.Artifacts.Dir, f.Path)) // where it stays, the next comparison says so again
	}
	return found
}

// libraries opens the root with the libraries that a full bundle carries: the one
// that the recipe names, or that the buildenv of a build names, whose own root has only
// what is linked with. nil: they are this machine's.
func libraries(ctx context.Context, e Workspace, o Order, m Machine) (*buildenv.Entered, error) {
	from := o.Recipe.Bundle.Libraries
	if o.Recipe.Bundle.Runtime != spec.Full || o.DropIn != "" || m.Root == nil && from == "" {
		return nil, nil
	}
	decl := m.Libraries
	if from != "" {
		d, err := e.Repo.Buildenv(from)
		if err == nil {
			d, _, err = d.WithOwnLock(e.Cache)
		}
		if err != nil {
			return nil, err
		}
		decl = &d
	}
	if decl == nil {
		return nil, &BadOption{"--bundle full", fmt.Errorf("buildenv %s has no libraries to carry: no runtime is in its %s",
			m.Root.Name, spec.BuildenvFile)}
	}
	return buildenv.Open(ctx, e.Cache, *decl, e.Log)
}

// NoRoom says that the disk has less room than a release takes.
type NoRoom struct {
	Target, Dir      string
	FreeMiB, NeedMiB int64 // NeedMiB beside what is there already
}

// Error gives both figures.
func (e *NoRoom) Error() string {
	return fmt.Sprintf("%s: %d MiB are free for %s, and the release takes %d MiB more", e.Target, e.FreeMiB, e.Dir,
		e.NeedMiB)
}

// ExitCode is exit.Build.
func (e *NoRoom) ExitCode() int { return exit.Build }

// Hint says what to do.
func (e *NoRoom) Hint() string { return "--out DIR takes another disk" }

// checkRoom compares the room that an order takes with what is free, where what
// an earlier run has written counts as there.
func checkRoom(p Patched) error {
	free, known := disk.Free(build.Existing(p.Dir))
	if !known || free>>20 >= p.Room {
		return nil
	}
	var there int64
	err := filepath.WalkDir(p.Dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			there += info.Size()
		}
		return nil
	})
	if need := p.Room - there>>20; err == nil && free>>20 < need {
		return &NoRoom{Target: p.Recipe.Name, Dir: p.Dir, FreeMiB: free >> 20, NeedMiB: need}
	}
	return err
}
