package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// lookWithin is how long a source may take to answer a look.
const lookWithin = 15 * time.Second

// Look is what was seen of one source, without fetching anything.
type Look struct {
	Source string // its name
	Here   bool   // on this machine: it serves without a network
	Asked  bool   // false: --offline, and it needs the network
	Err    error  // why it does not serve; nil where it does, or was not asked
}

// Looks asks every source of an upstream whether it can be had, and with a tag
// whether it has that. Nothing is fetched and nothing written. The cache is not among
// them: Cached tells that. nearest are the tags that can be had in place of t, as
// Unavailable has them.
func Looks(ctx context.Context, o Options, upstream string, t *tag.Tag) (looks []Look, nearest []string, err error) {
	f := newFetcher(ctx, o, upstream)
	for _, s := range f.sources() {
		l := Look{Source: s.Name, Asked: true}
		one, cancel := context.WithTimeout(ctx, lookWithin)
		l.Here, l.Err = f.look(one, s, t)
		cancel()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if errors.Is(l.Err, errOffline) {
			l.Asked, l.Err = false, nil
		}
		if errors.Is(l.Err, context.DeadlineExceeded) {
			l.Err = fmt.Errorf("it did not answer within %s", lookWithin)
		}
		looks = append(looks, l)
	}
	if t != nil && t.Kind() != tag.Commit {
		nearest = f.nearest(*t)
	}
	return looks, nearest, nil
}

// Cached returns the pinned tags of an upstream whose trees are in the cache, sorted.
func Cached(o Options, upstream string) []string {
	c := cacheDir{root: o.Cache, upstream: upstream}
	var tags []string
	for _, pins := range []map[string]spec.Pin{o.Lock[upstream], c.pins()} {
		for name, p := range pins {
			if c.holds(p.Tree) && !slices.Contains(tags, name) {
				tags = append(tags, name)
			}
		}
	}
	slices.SortFunc(tags, func(a, b string) int { // b900 before b8390
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return tags
}

// look asks one source. here is whether it lies on this machine.
func (f *fetcher) look(ctx context.Context, s spec.Source, t *tag.Tag) (here bool, err error) {
	at := s.URL
	if t != nil {
		at = strings.ReplaceAll(at, "{tag}", t.String())
		f.offerPackaged(s)
		if _, ok := s.Tags[t.String()]; !ok && len(s.Tags) > 0 {
			return false, errNoTag
		}
	}
	at = localPath(at)
	switch {
	case s.NPM != "":
		return false, f.lookNPM(ctx, s, t)
	case !isRemote(at):
		return true, f.lookLocal(at, t)
	case f.Offline:
		return false, errOffline
	}
	kind := s.Kind
	if kind == kindSniff {
		if kind, err = sniffAddress(at); err != nil {
			return false, err
		}
	}
	if kind == "git" {
		return false, f.lookGit(ctx, at, t)
	}
	if t == nil && strings.Contains(at, "{tag}") {
		// The address is known for a tag alone: the server is asked.
		if u, err := url.Parse(at); err == nil {
			at = u.Scheme + "://" + u.Host + "/"
		}
	}
	return false, f.head(ctx, at, t == nil)
}

// lookLocal opens what a path leads to.
func (f *fetcher) lookLocal(path string, t *tag.Tag) error {
	kind, err := sniffAddress(path)
	if err != nil {
		return err
	}
	if kind != "git" {
		_, err := sniffFile(path)
		return err
	}
	tags, err := repositoryTags(path)
	if err != nil || t == nil || t.Kind() == tag.Commit || slices.Contains(tags, *t) {
		return err
	}
	for _, other := range tags {
		f.offer(other)
	}
	return errNoTag
}

func (f *fetcher) lookGit(ctx context.Context, address string, t *tag.Tag) error {
	ep, err := transport.NewEndpoint(address)
	if err != nil {
		return fmt.Errorf("%s is not an address", redacted(address))
	}
	session, err := f.session(ctx, ep)
	if err != nil {
		return brief(err)
	}
	defer func() { _ = session.Close() }() // nothing was asked for
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return brief(err)
	}
	if t == nil {
		return nil
	}
	_, err = f.advertised(refs, *t)
	return err
}

func (f *fetcher) lookNPM(ctx context.Context, s spec.Source, t *tag.Tag) error {
	version := ""
	for name, v := range s.Tags {
		if t == nil || name == t.String() {
			version = v
		}
	}
	if f.Offline {
		return errOffline
	}
	rc, err := loadNpmConfig(f.Dir)
	if err != nil {
		return err
	}
	if rc.registry(s.NPM) == "" {
		if rc.values["registry"], err = askNpm(ctx); err != nil {
			return err
		}
	}
	client := &http.Client{Transport: f.roundTripper(rc)}
	defer client.CloseIdleConnections()
	_, err = f.npmManifest(ctx, client, rc, s.NPM, version)
	return err
}

// head asks a server for a file's head; with anything an answer of any kind will do.
func (f *fetcher) head(ctx context.Context, address string, anything bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: f.roundTripper(nil)}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return plain(err)
	}
	_ = resp.Body.Close() // it has none
	if !anything && resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("HEAD %s: %s", redacted(address), resp.Status)
	}
	return nil
}
