package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
	"github.com/llpatch/llpatch/internal/tag"
)

// stageRecord says from which build the staged files come and what they are.
type stageRecord struct {
	Key     string            `json:"key"`
	Entries map[string]string `json:"entries"` // what inventory found
	Files   []*binary.File    `json:"files"`
	authenticode.Signed
}

// Stage lays the built files out as they will be shipped and verifies them
// against the recipe, and signs them where that is asked for: what is checked and
// packed is what was signed. Staged files that are there already and are right are
// left alone.
func (c *Chain) Stage(ctx context.Context, b *Built) ([]*binary.File, error) {
	top := c.stageDir()
	signer, err := c.Sign.ID()
	if err != nil {
		return nil, err
	}
	key, err := digest(b.Artifacts.Files, c.Recipe.Programs, c.Recipe.Bundle, c.Recipe.Verify, c.librariesDigest(), signer)
	if err != nil {
		return nil, err
	}
	var done stageRecord
	if records.Read(c.own("stage.json"), &done) && done.Key == key {
		if have, err := stage.Inventory(top, bundle.IsExtra); err == nil && maps.Equal(have, done.Entries) {
			c.signed = done.Signed
			return done.Files, nil
		}
	}
	files, err := c.lay(b.Artifacts, top)
	if err != nil {
		return nil, fmt.Errorf("verify %s %s: %w", c.Tree.Tag, c.Recipe.Name, err)
	}
	if c.signed, err = c.sign(ctx, top, files); err != nil {
		return nil, err
	}
	have, err := stage.Inventory(top, bundle.IsExtra)
	if err != nil {
		return nil, err
	}
	return files, records.Write(c.own("stage.json"), stageRecord{Key: key, Entries: have, Files: files, Signed: c.signed})
}

func digest(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Place says where smoke checks run that do not say it themselves, and what
// there is besides the host.
type Place struct {
	Device string   `json:"device,omitempty"` // spec.Host (also where it is empty), spec.Sim or spec.Card
	SimEnv []string `json:"sim,omitempty"`    // leads programs to the simulated device; nil: it was not made
	// Pick names the cards, as memory.ChooseCards takes them; Env is the user's,
	// for the tools that know the cards. Without it there is none.
	Pick string   `json:"pick,omitempty"`
	Env  []string `json:"-"`
}

// smokeRecord is a report and what it was about.
type smokeRecord struct {
	Key    string        `json:"key"`
	Report *smoke.Report `json:"report"`
}

// Smoke stages the built files and runs the recipe's checks on them. A report
// that passed on the same files and the same checks stands.
func (c *Chain) Smoke(ctx context.Context, b *Built) ([]*binary.File, *smoke.Report, error) {
	files, err := c.Stage(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	top := c.stageDir()
	have, err := stage.Inventory(top, bundle.IsExtra)
	if err != nil {
		return nil, nil, err
	}
	checks, bin, want := c.checks(b), top, smoke.Version{Build: c.Tree.Pin.Build, Commit: b.Plan.VersionCommit}
	if c.drop != "" {
		t, err := c.tryDropIn(ctx)
		if err != nil {
			return nil, nil, err
		}
		checks, bin, want = t.checks, t.bin, t.want
		if have, err = stage.Inventory(bin, bundle.IsExtra); err != nil {
			return nil, nil, err
		}
	}
	within, err := c.inside(ctx, b, files, bin)
	if err != nil {
		return nil, nil, err
	}
	stock, same, err := c.stock(ctx, b, checks)
	if err != nil {
		return nil, nil, err
	}
	libs, err := stage.CUDALibraries(c.own("libs"), files, b.Plan.CUDA)
	if err == nil && b.Plan.HIP.Version != "" {
		libs, err = stage.HIPLibraries(c.own("libs"), files, b.Plan.HIP)
	}
	if err != nil {
		return nil, nil, err
	}
	if within != nil {
		libs.Host = nil // they lie in the root
	}
	wine, err := c.wine(ctx)
	if err != nil {
		return nil, nil, err
	}
	_, needs := c.compared()
	var compared map[string]string
	if stock != "" {
		if compared, err = stage.Inventory(stock, bundle.IsExtra); err != nil {
			return nil, nil, err
		}
	}
	if err := c.FindCard(ctx); err != nil {
		return nil, nil, err
	}
	key, err := digest(have, checks, c.Version, compared, same, c.Place, c.card.on, wine, within)
	if err != nil {
		return nil, nil, err
	}
	var done smokeRecord
	if records.Read(c.own("smoke.json"), &done) && done.Key == key && done.Report != nil {
		return files, done.Report, c.writeReport(done.Report)
	}
	o := smoke.Options{
		Tag: c.Tree.Tag.String(), Target: c.Recipe.Name, Commit: c.Tree.Pin.Commit, Tree: c.Patched.Tree.ID(), Series: c.fixes(),
		Bin: bin, Stock: stock, Same: same, StockWith: needs, Work: c.own("smoke"), Checks: checks, HostEnv: libs.Host,
		Wine: wine, Inside: within, Device: c.Place.Device, SimEnv: c.Place.SimEnv, NoCard: c.card.none,
		Want: want,
		Log:  c.Log, Progress: c.Progress, Hold: c.hold(),
	}
	if on := c.card.on; on != nil {
		o.Card, o.Driver, o.CardEnv, o.Probe, o.ProbeName = on.String(), on.List[0].Driver, slices.Concat(on.Env, libs.Card), on.Probe, on.Source
	}
	for _, how := range libs.How {
		c.Log.Info("smoke: " + how)
	}
	report, err := smoke.Run(ctx, o)
	if report != nil {
		if werr := c.writeReport(report); werr != nil {
			return nil, nil, werr
		}
	}
	if err != nil {
		// A report that did not pass must not stand for the next run.
		_ = os.Remove(c.own("smoke.json"))
		return nil, report, err
	}
	return files, report, records.Write(c.own("smoke.json"), smokeRecord{Key: key, Report: report})
}

// writeReport writes the report beside its record, smoke.json.
func (c *Chain) writeReport(r *smoke.Report) error { return r.Write(c.own("")) }

// checks are the recipe's, with what only the plan knows: whether the web page
// is in. A page that is out must be out, which is judged too.
func (c *Chain) checks(b *Built) []spec.Check {
	checks := slices.Clone(c.Recipe.Smoke)
	for i := range checks {
		if checks[i].Name == "webui" && checks[i].Args["expect"] == nil {
			checks[i].Args = map[string]any{"expect": b.Plan.WebUI()}
		}
	}
	return checks
}

// Release runs the whole chain.
func (c *Chain) Release(ctx context.Context) (bundle.Packed, error) {
	if err := c.CanSmoke(ctx); err != nil { // before what takes long
		return bundle.Packed{}, err
	}
	b, err := c.Build(ctx)
	if err != nil {
		return bundle.Packed{}, err
	}
	return c.Bundle(ctx, b)
}

// Explain chooses the series without fetching anything where the tag's build
// number is known from its name or the lock.
func (o Options) Explain(ctx context.Context, t tag.Tag, target string) (*spec.Series, error) {
	rec, err := o.recipe(target)
	if err != nil {
		return nil, err
	}
	t = o.Repo.Lock.Named(rec.Upstream, t)
	if err := o.CheckTag(rec.Upstream, t); err != nil {
		return nil, err
	}
	pin, known := o.numbered(rec, t)
	var pins pending
	if !known {
		tree, err := o.fetch(ctx, rec.Upstream, t, &pins)
		if err != nil {
			return nil, err
		}
		defer func() { _ = tree.Close() }()
		pin = tree.Pin
	} else if err := source.CheckGiven(o.Source, rec.Upstream, t); err != nil {
		return nil, err
	}
	s, err := o.Repo.Choose(rec, t.String(), pin)
	if err != nil {
		return nil, err
	}
	return s, pins.record(ctx, o)
}

// numbered is what the lock or its name tells of a tag; known is whether that is
// its build number.
func (o Options) numbered(rec spec.Recipe, t tag.Tag) (pin spec.Pin, known bool) {
	if pin, ok := o.Repo.Lock[rec.Upstream][t.String()]; ok {
		return pin, true
	}
	pin.Build, known = t.Build()
	return pin, known
}
