package spec

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/tag"
)

// A commit that a tag pins is that tag; of several, the one with a build's name.
func TestNamed(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	lock := Lock{
		LlamaCpp: {
			"b100": {Commit: a}, "v0.1.0": {Commit: a}, a: {Commit: a}, "v0.2.0": {Commit: b},
			"v0.10.0": {Commit: b}, "v0.0.1": {}, c: {Commit: c},
		},
		IkLlamaCpp: {"b7": {Commit: c}},
	}
	for name, want := range map[string]string{
		a: "b100", b: "v0.10.0", c: c, "b200": "b200", "v0.2.0": "v0.2.0",
		strings.Repeat("d", 40): strings.Repeat("d", 40),
	} {
		if got := lock.Named(LlamaCpp, tag.MustParse(name)); got.String() != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
