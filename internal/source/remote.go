package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitproto "github.com/go-git/go-git/v5/plumbing/transport/git"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
	cryptossh "golang.org/x/crypto/ssh"

	"github.com/llpatch/llpatch/internal/download"
	"github.com/llpatch/llpatch/internal/tag"
)

// fromRemote fetches one commit without its history from a git server, as a
// pack of its own. go-git's Fetch is not used: it moves tags without a word,
// and takes its HTTP client, with the timeouts, from a global variable.
func (f *fetcher) fromRemote(ctx context.Context, url string, t tag.Tag, want want) (*Tree, error) {
	if f.Offline {
		return nil, errOffline
	}
	if !want.numbered(t) {
		return nil, errNoBuild(t, "a fetch of one commit")
	}
	return f.intoCache(ctx, t, want, func(ctx context.Context, s *scratch) (found, error) {
		id, err := f.pull(ctx, url, 1, s, func(refs *packp.AdvRefs) (plumbing.Hash, error) { return f.advertised(refs, t) })
		if err != nil {
			return found{}, err
		}
		st := s.store()
		r, err := st.acquire()
		if err != nil {
			return found{}, err
		}
		defer func() { _ = r.close() }()
		c, err := r.peel(id.String())
		if err != nil {
			return found{}, err
		}
		pin := pinOf(c)
		return found{pin: pin, tells: t}, nil
	})
}

// remoteCommit fetches a commit and its parents, without the history before them, and
// keeps them in the cache.
func (f *fetcher) remoteCommit(ctx context.Context, url, id string) (_ *Change, err error) {
	if f.Offline {
		return nil, errOffline
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := newScratch(f.cache)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cacheError(os.RemoveAll(s.dir))) }()
	if _, err := f.pull(ctx, url, 2, s, func(*packp.AdvRefs) (plumbing.Hash, error) {
		return plumbing.NewHash(id), nil
	}); err != nil {
		return nil, err
	}
	st := s.store()
	c, err := changeOf(ctx, st, id)
	if err := errors.Join(err, st.close()); err != nil {
		return nil, err
	}
	if err := f.complete(ctx, s, c.tree); err != nil {
		return nil, err
	}
	return c, errors.Join(f.cache.came(c.tree, f.origin()), f.cache.install(s, c.tree))
}

// pull receives a commit of the server's, and as many more generations as depth says.
func (f *fetcher) pull(ctx context.Context, url string, depth int, s *scratch,
	pick func(*packp.AdvRefs) (plumbing.Hash, error),
) (id plumbing.Hash, err error) {
	ctx, watch := download.NewWatch(ctx, f.stall)
	defer watch.Stop()
	ep, err := transport.NewEndpoint(url)
	if err != nil {
		// The cause holds the address, with its password.
		return id, fmt.Errorf("%s is not an address", redacted(url))
	}
	session, err := f.session(ctx, ep)
	if err != nil {
		return id, watch.Explain(brief(err))
	}
	defer func() { _ = session.Close() }() // the pack's own checksum tells whether all came
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return id, watch.Explain(brief(err))
	}
	if id, err = pick(refs); err != nil {
		return id, err
	}
	return id, watch.Explain(f.receive(ctx, session, refs, id, depth, s, watch))
}

// session connects to the server. For ssh the user's agent and known_hosts count.
// go-git connects without a context: where that ends first, the connection is
// closed when it comes.
func (f *fetcher) session(ctx context.Context, ep *transport.Endpoint) (transport.UploadPackSession, error) {
	var auth transport.AuthMethod
	if ep.Protocol == "ssh" {
		agent, err := ssh.DefaultAuthBuilder(ep.User)
		if err != nil {
			return nil, err
		}
		auth = boundedAuth{agent}
	}
	type answer struct {
		transport.UploadPackSession
		err error
	}
	come := make(chan answer, 1)
	go func() {
		s, err := f.gitTransport(ep).NewUploadPackSession(ep, auth)
		come <- answer{s, err}
	}()
	select {
	case a := <-come:
		return a.UploadPackSession, a.err
	case <-ctx.Done():
		go func() {
			if a := <-come; a.err == nil {
				_ = a.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// boundedAuth bounds the dial. A client's own configuration is not the place for
// that: go-git would take all of it, with no known hosts and no keys.
type boundedAuth struct{ ssh.AuthMethod }

// ClientConfig returns the configuration that the method makes, with a timeout.
func (a boundedAuth) ClientConfig() (*cryptossh.ClientConfig, error) {
	c, err := a.AuthMethod.ClientConfig()
	if err == nil {
		c.Timeout = dialTimeout
	}
	return c, err
}

// gitTransport speaks the endpoint's protocol.
func (f *fetcher) gitTransport(ep *transport.Endpoint) transport.Transport {
	switch ep.Protocol {
	case "ssh":
		return ssh.DefaultClient
	case "git":
		return gitproto.DefaultClient
	}
	return githttp.NewClient(&http.Client{Transport: f.roundTripper(nil)})
}

// advertised returns the id to ask for.
func (f *fetcher) advertised(refs *packp.AdvRefs, t tag.Tag) (plumbing.Hash, error) {
	if t.Kind() == tag.Commit {
		return plumbing.NewHash(t.String()), nil
	}
	name := plumbing.NewTagReferenceName(t.String()).String()
	id, ok := refs.References[name]
	if !ok {
		for ref := range refs.References {
			if short, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
				if other, err := tag.Parse(short); err == nil {
					f.offer(other)
				}
			}
		}
		return plumbing.ZeroHash, errNoTag
	}
	return id, nil
}

// receive asks for one commit at a depth and keeps the pack in s.
func (f *fetcher) receive(ctx context.Context, session transport.UploadPackSession, refs *packp.AdvRefs,
	id plumbing.Hash, depth int, s *scratch, watch *download.Watch,
) error {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	req.Wants = []plumbing.Hash{id}
	if refs.Capabilities.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(depth)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return err
		}
	}
	resp, err := session.UploadPack(ctx, req)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", id, brief(err))
	}
	defer func() { _ = resp.Close() }() // only read from
	var body io.Reader = resp
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		body = sideband.NewDemuxer(sideband.Sideband64k, body)
	case req.Capabilities.Supports(capability.Sideband):
		body = sideband.NewDemuxer(sideband.Sideband, body)
	}
	if err := s.addPack(ctx, watch.Reader(body, func(done int64) { f.progress("fetch", done, 0) })); err != nil {
		return fmt.Errorf("receive the pack: %w", err)
	}
	return nil
}

// brief shortens go-git's wrapping, which repeats itself.
func brief(err error) error {
	var unexpected *plumbing.UnexpectedError
	if errors.As(err, &unexpected) {
		return plain(unexpected.Err)
	}
	return plain(err)
}
