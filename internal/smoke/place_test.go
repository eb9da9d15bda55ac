package smoke

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/llpatch/llpatch/internal/memory"
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
		"host": {
			nil,
			[]spec.Check{version, on("host", version)},
			[]string{"host", "host"},
			[]Verdict{Passed, Passed},
			Passed,
		},
		"no card": {
			nil,
			[]spec.Check{version, on("card", version)},
			[]string{"host", "card"},
			[]Verdict{Passed, Skipped},
			Passed,
		},
		"only a card": {nil, []spec.Check{on("card", version)}, []string{"card"}, []Verdict{Skipped}, Errored},
		"a card": {func(o *Options) {
			o.Card = "RTX 3060"
		}, []spec.Check{version, on("card", version)}, []string{"host", "card"}, []Verdict{Passed, Passed}, Passed},
		"for a card": {func(o *Options) {
			o.Device, o.Card = spec.Card, "RTX 3060"
		}, []spec.Check{version}, []string{"card"}, []Verdict{Passed}, Passed},
		"for a card that is not there": {
			func(o *Options) { o.Device = spec.Card },
			[]spec.Check{version, on("host", version)},
			[]string{"card", "host"},
			[]Verdict{Errored, Passed},
			Errored,
		},
		"no simulation": {
			nil,
			[]spec.Check{version, on("sim", version)},
			[]string{"host", "simulated device"},
			[]Verdict{Passed, Errored},
			Errored,
		},
		"a simulation": {
			func(o *Options) { o.SimEnv = []string{"FAKE=other version"} },
			[]spec.Check{version, on("sim", version)},
			[]string{"host", "simulated device"},
			[]Verdict{Passed, Failed},
			Failed,
		},
		"for a simulation that is not there": {
			func(o *Options) { o.Device = spec.Sim },
			[]spec.Check{version},
			[]string{"simulated device"},
			[]Verdict{Errored},
			Errored,
		},
		"a card that is not used": {
			func(o *Options) { o.Card = "RTX 3060"; o.Env = append(o.Env, "FAKE=no device") },
			[]spec.Check{check("health"), on("card", check("health")), on("card", version)},
			[]string{"host", "card", "card"},
			[]Verdict{Passed, Errored, Errored},
			Errored,
		},
		"for a simulation": {
			func(o *Options) { o.Device, o.Env = spec.Sim, append(o.Env, "LLPATCH_SIM_CC=8.6") },
			[]spec.Check{version, on("host", version), check("same-tokens"), check("tool-perplexity")},
			[]string{"simulated device", "host", "simulated device", "simulated device"},
			[]Verdict{Passed, Errored, Errored, Errored},
			Errored,
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
	o.Card, o.Driver, o.CardEnv = "RTX 3060", "474.11", []string{"FAKE=quiet"}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if md := r.Markdown(); !strings.Contains(md, "- card: RTX 3060\n- driver: 474.11\n") {
		t.Errorf("the report names no card and driver:\n%s", md)
	}
	// The card's variables are for its checks alone.
	for i, quiet := range []bool{false, true} {
		log, err := os.ReadFile(r.Servers[i].Log)
		if err != nil || strings.Contains(string(log), "loaded CPU backend") == quiet {
			t.Errorf("server %d: %v\n%s", i+1, err, log)
		}
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

// Device memory is judged where a check runs on a device, and only there.
func TestVRAMGrowth(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	probe := memory.Poll("card", func(_ context.Context, watched []int) (memory.Reading, error) {
		r := memory.Reading{Used: 100 << 20, Total: 12 << 30, Cards: 1}
		if len(watched) > 0 {
			r.Used += looks.Add(1) << 20
		}
		return r, nil
	})
	long := check("request-loop", "requests", int64(200))
	o := options(t, "takes its time", long, on("card", long))
	o.Card, o.Probe, o.ProbeName = "RTX 3060", probe, "a card"
	r, err := Run(t.Context(), o)
	var failed *FailedChecks
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	host, card := r.Checks[0], r.Checks[1]
	// What stands in for the server is a Go program, whose heap may still grow by a MiB:
	// then the host's memory is not told.
	if host.Verdict == Failed || strings.Contains(host.Detail, "VRAM") || card.Verdict != Failed ||
		card.Fault != FaultVRAMGrowth || !strings.Contains(card.Detail, "VRAM grows by") {
		t.Errorf("host: %s: %s\ncard: %s: %s (%s)", host.Verdict, host.Detail, card.Verdict, card.Detail, card.Fault)
	}
	if s := r.Servers[card.Growth.Server]; s.PeakVRAMKiB < 10<<10 || r.Servers[host.Growth.Server].PeakVRAMKiB != 0 {
		t.Errorf("peak VRAM %d KiB", s.PeakVRAMKiB)
	}
	page, err := r.doc().HTML()
	if err != nil || strings.Count(string(page), "<svg") != 3 {
		t.Errorf("%d charts, %v", strings.Count(string(page), "<svg"), err)
	}
}
