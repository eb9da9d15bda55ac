package chain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/page"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// WrongPage says that a web page is not the one that recipes/pages.lock has of the tag.
type WrongPage struct {
	Tag, From string // From: where it came from
	Got, Want string // SHA-256; Want is empty where the lock has none
}

// Error gives both hashes.
func (e *WrongPage) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("the web page of %s from %s: %s has no hash of it, and a page that was made elsewhere is taken "+
			"by its hash alone", e.Tag, e.From, spec.PageLockFile)
	}
	return fmt.Sprintf("the web page of %s from %s has the SHA-256 %s, and %s has %s", e.Tag, e.From, e.Got,
		spec.PageLockFile, e.Want)
}

// ExitCode is exit.Source.
func (e *WrongPage) ExitCode() int { return exit.Source }

// Hint says what to do.
func (e *WrongPage) Hint() string {
	if e.Want == "" {
		return "llpatch fetch " + e.Tag + " --ui builds it and records its hash"
	}
	return "llpatch fetch " + e.Tag + " --ui builds it from its sources"
}

// NoPage says that a page which the order requires is not to be had.
type NoPage struct{ Tag, Why string }

// Error gives the reason.
func (e *NoPage) Error() string {
	return fmt.Sprintf("%s: the web page is not at hand, and --require-ui asks for it: %s", e.Tag, e.Why)
}

// ExitCode is exit.Source.
func (e *NoPage) ExitCode() int { return exit.Source }

// Hint says what to do.
func (e *NoPage) Hint() string {
	return "llpatch fetch " + e.Tag + " --ui builds it where there is a network; --ui PATH takes one that was " +
		"built elsewhere"
}

// paged gives a patched tree the web page of llama-server, where the tree holds only its
// sources: the one that Order.Page names, one of the cache, or, if make says so, one that is
// built. A page that cannot be had is left out, with the reason, unless the order requires it.
func (e Workspace) paged(ctx context.Context, p Patched, make bool) (w Web, err error) {
	place, ok := e.Repo.PageOf(p.Recipe.Upstream, p.Tree.Pin.Build)
	if !ok || !p.Result.Tree.Has(place.Sources) {
		return w, nil
	}
	got, err := e.page(ctx, p, place, make)
	if none := new(page.Unavailable); errors.As(err, &none) {
		if p.RequirePage {
			return w, &NoPage{p.Tree.Tag.String(), none.Err.Error()}
		}
		w.Why = fmt.Sprintf("%v; llpatch fetch %s --ui builds it", none.Err, p.Tree.Tag)
		return w, nil
	}
	if err != nil {
		return w, err
	}
	return Web{Page: &got, place: place}, nil
}

// FetchPage builds the page of a tag, or takes it from the folder that from names, and keeps it
// in the cache. The tag is the one that was taken, which is another one with Workspace.Nearest.
func FetchPage(ctx context.Context, e Workspace, upstream string, t tag.Tag, from string) (tag.Tag, page.Page, error) {
	p, err := Patch(ctx, e, Order{Tag: e.Repo.Lock.Named(upstream, t), Recipe: AnyTarget(upstream), Page: from}, nil)
	if err != nil {
		return t, page.Page{}, err
	}
	t = p.Tree.Tag
	place, ok := e.Repo.PageOf(upstream, p.Tree.Pin.Build)
	if !ok {
		return t, page.Page{}, errors.Join(&BadOption{"--ui", fmt.Errorf("%s has no web page to build: it lies in the "+
			"tree, or %s does not say where its sources are", t, spec.SourcesFile)}, p.Tree.Close())
	}
	got, err := e.page(ctx, p, place, true)
	return t, got, errors.Join(err, p.Tree.Close())
}

// AnyTarget is a recipe of no target, that takes every fix of an upstream.
func AnyTarget(upstream string) spec.Recipe {
	return spec.Recipe{Upstream: upstream, Range: tag.MustParseRange(">= 1"), Fixes: spec.FixList{All: true}}
}

// page is the page of a patched tree, which has its sources. The lock decides what is taken.
func (e Workspace) page(ctx context.Context, p Patched, place spec.PagePlace, make bool) (page.Page, error) {
	in := page.Input{Tree: p.Result.Tree, Place: place, Build: p.Tree.Pin.Build, Tools: e.Repo.PageTools}
	name := p.Tree.Tag.String()
	cache := page.Cache{Dir: e.Cache, Log: e.Log}
	sources, err := in.Sources()
	if err != nil {
		return page.Page{}, err
	}
	pin := e.Repo.PageLock[p.Recipe.Upstream][name]
	if pin.Sources != sources { // it is of other sources, or there is none
		pin = spec.PagePin{}
	}
	if p.Order.Page != "" {
		got, err := page.Read(ctx, p.Order.Page, sources)
		if err == nil && got.SHA256 != pin.SHA256 {
			err = &WrongPage{Tag: name, From: p.Order.Page, Got: got.SHA256, Want: pin.SHA256}
		}
		if err == nil {
			err = cache.Keep(ctx, got)
		}
		return got, err
	}
	got, there := cache.Built(ctx, in)
	if got.SHA256 != pin.SHA256 && pin.SHA256 != "" {
		if taken, whole := cache.Find(ctx, sources, pin.SHA256); whole { // by --ui
			return taken, nil
		}
	}
	switch {
	case there:
	case !make && pin.SHA256 != "": // a plan needs no more
		return page.Page{Sources: sources, SHA256: pin.SHA256}, nil
	case !make:
		return got, &page.Unavailable{Err: errors.New("no page of these sources is in the cache")}
	case e.Locked && pin.SHA256 == "":
		return got, &page.Unavailable{Err: fmt.Errorf("%s has no hash of it, and --locked asks for one", spec.PageLockFile)}
	default:
		if got, err = cache.Build(ctx, in, e.Sources()); err != nil {
			return got, err
		}
	}
	if pin.SHA256 != "" && got.SHA256 != pin.SHA256 {
		return got, &WrongPage{Tag: name, From: "its sources", Got: got.SHA256, Want: pin.SHA256}
	}
	if pin.SHA256 == "" {
		err = e.Records.Page(ctx, e.Repo, p.Recipe.Upstream, p.Tree.Tag, spec.PagePin{Sources: sources, SHA256: got.SHA256})
		e.Log.Info("recorded in "+spec.PageLockFile, "tag", name, "sha256", got.SHA256)
	}
	return got, err
}

// tree is the tree that is built: the patched one, with the page in the place where its CMake
// takes it from.
func (p Prepared) tree() (*source.Tree, error) {
	if p.Web.Page == nil {
		return p.Result.Tree, nil
	}
	files := map[string]*source.File{}
	for _, e := range p.Web.Page.Tree.Files() {
		f, err := p.Web.Page.Tree.Read(e.Path)
		if err != nil {
			return nil, err
		}
		files[path.Join(p.Web.place.Dist, e.Path)] = &f
	}
	return p.Result.Tree.With(files)
}

// setTimes gives the page's files a fixed time: upstream's CMake packs them with gzip, which
// writes it down.
func (p Prepared) setTimes() error {
	if p.Web.Page == nil {
		return nil
	}
	for _, e := range p.Web.Page.Tree.Files() {
		name := p.file(filepath.Join("src", filepath.FromSlash(p.Web.place.Dist), filepath.FromSlash(e.Path)))
		if err := os.Chtimes(name, time.Time{}, p.Tree.Pin.Time); err != nil {
			return err
		}
	}
	return nil
}

// builtPage is what a plan has of the page.
func (p Prepared) builtPage() *build.Page {
	if p.Web.Page == nil {
		return nil
	}
	return &build.Page{
		Page: *p.Web.Page, Place: p.Web.place, Env: page.Env(p.Tree.Pin.Build, p.Web.Page.Sources),
		Time: p.Tree.Pin.Time,
	}
}
