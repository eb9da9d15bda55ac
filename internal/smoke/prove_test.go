package smoke

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestProve(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		unpatched, patched string
		check              spec.Check
		fault              string
		verdict            Verdict
		want               string
	}{
		"proven": {"leaks", "takes its time", loop, FaultRSSGrowth, Passed, "requests; anonymous memory grows"},
		"not shown": {
			"takes its time", "takes its time", loop, FaultRSSGrowth, Errored,
			"the unpatched build does not show rss-growth",
		},
		"another fault": {
			"leaks", "takes its time", loop, FaultVRAMGrowth, Errored,
			"the unpatched build fails with rss-growth, not with vram-growth",
		},
		"a nameless fault": {
			"500", "takes its time", loop, FaultRSSGrowth, Errored,
			"the unpatched build fails with a fault that has no name",
		},
		"unpatched crashes": {
			"crash on load", "takes its time", loop, FaultRSSGrowth, Errored,
			"the unpatched build fails with a fault that has no name",
		},
		"unpatched is mute": {
			"no progress", "", prefill, FaultRSSGrowth, Errored,
			"the unpatched build does not show rss-growth: could not run",
		},
		"no cure": {"leaks", "leaks", loop, FaultRSSGrowth, Failed, "the patched build shows rss-growth too"},
		"a cure that breaks": {
			"leaks", "500", loop, FaultRSSGrowth, Errored,
			"the patched build fails with a fault that has no name: request 1",
		},
		"patched is mute": {
			"keeps tokens", "no progress", prefill, FaultRSSGrowth, Errored,
			"the patched build: could not run",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := ProofOptions{
				Options: options(t, ""), Fix: "a-fix", Check: tc.check, Fault: tc.fault,
				// One by its folder, one by its environment: both are ways.
				Unpatched: Programs{Bin: fakeBuildOf(t, tc.unpatched)},
				Patched:   Programs{Bin: fakeBuild(t), Env: []string{"FAKE=" + tc.patched}},
			}
			p, err := Prove(t.Context(), o)
			if p == nil || p.Verdict != tc.verdict || !strings.Contains(p.Detail, tc.want) {
				t.Fatalf("%+v, %v\nwant %s: %s", p, err, tc.verdict, tc.want)
			}
			var failed *FailedChecks
			var not *NotRun
			if errors.As(err, &failed) != (tc.verdict == Failed) || errors.As(err, &not) != (tc.verdict == Errored) {
				t.Errorf("error %v", err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "proof of a-fix on b8390 ") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A control is what the fix is not for: both builds pass, and a fault of either is no
// proof of anything else.
func TestProveControl(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		unpatched, patched string
		verdict            Verdict
		want               string
	}{
		"both pass":         {"takes its time", "takes its time", Passed, "unpatched: "},
		"unpatched fails":   {"leaks", "takes its time", Errored, "the unpatched build was to pass: failed"},
		"the patch's fault": {"takes its time", "leaks", Failed, "the patched build shows rss-growth too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Prove(t.Context(), ProofOptions{
				Options: options(t, ""), Fix: "a-fix", Check: loop, Fault: FaultRSSGrowth, Control: true,
				Unpatched: Programs{Bin: fakeBuildOf(t, tc.unpatched)}, Patched: Programs{Bin: fakeBuildOf(t, tc.patched)},
			})
			if p == nil || p.Verdict != tc.verdict || !strings.Contains(p.Detail, tc.want) ||
				(err == nil) != (tc.verdict == Passed) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// A proof whose check the build itself answers, and one whose programs cannot be built.
func TestProveMade(t *testing.T) {
	t.Parallel()
	fails := &Result{Verdict: Failed, Fault: FaultCompile, Detail: "server.c:3: for another Windows"}
	passes := &Result{Verdict: Passed, Detail: "compiled server.c"}
	for name, tc := range map[string]struct {
		unpatched, patched *Result
		err                string // of making the patched one
		verdict            Verdict
		want               string
	}{
		"proven": {
			fails, passes, "", Passed,
			"unpatched: server.c:3: for another Windows; patched: compiled server.c",
		},
		"not shown": {passes, passes, "", Errored, "the unpatched build does not show compile: compiled server.c"},
		"no cure":   {fails, fails, "", Failed, "the patched build shows compile too: server.c:3"},
		"another fault": {
			fails, nil, "common.c:1: a wrong line", Errored,
			"the patched build: could not run: common.c:1: a wrong line",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Prove(t.Context(), ProofOptions{
				Options: options(t, ""), Fix: "a-fix", Check: spec.Check{Name: Compiles}, Fault: FaultCompile,
				Make: func(_ context.Context, half string) (*Result, error) {
					if half == "unpatched" {
						return tc.unpatched, nil
					}
					if tc.err != "" {
						return nil, errors.New(tc.err)
					}
					return tc.patched, nil
				},
			})
			if p == nil || p.Verdict != tc.verdict || !strings.Contains(p.Detail, tc.want) ||
				(err == nil) != (tc.verdict == Passed) {
				t.Fatalf("%+v, %v", p, err)
			}
			if got := p.Unpatched.Checks[0]; got.Place != PlaceBuild || got.Name != Compiles {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestProveRefuses(t *testing.T) {
	t.Parallel()
	o := ProofOptions{Options: options(t, "never ready"), Fix: "a-fix", Check: loop}
	o.Unpatched.Bin = o.Bin
	if _, err := Prove(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no fault is named") {
		t.Errorf("no fault: %v", err)
	}
	o.Fault = FaultRSSGrowth
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Prove(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	o.Check = spec.Check{Name: "nonsense"}
	var not *NotRun
	if _, err := Prove(t.Context(), o); err == nil || errors.As(err, &not) ||
		!strings.Contains(err.Error(), "is not known") {
		t.Errorf("a check that does not exist: %v", err)
	}
}
