package smoke

import (
	"strings"
	"testing"
)

// A program that has said what it has to and does not end is the fault that a proof can
// expect; what else goes wrong has no name, and is no proof.
func TestExit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode    string
		args    []any
		verdict Verdict
		fault   string
		want    string
	}{
		"ends": {"", []any{"times", 2}, Passed, "", "6 of 6 runs ended, each within "},
		"hangs": {
			"hangs at its end",
			[]any{"within", "500ms"},
			Failed, FaultExitHang,
			"llama-server --version says all that it has to and does not end: stopped after ",
		},
		"hangs now":        {"hangs now and then", []any{"within", "2s"}, Failed, FaultExitHang, "does not end"},
		"too seldom tried": {"hangs now and then", []any{"times", 2}, Passed, "", "6 of 6 runs ended"},
		"hangs in silence": {"hangs in silence", []any{"within", "500ms"}, Failed, "", "has not said what it has to"},
		"says nothing":     {"no version", nil, Failed, "", "--version ends and does not say what it has to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, tc.mode, check("exit", tc.args...))
			r, _ := Run(t.Context(), o)
			got := r.Checks[0]
			if got.Verdict != tc.verdict || got.Fault != tc.fault || !strings.Contains(got.Detail, tc.want) {
				t.Errorf("%s, fault %q: %s", got.Verdict, got.Fault, got.Detail)
			}
		})
	}
}
