package smoke

import (
	"errors"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

func on(device string, c spec.Check) spec.Check {
	c.Device = device
	return c
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	version := check("version")
	for name, tc := range map[string]struct {
		change  func(*Options)
		checks  []spec.Check
		places  []string
		verdict []Verdict
		whole   Verdict
	}{
		"host":        {nil, []spec.Check{version, on("host", version)}, []string{"host", "host"}, []Verdict{Passed, Passed}, Passed},
		"wine":        {func(o *Options) { o.Place = "wine" }, []spec.Check{version}, []string{"wine"}, []Verdict{Passed}, Passed},
		"no card":     {nil, []spec.Check{version, on("card", version)}, []string{"host", "card"}, []Verdict{Passed, Absent}, Passed},
		"only a card": {nil, []spec.Check{on("card", version)}, []string{"card"}, []Verdict{Absent}, NotJudged},
		"a card":      {func(o *Options) { o.Card = "RTX 3060, 474.11" }, []spec.Check{version, on("card", version)}, []string{"host", "card"}, []Verdict{Passed, Passed}, Passed},
		"for a card":  {func(o *Options) { o.Device = spec.Card }, []spec.Check{version}, []string{"card"}, []Verdict{Passed}, Passed},
		"no simulation": {
			nil, []spec.Check{version, on("sim", version)},
			[]string{"host", "simulated device"},
			[]Verdict{Passed, NotJudged}, NotJudged,
		},
		"a simulation": {
			func(o *Options) { o.SimEnv = []string{"FAKE=other version"} },
			[]spec.Check{version, on("sim", version)},
			[]string{"host", "simulated device"},
			[]Verdict{Passed, Wrong}, Wrong,
		},
		"for a simulation that is not there": {
			func(o *Options) { o.Device = spec.Sim }, []spec.Check{version},
			[]string{"simulated device"},
			[]Verdict{NotJudged}, NotJudged,
		},
		"a card that is not used": {
			func(o *Options) { o.Card = "RTX 3060"; o.Env = append(o.Env, "FAKE=no device") },
			[]spec.Check{check("health"), on("card", check("health"))},
			[]string{"host", "card"},
			[]Verdict{Passed, NotJudged}, NotJudged,
		},
		"for a simulation": {
			func(o *Options) { o.Device, o.Env = spec.Sim, append(o.Env, "LLPATCH_SIM_CC=8.6") },
			[]spec.Check{version, on("host", version), check("same-tokens"), check("tool-perplexity")},
			[]string{"simulated device", "host", "simulated device", "simulated device"},
			[]Verdict{Passed, NotJudged, NotJudged, NotJudged}, NotJudged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, "", tc.checks...)
			if tc.change != nil {
				tc.change(&o)
			}
			r, err := Run(t.Context(), o)
			for i, c := range r.Checks {
				if c.Place != tc.places[i] || c.Verdict != tc.verdict[i] || c.Verdict != Passed && c.Detail == "" {
					t.Errorf("check %d: %s at %s (%s); want %s at %s", i, c.Verdict, c.Place, c.Detail, tc.verdict[i], tc.places[i])
				}
			}
			if r.Verdict != tc.whole {
				t.Errorf("verdict %s (%v), want %s", r.Verdict, err, tc.whole)
			}
		})
	}
}

// A simulated device says nothing of values, and that is what the check says.
func TestSameTokensRefusedOnSimulation(t *testing.T) {
	t.Parallel()
	o := options(t, "", check("same-tokens"))
	o.Device, o.SimEnv, o.Stock = spec.Sim, []string{}, o.Bin
	r, err := Run(t.Context(), o)
	var not *NotRun
	if !errors.As(err, &not) || !strings.Contains(r.Checks[0].Detail, "computes no values") {
		t.Errorf("got %v", err)
	}
	if len(r.Servers) > 0 {
		t.Errorf("%d servers were started for it", len(r.Servers))
	}
}

// On a device the whole model goes there.
func TestLayers(t *testing.T) {
	t.Parallel()
	o := options(t, "", check("health"), on("card", check("health")))
	o.Card = "RTX 3060"
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Servers) != 2 {
		t.Fatalf("%d servers", len(r.Servers))
	}
	for i, want := range []string{"-ngl 0", "-ngl 999"} {
		if argv := strings.Join(r.Servers[i].Argv, " "); !strings.Contains(argv, want+" ") {
			t.Errorf("server %d lacks %s: %s", i+1, want, argv)
		}
	}
}
