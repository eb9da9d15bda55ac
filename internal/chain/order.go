package chain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Flags are what a command line asks of a target.
type Flags struct {
	With        []string // fixes that are taken only on request
	Without     []string // groups of fixes that are left out
	Cures       bool     // fail where a cure of a security defect is not at hand
	Archs       string   // CUDA archs instead of the recipe's, as spec.Recipe.SetArchs takes them; empty: the recipe's
	GFX         string   // AMD targets instead of the recipe's, as spec.Recipe.SetGFX takes them; empty: the recipe's
	Runtime     string   // spec.Thin or spec.Full; empty: as the recipe says
	Page        string   // folder with the web page of llama-server; empty: it is built, or taken from the cache
	RequirePage bool     // fail where the web page is not at hand
	BackendOnly bool     // make only the target's own backend, for the stock package of the tag
}

// Order is what was asked for: a tag, and a target's recipe with the flags folded in.
type Order struct {
	Tag    tag.Tag
	Recipe spec.Recipe
	DropIn string // file name of the one library that is made; empty: the whole target
	Room   int64  // MiB of disk that it takes; 0: not known

	RequireCures bool   // as Flags.Cures
	Page         string // as Flags.Page
	RequirePage  bool   // as Flags.RequirePage

	// the manifest of an archive that is built again, of which the new one's own is taken; nil: it
	// is a new one
	As *bundle.Info
}

// BadOption is a flag that asks of a target what it cannot give.
type BadOption struct {
	Flag string
	Err  error
}

// Error names the flag and the cause.
func (e *BadOption) Error() string { return e.Flag + ": " + e.Err.Error() }

// ExitCode is exit.Usage.
func (e *BadOption) ExitCode() int { return exit.Usage }

// Unwrap returns Err.
func (e *BadOption) Unwrap() error { return e.Err }

// NoRuntime says that a target has no full bundle.
type NoRuntime struct{ Target string }

// Error names the target and the reason.
func (e *NoRuntime) Error() string {
	return fmt.Sprintf("%s has no full bundle: its recipe's bundle.carry names no library of a toolkit, and what it "+
		"builds needs none", e.Target)
}

// ExitCode is exit.Usage.
func (e *NoRuntime) ExitCode() int { return exit.Usage }

// Hint says what to do.
func (e *NoRuntime) Hint() string { return "without --bundle, or with --bundle thin, it is made" }

// NewOrder reads declarations alone. The error is a *BadOption or a *NoRuntime where a flag
// does not fit the target, a *spec.WrongUpstream or *spec.OutOfRange where the tag does not.
func NewOrder(e Workspace, t tag.Tag, target string, f Flags) (Order, error) {
	rec, err := e.recipe(target, f.With, f.Without)
	if err != nil {
		return Order{}, err
	}
	o := Order{Tag: e.Repo.Lock.Named(rec.Upstream, t), RequireCures: f.Cures, Page: f.Page, RequirePage: f.RequirePage}
	if f.Archs != "" {
		if err := rec.SetArchs(f.Archs); err != nil {
			return o, &BadOption{"--cuda-archs", err}
		}
	}
	if f.GFX != "" {
		if err := rec.SetGFX(f.GFX); err != nil {
			return o, &BadOption{"--gfx", err}
		}
	}
	if f.BackendOnly {
		if o.DropIn, err = dropIn(rec); err != nil {
			return o, &BadOption{"--backend-only", err}
		}
	}
	if err := smoke.Validate(rec.Smoke); err != nil {
		return o, &spec.Error{File: recipeFile(rec), Msg: err.Error()}
	}
	if f.Runtime == spec.Full && len(rec.Bundle.Carry) == 0 {
		return o, &NoRuntime{rec.Name}
	}
	rec.Bundle.Runtime = cmp.Or(f.Runtime, rec.Bundle.Runtime, spec.Thin)
	if f.Archs == "" && o.DropIn == "" {
		o.Room = rec.DiskMiB
	}
	o.Recipe = rec
	if err := e.CheckTag(rec.Upstream, o.Tag); err != nil {
		return o, err
	}
	if e.Nearest {
		return o, nil
	}
	return o, e.InRange(rec, o.Tag)
}

// InRange returns a *spec.OutOfRange for a tag that the recipe does not build.
func (e Workspace) InRange(rec spec.Recipe, t tag.Tag) error {
	if pin, known := e.numbered(rec, t); known && !rec.Range.Contains(pin.Build) {
		return e.Repo.OutOfRange(rec, t.String(), pin)
	}
	return nil
}

// recipe is a target with the fixes that were asked for.
func (e Workspace) recipe(target string, with, without []string) (spec.Recipe, error) {
	rec, err := e.Repo.Recipe(target)
	if err != nil {
		return rec, err
	}
	if err := e.Repo.Ask(&rec, with); err != nil {
		return rec, &BadOption{"--with", err}
	}
	if err := e.Repo.LeaveOut(&rec, without); err != nil {
		return rec, &BadOption{"--without", err}
	}
	return rec, nil
}

// dropIn is the file name of the one library of a target that fits into another package.
func dropIn(rec spec.Recipe) (string, error) {
	switch {
	case rec.DropInTarget == "" || !usesCard(rec.Backends[0]):
		return "", fmt.Errorf("%s has no backend that fits into another package", rec.Name)
	case rec.CMake["GGML_BACKEND_DL"] != true:
		return "", fmt.Errorf("%s links its backends in: GGML_BACKEND_DL is not on", rec.Name)
	case rec.OS == spec.Win7:
		return "ggml-" + rec.Backends[0] + ".dll", nil
	}
	return "libggml-" + rec.Backends[0] + ".so", nil
}

// contents is what is going to be built.
func (o Order) contents() spec.Contents {
	c := o.Recipe.Contents()
	c.DropIn = o.DropIn
	return c
}

// folder is the name of the order's folder: with other fixes it is another build.
func (o Order) folder() string {
	name := strings.Join(append([]string{o.Recipe.Name}, o.Recipe.With...), "+")
	for _, group := range o.Recipe.Groups {
		name += "-without-" + group
	}
	return name
}

// only is the CMake target of the drop-in.
func (o Order) only() []string {
	if o.DropIn == "" {
		return nil
	}
	return []string{"ggml-" + o.Recipe.Backends[0]}
}

// numbered is what the lock or its name tells of a tag; known is whether that is
// its build number.
func (e Workspace) numbered(rec spec.Recipe, t tag.Tag) (pin spec.Pin, known bool) {
	if pin, ok := e.Repo.Lock[rec.Upstream][t.String()]; ok {
		return pin, true
	}
	pin.Build, known = t.Build()
	return pin, known
}

// usesCard tells whether a backend computes on a graphics card of this machine.
func usesCard(backend string) bool { return !slices.Contains([]string{"cpu", "blas", "rpc"}, backend) }
