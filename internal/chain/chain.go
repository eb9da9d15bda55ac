// Package chain is the order of the stages from a tag to a bundle. Each takes the value of the
// one before it and returns the next, which holds what it was made of:
//
//	Order ─Prepare▶ Prepared ─Build▶ Built ─Stage▶ Staged ─Check▶ Checked ─Pack▶ bundle.Packed
//	          │        │                       │              │
//	       Machine     ├─▶ Prove, ProveBuilt  Signer         Venue ◀Look─ Device
//
// Prepare looks at a Machine, which gives a Site, and patches: Patched is the order's tree with the
// series in it, and all that a command which builds nothing wants. Proofs make builds of their own.
// Nothing in a value is filled in later. What Stage, Check and Pack found done already, by the
// record that they left in the folder of their tag and target, Memo does not do again; Build, of
// stock too, leaves that to Ninja.
package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
)

// Workspace is what every stage works with: declarations, folders, and how the user is told.
type Workspace struct {
	Repo     *spec.Repo
	Records  records.Store
	Cache    string // folder for fetched sources
	Out      string // folder for what the stages write: dist
	Version  string // llpatch's own, for the records
	Log      *slog.Logger
	Progress func(what string, done, total int64) // may be nil; total 0: unknown

	// Where trees may come from.
	Source  string // one source to use instead of the declared ones: a URL or a path
	Locked  bool   // refuse tags that recipes/tags.lock does not have
	Offline bool   // use no network
	Nearest bool   // where the tag cannot be had, take the nearest that can
}

// Smoke runs the chain as far as the checks. Where they failed or could not run, their report
// is returned with the error.
func Smoke(ctx context.Context, e Workspace, p Prepared, v Venue) (*smoke.Report, error) {
	c, err := smoked(ctx, e, p, v, nil)
	return c.Report, errors.Join(err, c.Close())
}

// Release runs the whole chain: what is signed is what is checked, and what is checked is
// what is packed (docs/adr/0002). A larger archive is also cut into parts of partMiB. The signer
// of Windows' programs and the key of the whole may be nil.
func Release(
	ctx context.Context, e Workspace, p Prepared, v Venue, signer *authenticode.Signer, key *trust.Key,
	partMiB int64,
) (packed bundle.Packed, err error) {
	c, err := smoked(ctx, e, p, v, signer)
	if err == nil {
		packed, err = Pack(ctx, e, c, partMiB<<20, key)
	}
	return packed, errors.Join(err, c.Close())
}

// smoked runs the chain as far as the checks. The caller closes what it returns.
func smoked(
	ctx context.Context, e Workspace, p Prepared, v Venue, signer *authenticode.Signer,
) (c Checked, err error) {
	if c.Built, err = Build(ctx, e, p); err != nil {
		return Checked{}, err
	}
	if c.Staged, err = Stage(ctx, e, c.Built, signer); err != nil {
		return c, err
	}
	return Check(ctx, e, c.Staged, v)
}

// CheckSigner tries a signer, which may be nil, on a small program, before anything is built.
func CheckSigner(ctx context.Context, e Workspace, o Order, signer *authenticode.Signer) error {
	if signer == nil {
		return nil
	}
	if o.Recipe.Verify.PE == nil {
		return &BadOption{"--sign", fmt.Errorf("%s has no Windows programs, which alone have such signatures", o.Recipe.Name)}
	}
	sig, err := signer.Check(ctx)
	if err == nil {
		e.Log.Info("programs are signed", "as", sig.Signer, "until", sig.Until.UTC().Format(time.DateOnly))
	}
	return err
}

// notRun says that no proof or check could run, and why.
func (o Order) notRun(err error) error {
	return &smoke.NotRun{Report: &smoke.Report{Tag: o.Tag.String(), Target: o.Recipe.Name}, Err: err}
}

// placed gives a declaration at fault its line.
func (e Workspace) placed(err error) error {
	if f := new(build.Fault); errors.As(err, &f) {
		return spec.ErrorAt(e.Repo.FS, f.File, f.Key, "%s", f.Msg)
	}
	return err
}

func recipeFile(r spec.Recipe) string { return path.Join("recipes", r.Name+".toml") }
