package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Options say where trees come from and what is accepted.
type Options struct {
	Cache    string        // folder of the cache; repositories live below it
	Dir      string        // the project's folder, for its .npmrc; "": the working folder
	Sources  []spec.Source // tried in order
	Lock     spec.Lock     // recipes/tags.lock as loaded
	Override string        // --source: a URL or a path, used as the only source

	Locked  bool // only tags that are in the lock
	Offline bool // no network: the cache and local paths only
	Nearest bool // where no source has the tag, take the nearest that one has

	// Record is called with the pin of a tag that is not in the lock; the caller
	// judges whose it is and writes the lock. Nil: it is not recorded.
	Record func(upstream string, t tag.Tag, p spec.Pin) error

	Log      *slog.Logger                         // nil: slog.Default
	Progress func(what string, done, total int64) // bytes; total 0: not known; may be nil
}

// Fetch returns the tree of a tag of an upstream, from the cache or from the
// first source that has it. The errors that a user acts on are *Unavailable,
// *Mismatch and *NotLocked; *Missing and *Corrupt may come from the tree later.
func Fetch(ctx context.Context, o Options, upstream string, t tag.Tag) (*Tree, error) {
	f := newFetcher(ctx, o, upstream)
	t = o.Lock.Named(upstream, t)
	tree, err := f.fetch(ctx, t)
	var gone *Unavailable
	if !o.Nearest || !errors.As(err, &gone) {
		return tree, err
	}
	for _, name := range gone.Nearest {
		near, perr := tag.Parse(name)
		if perr != nil {
			return nil, perr
		}
		tree, nerr := f.fetch(ctx, near)
		if errors.As(nerr, new(*Unavailable)) || errors.As(nerr, new(*NotLocked)) {
			f.Log.Debug("the nearest tag cannot be had either", "tag", name, "error", nerr)
			continue
		}
		if nerr != nil {
			return nil, nerr
		}
		tree.Asked = t
		f.Log.Warn(fmt.Sprintf("%s %s cannot be had: USING %s INSTEAD, the nearest that can", upstream, t, near), "source",
			tree.Source)
		return tree, nil
	}
	return nil, err
}

// GivenSource is the Origin of a tree from Options.Override, whose path is not
// everybody's to know.
const GivenSource = "--source"

// origin is the name under which a tree of the source being tried is recorded.
func (f *fetcher) origin() string {
	if f.Override != "" {
		return GivenSource
	}
	return f.label
}

// want is what is known of a tag before it is fetched.
type want struct {
	pin    spec.Pin
	known  bool // pin holds the identity that must come out; else its number and commit count, where it has them
	locked bool // it is the lock's, so there is nothing to record
}

// fetcher is one call of Fetch.
type fetcher struct {
	Options
	upstream string
	cache    cacheDir
	stall    time.Duration
	ctx      context.Context // bounds what a tree fetches again later

	label  string           // the source being tried, for messages
	locked bool             // this fetch holds the cache's lock
	down   map[string]error // sources whose server did not answer: not asked twice
	offers map[tag.Tag]bool // tags that a source said it has
	gate   progressGate
}

func newFetcher(ctx context.Context, o Options, upstream string) *fetcher {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &fetcher{
		Options: o, upstream: upstream, ctx: ctx, stall: stallTimeout,
		cache: cacheDir{root: o.Cache, upstream: upstream},
		down:  map[string]error{}, offers: map[tag.Tag]bool{},
	}
}

// errOffline is why a network source was not asked.
var errOffline = errors.New("not asked: --offline")

func (f *fetcher) fetch(ctx context.Context, t tag.Tag) (*Tree, error) {
	w := f.want(t)
	if !w.known && f.Locked {
		return nil, &NotLocked{Upstream: f.upstream, Tag: t}
	}
	if err := CheckGiven(f.Override, f.upstream, t); err != nil {
		return nil, err
	}
	tree, err := f.fromCache(ctx, t, w)
	if err != nil {
		return nil, err
	}
	if tree != nil && f.Override != "" {
		tree.Unread = true
		f.Log.Info("the tag is in the cache already: --source was not read", "tag", t, "source", redacted(f.Override))
	}
	if tree == nil {
		if tree, err = f.fromSources(ctx, t, w); err != nil {
			return nil, err
		}
	}
	if w.locked {
		return tree, nil
	}
	if f.Record != nil {
		if err := f.Record(f.upstream, t, tree.Pin); err != nil {
			return nil, errors.Join(fmt.Errorf("record %s in recipes/tags.lock: %w", t, err), tree.Close())
		}
	}
	f.Log.Warn("tag is not pinned in recipes/tags.lock", "tag", t, "tree", tree.Pin.Tree, "commit", tree.Pin.Commit,
		"source", tree.Source)
	return tree, nil
}

// CheckGiven returns an *Unavailable where override, a source given on the command
// line, is a path that leads nowhere: a slip of the pen, also where the tag can be
// had without it. Of an address nothing is said.
func CheckGiven(override, upstream string, t tag.Tag) error {
	path := localPath(strings.ReplaceAll(override, "{tag}", t.String()))
	if path == "" || isRemote(path) {
		return nil
	}
	if _, err := sniffAddress(path); err != nil {
		return &Unavailable{Upstream: upstream, Tag: t, Tried: []Attempt{{Source: redacted(override), Err: err}}}
	}
	return nil
}

// want looks a tag up in the lock. Offline, what the cache remembers of an earlier fetch will do.
func (f *fetcher) want(t tag.Tag) want {
	pin := f.Lock[f.upstream][t.String()]
	if pin.Tree != "" {
		return want{pin: pin, known: true, locked: true}
	}
	if f.Offline {
		p, ok := f.cache.pins()[t.String()]
		if p, fits := p.Under(pin); ok && fits && checkPin(t, p) == nil {
			return want{pin: p, known: true}
		}
	}
	return want{pin: pin}
}

// numbered reports whether the tag's build number is known before it is fetched.
func (w want) numbered(t tag.Tag) bool { return w.pin.Build > 0 || t.Kind() == tag.Build }

// number gives a pin that was just found the number that is known.
func (w want) number(t tag.Tag, pin *spec.Pin) {
	if pin.Build, pin.Max = w.pin.Build, w.pin.Max; pin.Build == 0 {
		pin.Build, _ = t.Build()
	}
}

// judge compares what a source has with what is pinned. The tree decides: the
// same files are the same tag, whatever commit they hang on.
func (f *fetcher) judge(t tag.Tag, source string, w want, got spec.Pin) error {
	m := &Mismatch{Upstream: f.upstream, Tag: t, Source: source, What: "tree", Want: w.pin.Tree, Got: got.Tree}
	other := w.pin.Commit != "" && got.Commit != "" && w.pin.Commit != got.Commit
	switch {
	case !w.known && !other:
		return nil
	case w.pin.Tree == got.Tree && other:
		f.Log.Info("the source has the same tree under another commit, which is as good", "tag", t, "source", source,
			"pinned", w.pin.Commit, "commit", got.Commit)
		return nil
	case w.pin.Tree == got.Tree:
		return nil
	case other:
		m.What, m.Want, m.Got = "commit", w.pin.Commit, got.Commit
	}
	return m
}

// fromCache returns a pinned tree that was fetched before; nil where there is
// none, or where it is damaged, which it removes. One that may not be read is an error:
// the cache is somebody else's, and fetching again would not help.
func (f *fetcher) fromCache(ctx context.Context, t tag.Tag, w want) (*Tree, error) {
	if !w.known || !f.cache.holds(w.pin.Tree) {
		return nil, nil
	}
	tree, err := f.openCached(ctx, t, w.pin)
	if err == nil {
		tree.Source = "cache"
		tree.Origin = cmp.Or(f.cache.origins()[w.pin.Tree], "cache")
		return tree, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, cacheError(err)
	}
	if ctx.Err() == nil {
		f.Log.Warn("the cached tree is damaged, fetching it again", "tag", t, "cache", f.cache.path(".git"), "error", err)
		if err := f.discard(ctx, w.pin.Tree, err); err != nil {
			f.Log.Warn("the damaged tree cannot be removed", "error", err)
		}
	}
	return nil, nil
}

// openCached opens a tree of the cache, which fetches itself again when one of
// its files turns out damaged later.
func (f *fetcher) openCached(ctx context.Context, t tag.Tag, pin spec.Pin) (*Tree, error) {
	st := &store{where: f.cache.path(".git"), open: f.cache.repo().storages}
	st.heal = func(cause error) (*store, error) {
		f.Log.Warn("a cached file is damaged, fetching the tree again", "tag", t, "error", cause)
		if err := f.discard(f.ctx, pin.Tree, cause); err != nil {
			return nil, err
		}
		tree, err := f.fromSources(f.ctx, t, want{pin: pin, known: true, locked: true})
		if err != nil {
			return nil, err
		}
		return tree.store, nil
	}
	entries, err := loadTree(ctx, st, pin.Tree)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	return &Tree{Tag: t, Upstream: f.upstream, Pin: pin, Source: f.label, id: pin.Tree, entries: entries, store: st}, nil
}

// discard removes a damaged tree from the cache.
func (f *fetcher) discard(ctx context.Context, tree string, cause error) (err error) {
	object := tree
	if c := new(Corrupt); errors.As(cause, &c) {
		object = c.ID
	} else if m := new(Missing); errors.As(cause, &m) {
		object = m.Blob
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return f.cache.drop(tree, object)
}

// fromSources asks one source after the other.
func (f *fetcher) fromSources(ctx context.Context, t tag.Tag, w want) (*Tree, error) {
	gone := &Unavailable{Upstream: f.upstream, Tag: t}
	for _, s := range f.sources() {
		f.label = s.Name
		tree, err := f.try(ctx, s, t, w)
		if err == nil {
			tree.Source = cmp.Or(tree.Source, s.Name)
			tree.Origin = cmp.Or(tree.Origin, f.origin())
			return tree, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if fatal(err) {
			return nil, fmt.Errorf("source %s: %w", s.Name, err)
		}
		f.Log.Debug("source does not serve", "source", s.Name, "tag", t, "error", err)
		gone.Tried = append(gone.Tried, Attempt{Source: s.Name, Err: err})
	}
	// No release is near to an id, nor of use to one who mistyped a path.
	mistyped := f.Override != "" && errors.Is(gone, fs.ErrNotExist)
	if t.Kind() != tag.Commit && !mistyped {
		gone.Nearest = f.nearest(t)
	}
	return nil, gone
}

// sources are the mirror of the history, where there is one, and the declared
// ones; or the one given on the command line alone.
func (f *fetcher) sources() []spec.Source {
	declared := f.declared()
	if f.Override != "" || !f.hasMirror() {
		return declared
	}
	return append([]spec.Source{{Name: "mirror", Kind: "git", URL: MirrorPath(f.Cache, f.upstream)}}, declared...)
}

// declared are the sources of this upstream, or the one given on the command line.
func (f *fetcher) declared() []spec.Source {
	if f.Override != "" {
		return []spec.Source{{Name: redacted(f.Override), Upstream: f.upstream, Kind: kindSniff, URL: f.Override}}
	}
	var out []spec.Source
	for _, s := range f.Sources {
		if s.Upstream == "" || s.Upstream == f.upstream {
			s.Name = cmp.Or(s.Name, redacted(s.URL), s.NPM)
			out = append(out, s)
		}
	}
	return out
}

// offer notes a tag that a source has.
func (f *fetcher) offer(t tag.Tag) { f.offers[t] = true }

// maxNearest is how many tags a message offers.
const maxNearest = 5

// nearest returns the tags that can be had, by their distance in build numbers;
// of two as near, the older. Without a number to measure from, the newest first.
func (f *fetcher) nearest(t tag.Tag) []string {
	pins := f.Lock[f.upstream]
	build := func(t tag.Tag) int {
		if n, ok := t.Build(); ok {
			return n
		}
		return pins[t.String()].Build
	}
	for name, p := range pins {
		if other, err := tag.Parse(name); err == nil && f.cache.holds(p.Tree) {
			f.offer(other)
		}
	}
	at := cmp.Or(build(t), 1<<30)
	var near []tag.Tag
	for other := range f.offers {
		if build(other) > 0 && other != t {
			near = append(near, other)
		}
	}
	slices.SortFunc(near, func(a, b tag.Tag) int {
		return cmp.Or(cmp.Compare(distance(at, build(a)), distance(at, build(b))), cmp.Compare(build(a), build(b)))
	})
	var names []string
	for _, n := range near[:min(len(near), maxNearest)] {
		names = append(names, n.String())
	}
	return names
}

func distance(a, b int) int { return max(a-b, b-a) }
