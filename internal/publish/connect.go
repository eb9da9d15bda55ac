package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"

	"github.com/llpatch/llpatch/internal/download"
)

// Open finds the place that to names: the page of a repository on GitHub or on a Gitea, or a
// folder, by its path or as file://, which it makes where it is not there, but for a place that
// must exist, as one with something to withdraw. The error is a *BadPlace, a *Refused, or one of a folder.
func Open(ctx context.Context, to string, t Tokens, exists bool) (Place, error) {
	scheme, _, hasScheme := strings.Cut(to, "://")
	if !hasScheme {
		if likeHost(to) {
			return nil, &BadPlace{to + " looks like an address: begin it with https://, or a folder with ./"}
		}
		return openFolder(ctx, to, exists)
	}
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return nil, &BadPlace{"it is no address"} // the cause may have a password in it
	case u.User != nil:
		return nil, &BadPlace{"an address with a user or a password is not taken: the token comes from the environment"}
	case scheme == "file" && (u.RawQuery != "" || u.Fragment != "" || u.Path == ""):
		return nil, &BadPlace{"file:// takes a path; write # as %23 and ? as %3F"}
	case scheme == "file" && (u.Host == "" || u.Host == "localhost"):
		return openFolder(ctx, u.Path, exists)
	case scheme == "http" && !loopback(u.Hostname()):
		return nil, &BadPlace{"http would show the token to everybody on the way: take https"}
	case scheme != "https" && scheme != "http":
		return nil, &BadPlace{fmt.Sprintf("%s:// is not known; https://HOST/OWNER/REPO, file:///DIR and a folder are",
			scheme)}
	}
	u.RawQuery, u.Fragment = "", ""
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), ".git")
	parts := strings.Split(u.Path, "/")
	if len(parts) < 3 || !nameRE.MatchString(parts[len(parts)-1]) || !nameRE.MatchString(parts[len(parts)-2]) {
		return nil, &BadPlace{"it is https://HOST/OWNER/REPO, the page of a repository"}
	}
	h := &host{web: u, owner: parts[len(parts)-2], repo: parts[len(parts)-1], quiet: quiet, pause: time.Second}
	h.http = &http.Client{Transport: withToken{h}}
	base := *u
	base.Path = strings.Join(parts[:len(parts)-2], "/")
	return h, h.connect(ctx, base.String(), t)
}

// connect finds out what kind of host it is, without a token, and takes the one for it.
func (h *host) connect(ctx context.Context, base string, t Tokens) (err error) {
	var variable string
	var opts []github.ClientOptionsFunc
	switch {
	case base == "https://github.com":
		h.token, variable = t.GitHub, "GITHUB_TOKEN"
	default:
		notGitea := h.answers(ctx, base+"/api/v1/version", "version")
		if notGitea == nil {
			h.gitea, h.token, variable = true, t.Gitea, "GITEA_TOKEN"
			api := base + "/api/v1/"
			opts = append(opts, github.WithURLs(&api, &api))
			break
		}
		notGitHub := h.answers(ctx, base+"/api/v3/meta", "")
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if notGitHub != nil {
			return refuse(h.web.String(), "look whether the address is right and the host can be reached",
				"it answers neither as Gitea (%s) nor as GitHub (%s)", h.shown(notGitea.Error()), h.shown(notGitHub.Error()))
		}
		h.token, variable = t.Enterprise, "GH_ENTERPRISE_TOKEN"
		opts = append(opts, github.WithEnterpriseURLs(base+"/", base+"/"))
	}
	if h.token == "" {
		return refuse(h.web.String(), "put a token that may write to the repository into "+variable, "there is no token")
	}
	h.c, err = github.NewClient(append(opts,
		github.WithHTTPClient(&http.Client{Transport: withToken{h}, CheckRedirect: h.stay}),
		github.WithUserAgent("llpatch"))...)
	if err != nil {
		return err
	}
	for _, home := range []string{h.web.String(), h.c.BaseURL(), h.c.UploadURL()} {
		u, err := url.Parse(home)
		if err != nil {
			return err
		}
		h.homes = append(h.homes, u.Scheme+"://"+u.Host)
	}
	return nil
}

// answers says why an address, asked without a token, does not give an object of JSON with a key; nil: it does.
func (h *host) answers(ctx context.Context, address, key string) error {
	ctx, cancel := context.WithTimeout(ctx, h.quiet)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return download.Cause(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	var object map[string]json.RawMessage
	err = json.NewDecoder(resp.Body).Decode(&object)
	if err != nil || key != "" && object[key] == nil {
		return fmt.Errorf("%s: another answer than its", address)
	}
	return nil
}
