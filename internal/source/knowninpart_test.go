package source

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// TestKnownInPart: a version tag whose number is known, or bounds of it, can be had
// before its tree is pinned, and what is known of it must be so.
func TestKnownInPart(t *testing.T) {
	u := newUpstream(t)
	git(t, u.dir, "tag", "v1.0.0", "b102^{commit}")
	is := u.pin(t, "v1.0.0", 2)
	shallow := t.TempDir()
	git(t, shallow, "clone", "-q", "--depth", "1", "--branch", "v1.0.0", "file://"+u.dir, ".")
	server := gitServer(t, u.dir, nil)
	for name, c := range map[string]struct {
		known spec.Pin
		from  string
		want  string // the number, or the error
	}{
		"number":                    {spec.Pin{Build: 2}, u.dir, "2"},
		"another number":            {spec.Pin{Build: 5}, u.dir, "v1.0.0 is build 2 here, and recipes/tags.lock says 5"},
		"bounds":                    {spec.Pin{Build: 1, Max: 3}, u.dir, "2"},
		"other bounds":              {spec.Pin{Build: 3, Max: 4}, u.dir, "recipes/tags.lock says 3 to 4"},
		"bounds, nothing to count":  {spec.Pin{Build: 1, Max: 3}, shallow, "1 to 3"},
		"number, nothing to count":  {spec.Pin{Build: 7}, shallow, "7"},
		"number, from a server":     {spec.Pin{Build: 7}, server, "7"},
		"commit":                    {spec.Pin{Build: 2, Commit: is.Commit}, u.dir, "2"},
		"commit, from a server":     {spec.Pin{Build: 2, Commit: is.Commit}, server, "2"},
		"other commit":              {spec.Pin{Build: 2, Commit: strings.Repeat("e", 40)}, u.dir, "commit"},
		"other commit, of a server": {spec.Pin{Build: 2, Commit: strings.Repeat("e", 40)}, server, "commit"},
		"nothing, from a server":    {spec.Pin{}, server, "cannot be counted"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options(t, spec.Lock{spec.LlamaCpp: {"v1.0.0": c.known}})
			o.Override = c.from
			var recorded spec.Pin
			o.Record = func(_ string, _ tag.Tag, p spec.Pin) error { recorded = p; return nil }
			tree, err := fetch(t, o, "v1.0.0")
			if err != nil {
				wantErr(t, err, c.want)
				return
			}
			if got := tree.Pin; got.Number() != c.want || got.Tree != is.Tree || got.Commit != is.Commit || recorded != got {
				t.Errorf("pin %+v, recorded %+v, want number %s", got, recorded, c.want)
			}
			// Offline the cache remembers it, unless what is known of the tag is another thing now.
			if o.Offline, o.Override = true, ""; c.from == server {
				if again, err := fetch(t, o, "v1.0.0"); err != nil || again.Pin != tree.Pin {
					t.Errorf("offline: %v", err)
				}
				o.Lock[spec.LlamaCpp]["v1.0.0"] = spec.Pin{Build: 9}
				if _, err := fetch(t, o, "v1.0.0"); err == nil {
					t.Error("offline it is the build that the cache remembers, and the lock says another")
				}
			}
			o.Locked = true
			if _, err := fetch(t, o, "v1.0.0"); err == nil {
				t.Error("--locked takes a tag whose tree is not pinned")
			}
		})
	}
}
