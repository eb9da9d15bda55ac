package source

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// A look tells what a fetch would meet, and fetches nothing.
func TestLooks(t *testing.T) {
	u := newUpstream(t)
	gitURL := gitServer(t, filepath.Join(u.dir, ".git"), nil)
	reg := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/llama/1.0.0" {
			_, _ = w.Write([]byte(`{"dist":{"tarball":"x","integrity":"sha512-x"}}`))
			return
		}
		http.NotFound(w, r)
	}))
	defer reg.Close()
	t.Setenv("npm_config_registry", reg.URL)
	o, _ := options(t, u.lock)
	o.Sources = []spec.Source{
		{Name: "web", Upstream: "llama.cpp", Kind: "git", URL: gitURL},
		{Name: "other", Upstream: "ik_llama.cpp", Kind: "git", URL: gitURL},
		{Name: "clone", Upstream: "llama.cpp", Kind: "git", URL: u.dir},
		{Name: "gone", Upstream: "llama.cpp", Kind: "git", URL: filepath.Join(u.dir, "gone")},
		{
			Name: "npm", Upstream: "llama.cpp", Kind: "bundle", NPM: "llama", File: "x",
			Tags: map[string]string{"b101": "1.0.0"},
		},
		{Name: "tarball", Upstream: "llama.cpp", Kind: "archive", URL: reg.URL + "/{tag}.tar.gz"},
		{Name: "down", Upstream: "llama.cpp", Kind: "git", URL: "http://127.0.0.1:1/x.git"},
	}
	type want struct {
		here, asked bool
		err         string // "": it serves
	}
	no := "it has no such tag"
	for name, c := range map[string]struct {
		tag     string
		offline bool
		want    map[string]want
	}{
		"any": {"", false, map[string]want{
			"web": {false, true, ""}, "clone": {true, true, ""}, "gone": {true, true, "nothing is there"},
			"npm":     {false, true, ""},
			"tarball": {false, true, ""}, "down": {false, true, "connection refused"},
		}},
		"a tag": {"b101", false, map[string]want{
			"web": {false, true, ""}, "clone": {true, true, ""}, "gone": {true, true, "nothing is there"},
			"npm":     {false, true, ""},
			"tarball": {false, true, "404"}, "down": {false, true, "connection refused"},
		}},
		"another tag": {"b999", false, map[string]want{
			"web": {false, true, no}, "clone": {true, true, no}, "gone": {true, true, "nothing is there"},
			"npm":     {false, true, no},
			"tarball": {false, true, "404"}, "down": {false, true, "connection refused"},
		}},
		"offline": {"b101", true, map[string]want{
			"web": {false, false, ""}, "clone": {true, true, ""}, "gone": {true, true, "nothing is there"},
			"npm":     {false, false, ""},
			"tarball": {false, false, ""}, "down": {false, false, ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Offline = c.offline
			var asked *tag.Tag
			if c.tag != "" {
				b := tag.MustParse(c.tag)
				asked = &b
			}
			looks, nearest, err := Looks(t.Context(), o, "llama.cpp", asked)
			if got := strings.Join(nearest, " "); c.tag == "b999" && got != "b103 b102 b101" {
				t.Errorf("nearest: %s", got)
			}
			if err != nil || len(looks) != len(c.want) {
				t.Fatalf("%d looks, %v", len(looks), err)
			}
			for _, l := range looks {
				w := c.want[l.Source]
				if l.Here != w.here || l.Asked != w.asked || (l.Err == nil) != (w.err == "") || l.Err != nil &&
					!strings.Contains(l.Err.Error(), w.err) {
					t.Errorf("%+v, want %+v", l, w)
				}
			}
		})
	}
	if entries, err := os.ReadDir(o.Cache); err == nil && len(entries) > 0 {
		t.Errorf("looking wrote %v", entries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Looks(ctx, o, "llama.cpp", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCached(t *testing.T) {
	u := newUpstream(t)
	o, _ := options(t, u.lock)
	o.Sources = []spec.Source{{
		Name: "web", Upstream: "llama.cpp", Kind: "git",
		URL: gitServer(t, filepath.Join(u.dir, ".git"), nil),
	}}
	if got := Cached(o, "llama.cpp"); len(got) > 0 {
		t.Errorf("an empty cache holds %v", got)
	}
	mustFetch(t, o, "b102")
	mustFetch(t, o, "b101")
	if got := strings.Join(Cached(o, "llama.cpp"), " "); got != "b101 b102" {
		t.Errorf("cached %s", got)
	}
	for _, name := range []string{"b1000", "b99"} {
		o.Lock["llama.cpp"][name] = spec.Pin{Tree: u.tree("b101")}
	}
	if got := strings.Join(Cached(o, "llama.cpp"), " "); got != "b99 b101 b102 b1000" {
		t.Errorf("cached %s", got)
	}
}
