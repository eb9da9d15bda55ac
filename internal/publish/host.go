package publish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"

	"github.com/llpatch/llpatch/internal/download"
	"github.com/llpatch/llpatch/internal/regular"
)

// host is a GitHub, or a Gitea, whose interface for releases is the same but where it says so.
type host struct {
	c           *github.Client
	http        *http.Client
	token       string
	web         *url.URL // the repository's page
	homes       []string // scheme and host of the addresses that the token is for
	owner, repo string
	gitea       bool
	quiet       time.Duration // how long an answer may take, but to an upload
	pause       time.Duration // before the first further attempt; it doubles
	head, tree  string        // of the index as it was read: a commit and its tree, or Gitea's name of the file
}

// Tokens are what hosts know a user by. They are never written anywhere.
type Tokens struct{ GitHub, Enterprise, Gitea string }

// Limits of what is waited for.
const (
	attempts = 4
	stall    = 5 * time.Minute  // a host may take long to hash what it got
	quiet    = 30 * time.Second // without a word to anything else
	patience = 2 * time.Minute  // longer, a rate limit ends it
)

// nameRE is what owners and repositories are called.
var nameRE = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// BadPlace says that nothing can be published at an address.
type BadPlace struct{ Why string }

// Error says why.
func (e *BadPlace) Error() string { return "--to: " + e.Why }

// ExitCode is exit.Usage.
func (e *BadPlace) ExitCode() int { return 2 }

// try does one thing, again where the host or the way to it failed and that may pass. before,
// which may be nil, looks what a failed attempt left, and reports whether it was enough.
func (h *host) try(ctx context.Context, before func() (bool, error), do func(context.Context) error) error {
	pause := h.pause
	for n := 1; ; n++ {
		err := do(ctx)
		if err == nil {
			return nil
		}
		wait, again := retry(err, pause)
		if ctx.Err() != nil || !again || n == attempts || wait > patience {
			return h.refused(ctx, err, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause *= 2
		if before != nil {
			if done, err := before(); done || err != nil {
				return err
			}
		}
	}
}

// retry says whether trying again may help, and after how long.
func retry(err error, pause time.Duration) (time.Duration, bool) {
	if limit := new(github.RateLimitError); errors.As(err, &limit) {
		return max(time.Until(limit.Rate.Reset.Time)+time.Second, 0), true
	}
	if limit := new(github.AbuseRateLimitError); errors.As(err, &limit) {
		return max(limit.GetRetryAfter(), pause), true
	}
	if said := new(github.ErrorResponse); errors.As(err, &said) {
		code := said.Response.StatusCode
		return pause, code >= 500 || code == http.StatusTooManyRequests || doubled(err)
	}
	if disk := new(final); errors.As(err, &disk) {
		return 0, false
	}
	return pause, true // the connection
}

// doubled reports whether a host refused a file since it has one by that name: a first attempt
// may have arrived without an answer.
func doubled(err error) bool {
	said := new(github.ErrorResponse)
	if !errors.As(err, &said) || said.Response.StatusCode != http.StatusUnprocessableEntity {
		return false
	}
	for _, e := range said.Errors {
		if e.Code == "already_exists" {
			return true
		}
	}
	return false
}

// refused puts a host's answer into words.
func (h *host) refused(ctx context.Context, err error, wait time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if disk := new(final); errors.As(err, &disk) {
		return disk.error
	}
	next := "run the same command again: it goes on where it stopped"
	said := new(github.ErrorResponse)
	switch {
	case wait > patience:
		return refuse(h.web.String(), next+", after "+time.Now().Add(wait).Format(time.TimeOnly),
			"it takes no more requests for %v", wait.Round(time.Second))
	case errors.As(err, &said):
		text := cmp.Or(said.Message, said.Response.Status)
		for _, e := range said.Errors {
			text += "; " + strings.TrimSpace(e.Field+" "+cmp.Or(e.Message, e.Code))
		}
		switch said.Response.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
			next = "look whether the repository is there and the token may write to its contents and releases"
		}
		return &Refused{h.web.String(), fmt.Errorf("it answers %d: %s", said.Response.StatusCode, h.shown(text)), next, err}
	}
	return &Refused{h.web.String(), download.Cause(ctx, err), next, err}
}

// look is the release by that name, a draft among them, and the names of all that are public.
func (h *host) look(ctx context.Context, name string) (held Held, public []string, err error) {
	err = h.try(ctx, nil, func(ctx context.Context) error {
		held, public = Held{Name: name, files: map[string]asset{}}, nil
		for n, page := 0, 1; page != 0; n++ {
			if n == maxPages {
				return errEndless
			}
			all, resp, err := h.c.Repositories.ListReleases(ctx, h.owner, h.repo, &github.ListOptions{Page: page, PerPage: 50})
			if err != nil {
				return err
			}
			for _, r := range all {
				if !r.GetDraft() {
					public = append(public, r.GetTagName())
				}
				if r.GetTagName() == name && (!held.There || !r.GetDraft()) {
					held.There, held.Public, held.id, held.Text = true, !r.GetDraft(), r.GetID(), r.GetBody()
				}
			}
			page = resp.NextPage
		}
		if !held.There {
			return nil
		}
		return h.assets(ctx, held)
	})
	return held, public, err
}

// assets fills in the files of a release.
func (h *host) assets(ctx context.Context, held Held) error {
	clear(held.files)
	for n, page := 0, 1; page != 0; n++ {
		if n == maxPages {
			return errEndless
		}
		all, resp, err := h.c.Repositories.ListReleaseAssets(ctx, h.owner, h.repo, held.id,
			&github.ListOptions{Page: page, PerPage: 50})
		if err != nil {
			return err
		}
		for _, a := range all {
			sum, _ := strings.CutPrefix(a.GetDigest(), "sha256:")
			held.files[a.GetName()] = asset{
				id: a.GetID(), bytes: int64(a.GetSize()), sha256: sum, at: cmp.Or(a.GetURL(), a.GetBrowserDownloadURL()),
				whole: h.gitea || a.GetState() == "uploaded", // GitHub keeps what was cut as a "starter"
			}
		}
		page = resp.NextPage
	}
	return nil
}

func (h *host) begin(ctx context.Context, name string) (held Held, err error) {
	again := func() (done bool, err error) {
		held, _, err = h.look(ctx, name)
		return held.There, err
	}
	err = h.try(ctx, again, func(ctx context.Context) error {
		r, _, err := h.c.Repositories.CreateRelease(ctx, h.owner, h.repo,
			&github.RepositoryRelease{TagName: &name, Name: &name, Draft: github.Ptr(true)})
		if err == nil {
			held = Held{Name: name, There: true, id: r.GetID(), files: map[string]asset{}}
		}
		return err
	})
	return held, err
}

func (h *host) put(ctx context.Context, held Held, f file, seen func(int64)) error {
	clean := func() (done bool, err error) {
		err = h.try(ctx, nil, func(ctx context.Context) error { return h.assets(ctx, held) })
		if a, there := held.files[f.name]; there && err == nil {
			if a.whole && a.bytes == f.bytes {
				sum, err := h.sum(ctx, held, f.name)
				if err != nil || sum == f.sha256 {
					return err == nil, err
				}
			}
			err = h.remove(ctx, held, f.name)
		}
		return false, err
	}
	if _, there := held.files[f.name]; there {
		if done, err := clean(); done || err != nil {
			return err
		}
	}
	return h.try(ctx, clean, func(ctx context.Context) error {
		r, err := regular.Open(f.path)
		if err != nil {
			return &final{err}
		}
		defer func() { _ = r.Close() }() // only read from
		ctx, watch := download.NewWatch(ctx, stall)
		defer watch.Stop()
		where := fmt.Sprintf("repos/%s/%s/releases/%d/assets?name=%s", h.owner, h.repo, held.id, url.QueryEscape(f.name))
		body := watch.Reader(io.LimitReader(r, f.bytes), seen)
		req, err := h.c.NewUploadRequest(ctx, where, io.NopCloser(body), f.bytes, octets)
		if err != nil {
			return err
		}
		a := new(github.ReleaseAsset)
		if _, err := h.c.Do(req, a); err != nil {
			return watch.Explain(err)
		}
		if a.GetName() != f.name {
			return &final{refuse(h.web.String(), "give the release folder's files plain names", "it took %s under the name %s",
				f.name, a.GetName())}
		}
		return nil
	})
}

func (h *host) sum(ctx context.Context, held Held, name string) (sum string, err error) {
	a := held.files[name]
	if a.sha256 != "" {
		return a.sha256, nil
	}
	if at, err := url.Parse(a.at); err != nil || !h.owns(at) {
		return "", refuse(h.web.String(), "give its address as the host itself does",
			"it gives files under another host, which the token is not sent to")
	}
	err = h.try(ctx, nil, func(ctx context.Context) error {
		ctx, watch := download.NewWatch(ctx, stall)
		defer watch.Stop()
		req, err := h.c.NewRequest(ctx, http.MethodGet, a.at, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", octets)
		resp, err := h.http.Do(req)
		if err != nil {
			return watch.Explain(err)
		}
		defer func() { _ = resp.Body.Close() }() // read below
		if err := github.CheckResponse(resp); err != nil {
			return err
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, watch.Reader(resp.Body, func(int64) {})); err != nil {
			return watch.Explain(err)
		}
		sum = hex.EncodeToString(hash.Sum(nil))
		return nil
	})
	return sum, err
}

func (h *host) remove(ctx context.Context, held Held, name string) error {
	where := fmt.Sprintf("repos/%s/%s/releases/assets/%d", h.owner, h.repo, held.files[name].id)
	if h.gitea {
		where = fmt.Sprintf("repos/%s/%s/releases/%d/assets/%d", h.owner, h.repo, held.id, held.files[name].id)
	}
	return h.try(ctx, nil, func(ctx context.Context) error {
		req, err := h.c.NewRequest(ctx, http.MethodDelete, where, nil)
		if err == nil {
			_, err = h.c.Do(req, nil)
		}
		if said := new(github.ErrorResponse); errors.As(err, &said) && said.Response.StatusCode == http.StatusNotFound {
			return nil // an attempt before did it
		}
		return err
	})
}

func (h *host) show(ctx context.Context, held Held, p Page) error {
	return h.edit(ctx, held, &github.RepositoryRelease{
		TagName: &held.Name, Name: &p.Title, Body: &p.Text,
		Draft: github.Ptr(false),
	})
}

func (h *host) mark(ctx context.Context, held Held, p Page) error {
	return h.edit(ctx, held, &github.RepositoryRelease{
		TagName: &held.Name, Name: &p.Title, Body: &p.Text,
		Prerelease: &p.Withdrawn,
	})
}

func (h *host) edit(ctx context.Context, held Held, r *github.RepositoryRelease) error {
	return h.try(ctx, nil, func(ctx context.Context) error {
		_, _, err := h.c.Repositories.EditRelease(ctx, h.owner, h.repo, held.id, r)
		return err
	})
}

func (h *host) url(release, name string) string {
	return h.web.String() + "/releases/download/" + url.PathEscape(release) + "/" + url.PathEscape(name)
}

func (h *host) page(release string) string {
	return h.web.String() + "/releases/tag/" + url.PathEscape(release)
}
