package smoke

import (
	"os"
	"strings"
	"testing"
)

func TestRouter(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"":                  "a server of its own was started",
		"starts no child":   "Insufficient system resources",
		"answers by itself": "does not say that it is loaded",
		"router ends":       "the server has ended",
		"ignores sigterm":   "had to be killed",
		"other alias":       "does not know the alias",
		"health 404":        "/health",
	} {
		o := options(t, mode, check("router", "within", "1s"), check("health"))
		r, err := Run(t.Context(), o)
		if (err == nil) != (mode == "") || !strings.Contains(r.Checks[0].Detail, want) {
			t.Errorf("%q: %v: %+v, want %q", mode, err, r.Checks[0], want)
		}
		if got := r.Checks[0].Fault; (got == FaultRouterEnds) != (mode == "router ends") {
			t.Errorf("%q: the fault is called %q", mode, got)
		}
		left, err := os.ReadDir(o.Work)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range left {
			if strings.HasPrefix(f.Name(), "router-") {
				t.Errorf("%q: %s is left", mode, f.Name())
			}
		}
	}
}
