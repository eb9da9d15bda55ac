package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const oneServer = `
[[run]]
name = "NAME"
program = "llama-server"
[run.server]
first = 2
[run.env]
FAKE = "NAME"
[run.aim.all]
tokens = "equal"
`

// Answers without any token prove nothing; times that give no speed cost that
// figure, not the record.
func TestRecordOddAnswers(t *testing.T) {
	dir := builds(t, "stock", "ours")
	text := ""
	for _, name := range []string{"no tokens", "no time", "ages"} {
		text += strings.ReplaceAll(strings.Replace(oneServer, "NAME", strings.ReplaceAll(name, " ", "-"), 1), "NAME", name)
	}
	res, err := record(t, plan(t, dir, text))
	var not *NotRun
	if !errors.As(err, &not) || len(not.Why) != 1 {
		t.Errorf("%v", err)
	}
	if got := aimOf(sum(t, res, "no-tokens", "ours"), "tokens"); !strings.HasPrefix(got, "unclear") ||
		sum(t, res, "no-tokens", "ours").Tokens != "equal in 0 of 1" {
		t.Errorf("%s", got)
	}
	for _, name := range []string{"no-time", "ages"} {
		r := find(t, res, name, "ours", 1)
		if r.TG != nil || r.PP == nil || len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "no speed") {
			t.Errorf("%s: %v %v %q", name, r.PP, r.TG, r.Notes)
		}
		if got := aimOf(sum(t, res, name, "ours"), "tokens"); got != "passed: 1 of 1 runs" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A run that fails as its aim asks has no speed to judge.
func TestRecordFailsAsAsked(t *testing.T) {
	dir := builds(t, "stock", "ours")
	res, err := record(t, plan(t, dir, `
[[run]]
name = "fails"
program = "llama-bench"
[run.build-env.ours]
FAKE = "crash"
[run.aim.all]
pp-ratio-min = 0.9
[run.aim.ours]
rc = 3
`))
	if err != nil {
		t.Errorf("%v", err)
	}
	if got := aimOf(sum(t, res, "fails", "ours"), "prefill"); got != "no such aim" {
		t.Error(got)
	}
}

// Two models of one file name have two hashes.
func TestInputsOfOneName(t *testing.T) {
	dir := builds(t, "stock", "ours")
	args := ""
	for _, in := range []string{"a", "b"} {
		name := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(name, []byte(in), 0o644); err != nil {
			t.Fatal(err)
		}
		args += `"` + name + `",`
	}
	res, err := record(t, plan(t, dir, `
[[run]]
name = "two"
program = "llama-bench"
args = [`+args+`]
`))
	if err != nil {
		t.Error(err)
	}
	if a, b := res.Inputs["{path}/m.gguf"], res.Inputs["{path}/m.gguf#2"]; len(res.Inputs) != 2 || len(a) != 64 ||
		len(b) != 64 || a == b {
		t.Errorf("%v", res.Inputs)
	}
}
