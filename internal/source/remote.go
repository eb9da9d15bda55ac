package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
		ctx, watch := newWatchdog(ctx, f.stall)
		defer watch.stop()
		ep, err := transport.NewEndpoint(url)
		if err != nil {
			// The cause holds the address, with its password.
			return found{}, fmt.Errorf("%s is not an address", redacted(url))
		}
		session, err := f.session(ctx, ep)
		if err != nil {
			return found{}, watch.explain(brief(err))
		}
		defer func() { _ = session.Close() }() // the pack's own checksum tells whether all came
		refs, err := session.AdvertisedReferencesContext(ctx)
		if err != nil {
			return found{}, watch.explain(brief(err))
		}
		id, err := f.advertised(refs, t)
		if err != nil {
			return found{}, err
		}
		if err := f.receive(ctx, session, refs, id, s, watch); err != nil {
			return found{}, watch.explain(err)
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

// receive asks for one commit at depth 1 and keeps the pack in s.
func (f *fetcher) receive(ctx context.Context, session transport.UploadPackSession, refs *packp.AdvRefs, id plumbing.Hash, s *scratch, watch *watchdog) error {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	req.Wants = []plumbing.Hash{id}
	if refs.Capabilities.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(1)
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
	if err := s.addPack(ctx, f.watched(body, watch, "fetch", 0)); err != nil {
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
