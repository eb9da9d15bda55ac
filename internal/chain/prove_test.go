package chain_test

import (
	"testing"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/smoke"
)

func TestProofsText(t *testing.T) {
	t.Parallel()
	report := func(v smoke.Verdict, detail string) *smoke.Report {
		return &smoke.Report{Checks: []smoke.Result{{Verdict: v, Detail: detail}}}
	}
	p := &chain.Proofs{
		Tag: "b8390", Target: "linux-cpu", Place: "simulated device",
		Proofs: []*smoke.Proof{
			{
				Fix: "holds", Verdict: smoke.Passed, Unpatched: report(smoke.Failed, "120.0 MiB more"),
				Patched: report(smoke.Passed, "20.0 MiB more"),
			},
			{
				Fix: "no-cure", Verdict: smoke.Failed, Unpatched: report(smoke.Failed, "40 graphs"),
				Patched: report(smoke.Failed, "41 graphs"),
			},
			{Fix: "not-shown", Verdict: smoke.Errored, Unpatched: report(smoke.Passed, "12 graphs")},
			{Fix: "nothing-ran", Verdict: smoke.Errored},
		},
		Without: map[string]string{"z-fix": "build", "a-fix": "parallel"},
		Why:     map[string]string{"z-fix": "Nothing runs it."},
	}
	golden.Check(t, "testdata/proofs.md", p.Text())
	if got := new(chain.Proofs).Text(); got != "" {
		t.Errorf("no proofs: %q", got)
	}
}
