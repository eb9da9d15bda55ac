package publish

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const token = "secret-token-of-this-test"

// gitHub is a GitHub of one's own, as its documentation describes it: drafts that only a token
// sees, uploads under another address, a digest of what arrived, 422 for a doubled name, and a
// "starter" where an upload was cut. Source: docs.github.com, REST API, version 2022-11-28.
type gitHub struct {
	t *testing.T
	*httptest.Server
	objects *httptest.Server // where assets come from, which no token is for

	mu       sync.Mutex
	last     int64
	releases []*ghRelease
	commits  map[string]ghCommit
	trees    map[string]map[string]string
	head     string
	noDigest bool
	fault    func(r *http.Request) string // for a request: 500, cut, lost, limit, damage
	seen     []string
}

type ghRelease struct {
	ID         int64      `json:"id"`
	TagName    string     `json:"tag_name"`
	Name       string     `json:"name"`
	Body       string     `json:"body"`
	Draft      bool       `json:"draft"`
	Prerelease bool       `json:"prerelease"`
	Assets     []*ghAsset `json:"assets"`
}

type ghAsset struct {
	ID     int64  `json:"id"`
	URL    string `json:"url"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Size   int    `json:"size"`
	Digest string `json:"digest,omitempty"`
	data   []byte
}

type ghCommit struct {
	SHA     string `json:"sha"`
	Tree    ghSHA  `json:"tree"`
	parents []string
}

type ghSHA struct {
	SHA string `json:"sha"`
}

func newGitHub(t *testing.T) *gitHub {
	g := &gitHub{t: t, commits: map[string]ghCommit{}, trees: map[string]map[string]string{}}
	mux := http.NewServeMux()
	const api, up = "/api/v3/repos/o/r/", "/api/uploads/repos/o/r/"
	mux.HandleFunc("GET /api/v3/meta", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("it is asked who it is with a token")
		}
		_, _ = io.WriteString(w, "{}")
	})
	for pattern, f := range map[string]func(w http.ResponseWriter, r *http.Request){
		"GET " + api + "releases":        g.list,
		"POST " + api + "releases":       g.create,
		"PATCH " + api + "releases/{id}": g.edit,
		"GET " + api + "releases/{id}/{of}": func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") != "assets" {
				g.listAssets(w, r)
				return
			}
			r.SetPathValue("id", r.PathValue("of"))
			g.download(w, r)
		},
		"POST " + up + "releases/{id}/assets":           g.upload,
		"DELETE " + api + "releases/assets/{id}":        g.deleteAsset,
		"GET " + api + "git/ref/heads/llpatch-index":    g.getRef,
		"GET " + api + "git/commits/{sha}":              g.getCommit,
		"POST " + api + "git/trees":                     g.createTree,
		"POST " + api + "git/commits":                   g.createCommit,
		"POST " + api + "git/refs":                      g.createRef,
		"PATCH " + api + "git/refs/heads/llpatch-index": g.updateRef,
		"GET " + api + "contents/" + indexFile:          g.contents,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.seen = append(g.seen, r.Method+" "+r.URL.Path)
			if r.Header.Get("Authorization") != "Bearer "+token {
				g.fail(w, http.StatusUnauthorized, "Bad credentials")
				return
			}
			fault := ""
			if g.fault != nil {
				fault = g.fault(r)
			}
			switch fault {
			case "500":
				g.fail(w, http.StatusBadGateway, "Server Error")
			case "limit":
				w.Header().Set("X-Ratelimit-Limit", "60")
				w.Header().Set("X-Ratelimit-Remaining", "0")
				w.Header().Set("X-Ratelimit-Reset", strconv.FormatInt(time.Now().Unix(), 10))
				g.fail(w, http.StatusForbidden, "API rate limit exceeded")
			case "away": // to a host that no token is for
				http.Redirect(w, r, g.objects.URL+r.URL.Path, http.StatusTemporaryRedirect)
			case "echo":
				g.fail(w, http.StatusUnauthorized, "Bad credentials: "+r.Header.Get("Authorization")+
					strings.Repeat(" and so on", 100))
			case "secondary":
				w.Header().Set("Retry-After", "3600")
				g.fail(w, http.StatusForbidden, "You have exceeded a secondary rate limit")
			case "cut": // the connection ends in the middle, and a starter stays
				rel := g.release(r)
				_, _ = io.CopyN(io.Discard, r.Body, 100)
				rel.Assets = append(rel.Assets, &ghAsset{ID: g.next(), Name: r.URL.Query().Get("name"), State: "starter"})
				panic(http.ErrAbortHandler)
			case "lost": // all arrives, and the answer does not
				f(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			default:
				f(w, r)
				if fault == "damage" {
					a := g.releases[0].Assets[len(g.releases[0].Assets)-1]
					a.data[0] ^= 1
					a.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(a.data))
				}
			}
		})
	}
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Server.Close)
	g.objects = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went to another host")
		}
		id, _ := strconv.ParseInt(r.URL.Path[1:], 10, 64)
		for _, rel := range g.releases {
			for _, a := range rel.Assets {
				if a.ID == id {
					_, _ = w.Write(a.data)
				}
			}
		}
	}))
	t.Cleanup(g.objects.Close)
	return g
}

func (g *gitHub) next() int64 { g.last++; return g.last }

func (g *gitHub) fail(w http.ResponseWriter, code int, text string, codes ...string) {
	var errs []map[string]string
	for _, c := range codes {
		errs = append(errs, map[string]string{"resource": "ReleaseAsset", "code": c, "field": "name"})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	about := ""
	if strings.Contains(text, "secondary") {
		about = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"message": text, "errors": errs, "documentation_url": about})
}

func (g *gitHub) answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func (g *gitHub) take(r *http.Request, v any) {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		g.t.Errorf("%s: %v", r.URL, err)
	}
}

func (g *gitHub) release(r *http.Request) *ghRelease {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if r.PathValue("id") == "" {
		id, _ = strconv.ParseInt(strings.Split(r.URL.Path, "/")[7], 10, 64)
	}
	for _, rel := range g.releases {
		if rel.ID == id {
			return rel
		}
	}
	g.t.Errorf("%s: no such release", r.URL)
	return &ghRelease{}
}

// list gives one release a page, so that pages are turned.
func (g *gitHub) list(w http.ResponseWriter, r *http.Request) {
	page := max(1, must[int](g.t)(strconv.Atoi(r.URL.Query().Get("page"))))
	if page < len(g.releases) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=%d>; rel="next"`, g.URL, r.URL.Path, page+1))
	}
	g.answer(w, 200, g.releases[min(page-1, len(g.releases)):min(page, len(g.releases))])
}

func (g *gitHub) create(w http.ResponseWriter, r *http.Request) {
	rel := &ghRelease{ID: g.next()}
	g.take(r, rel)
	if !rel.Draft {
		g.t.Error("a release is made that is no draft")
	}
	g.releases = append(g.releases, rel)
	g.answer(w, 201, rel)
}

func (g *gitHub) edit(w http.ResponseWriter, r *http.Request) {
	rel := g.release(r)
	before := *rel
	g.take(r, rel)
	for _, a := range rel.Assets {
		if before.Draft && !rel.Draft && a.State != "uploaded" {
			g.t.Errorf("published with %s, which is no whole file", a.Name)
		}
	}
	g.answer(w, 200, rel)
}

func (g *gitHub) listAssets(w http.ResponseWriter, r *http.Request) {
	g.answer(w, 200, g.release(r).Assets)
}

func (g *gitHub) upload(w http.ResponseWriter, r *http.Request) {
	rel, name := g.release(r), r.URL.Query().Get("name")
	if !rel.Draft {
		g.t.Errorf("%s is sent to a published release", name)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if slices.ContainsFunc(rel.Assets, func(a *ghAsset) bool { return a.Name == name }) {
		g.fail(w, http.StatusUnprocessableEntity, "Validation Failed", "already_exists")
		return
	}
	a := &ghAsset{ID: g.next(), Name: name, State: "uploaded", Size: len(data), data: data}
	a.URL = fmt.Sprintf("%s/api/v3/repos/o/r/releases/assets/%d", g.URL, a.ID)
	if !g.noDigest {
		a.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	}
	rel.Assets = append(rel.Assets, a)
	g.answer(w, 201, a)
}

func (g *gitHub) deleteAsset(w http.ResponseWriter, r *http.Request) {
	for _, rel := range g.releases {
		rel.Assets = slices.DeleteFunc(rel.Assets, func(a *ghAsset) bool {
			is := strconv.FormatInt(a.ID, 10) == r.PathValue("id")
			if is && !rel.Draft {
				g.t.Errorf("%s of a published release is deleted", a.Name)
			}
			return is
		})
	}
	w.WriteHeader(http.StatusNoContent)
}

func (g *gitHub) download(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Accept") != "application/octet-stream" {
		g.t.Error("the description of an asset was asked for")
	}
	http.Redirect(w, r, g.objects.URL+"/"+r.PathValue("id"), http.StatusFound)
}

func (g *gitHub) getRef(w http.ResponseWriter, _ *http.Request) {
	if g.head == "" {
		g.fail(w, http.StatusNotFound, "Not Found")
		return
	}
	g.answer(w, 200, map[string]any{"ref": "refs/heads/llpatch-index", "object": ghSHA{g.head}})
}

func (g *gitHub) getCommit(w http.ResponseWriter, r *http.Request) {
	g.answer(w, 200, g.commits[r.PathValue("sha")])
}

func (g *gitHub) createTree(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Base string `json:"base_tree"`
		Tree []struct{ Path, Mode, Type, Content string }
	}
	g.take(r, &in)
	files := map[string]string{}
	for name, text := range g.trees[in.Base] {
		files[name] = text
	}
	for _, e := range in.Tree {
		files[e.Path] = e.Content
	}
	sha := fmt.Sprintf("%040d", g.next())
	g.trees[sha] = files
	g.answer(w, 201, ghSHA{sha})
}

func (g *gitHub) createCommit(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tree    string
		Parents []string
	}
	g.take(r, &in)
	c := ghCommit{SHA: fmt.Sprintf("%040d", g.next()), Tree: ghSHA{in.Tree}, parents: in.Parents}
	g.commits[c.SHA] = c
	g.answer(w, 201, c)
}

func (g *gitHub) createRef(w http.ResponseWriter, r *http.Request) {
	var in ghSHA
	g.take(r, &in)
	if g.head != "" {
		g.fail(w, http.StatusUnprocessableEntity, "Reference already exists")
		return
	}
	g.head = in.SHA
	g.answer(w, 201, map[string]any{"object": in})
}

func (g *gitHub) updateRef(w http.ResponseWriter, r *http.Request) {
	var in struct {
		SHA   string
		Force bool
	}
	g.take(r, &in)
	if in.Force || !slices.Contains(g.commits[in.SHA].parents, g.head) {
		g.fail(w, http.StatusUnprocessableEntity, "Update is not a fast forward")
		return
	}
	g.head = in.SHA
	g.answer(w, 200, map[string]any{"object": in})
}

func (g *gitHub) contents(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, g.trees[g.commits[r.URL.Query().Get("ref")].Tree.SHA][indexFile])
}

// file is a file of the index branch.
func (g *gitHub) file(name string) string { return g.trees[g.commits[g.head].Tree.SHA][name] }
