package evidence

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func find(t *testing.T, res *Result, run, build string, pair int) *Run {
	t.Helper()
	i := slices.IndexFunc(res.Runs, func(r Run) bool { return r.Name == run && r.Build == build && r.Pair == pair })
	if i < 0 {
		t.Fatalf("no run %s of %s, pair %d", run, build, pair)
	}
	return &res.Runs[i]
}

func sum(t *testing.T, res *Result, run, build string) *Summary {
	t.Helper()
	i := slices.IndexFunc(res.Summary, func(s Summary) bool { return s.Run == run && s.Build == build })
	if i < 0 {
		t.Fatalf("no summary of %s %s", run, build)
	}
	return &res.Summary[i]
}

func aimOf(s *Summary, aim string) string {
	for _, c := range s.Aims {
		if strings.HasPrefix(c.Aim, aim) {
			return string(c.State) + ": " + c.Got
		}
	}
	return "no such aim"
}

func TestRecordBench(t *testing.T) {
	dir := builds(t, "stock", "ours")
	o := plan(t, dir, `
[[run]]
name = "bench"
program = "llama-bench"
args = ["-m", "/home/me/m.gguf"]
pairs = 7
under = ["env", "OMP_X=1"]
keep = ["^load_backend"]
[run.build-env.ours]
FAKE = "slow"
[run.aim.all]
peak-rss-mib-max = 1000
kept = "equal"
lacks = ["ERROR SUMMARY: [1-9]"]
[run.aim.ours]
pp-ratio-min = 0.95
tg-ratio-min = 0.99
`)
	res, err := record(t, o)
	var missing *Missing
	if !errors.As(err, &missing) || len(missing.Checks) != 2 {
		t.Fatalf("%v", err)
	}
	if len(res.Runs) != 16 || res.Ended == nil {
		t.Errorf("%d runs", len(res.Runs))
	}
	var order []string
	for i, r := range res.Runs {
		order = append(order, fmt.Sprint(r.Pair, r.Build))
		if i > 0 && r.Began.Before(res.Runs[i-1].Began) {
			t.Errorf("run %d began before the one above", i)
		}
	}
	if got := strings.Join(order[:6], " "); got != "0stock 0ours 1stock 1ours 2ours 2stock" {
		t.Error(got)
	}
	if r := find(t, res, "bench", "ours", 0); r.Checks != nil || *r.PP != 900 {
		t.Errorf("the warm-up was judged: %+v", r)
	}
	r := find(t, res, "bench", "ours", 3)
	if r.RC != 0 || *r.PP != 900 || *r.TG != 50 || r.RSS == nil || *r.RSS < 1 || len(r.Bench) != 2 ||
		len(r.Sample.RSS) == 0 || r.Env["FAKE"] != "slow" {
		t.Errorf("%+v", r)
	}
	if got := strings.Join(r.Argv, " "); got != "env OMP_X=1 {ours}/llama-bench -m {path}/m.gguf -o json" {
		t.Error(got)
	}
	if len(r.Kept) != 1 || r.Kept[0] != "load_backend: loaded from {ours}/llama-bench" {
		t.Errorf("%q", r.Kept)
	}
	s := sum(t, res, "bench", "ours")
	for aim, want := range map[string]string{
		"exit code 0":    "passed: 7 of 7 runs",
		"peak RSS":       "passed: 7 of 7 runs",
		"does not print": "passed: 7 of 7 runs",
		// The line names the build's folder.
		"kept lines":    "missed: 0 of 7 runs; pair 1: 1 lines",
		"prefill speed": "missed: 0.900 (0.900 to 0.900)",
		"decode speed":  "passed: 1.000 (1.000 to 1.000)",
	} {
		if got := aimOf(s, aim); got != want {
			t.Errorf("%s: %s, want %s", aim, got, want)
		}
	}
	if s.Runs != 7 || *s.PP != 900 || s.PPRatio.Level < 0.95 || sum(t, res, "bench", "stock").PPRatio != nil {
		t.Errorf("%+v", s)
	}
	b := res.Builds["ours"]
	if b.SHA256["libggml.so"] != fmt.Sprintf("%x", sha256.Sum256([]byte("\x7fELF ours"))) ||
		b.Version != "version: 8390 (abc)" || b.SHA256["notes.txt"] != "" ||
		!strings.HasPrefix(b.SHA256["llama-bench"], "-> ") {
		t.Errorf("%v", b.SHA256)
	}
	md := res.Markdown()
	if !strings.Contains(md, "| bench | ours | 7 | 0 |  |") || !strings.Contains(md,
		"- bench, ours, missed: prefill speed at least 0.95") {
		t.Error(md)
	}
}

func TestRecordServer(t *testing.T) {
	dir := builds(t, "stock", "ours")
	const run = `
[[run]]
name = %q
program = "llama-server"
%s
[run.server]
first = 3
clients = 2
requests = 60
prompt = [4, 9]
predict = 5
prefills = { count = 3, tokens = 40 }
[run.build-env.ours]
FAKE = %q
[run.aim.all]
tokens = "equal"
rss = "flat"
`
	text := ""
	for name, fake := range map[string]string{
		"same": "", "other": "other", "grows": "grows", "refuses": "refuses",
		"dies": "dies", "utf": "no UTF-8", "nomodel": "no model",
	} {
		text += fmt.Sprintf(run, name, "", fake)
	}
	text += strings.Replace(fmt.Sprintf(run, "expected", "", "dies"), "[run.aim.all]",
		"[run.aim.ours]\nrc = \"nonzero\"\n[run.aim.all]\nhas = [\"max 8\"]", 1)
	text += strings.Replace(fmt.Sprintf(run, "slowstart", `timeout = "2s"`, "never ready"), "first = 3",
		"ready = \"400ms\"\nfirst = 3", 1)
	o := plan(t, dir, text)
	res, err := record(t, o)
	var missing *Missing
	if !errors.As(err, &missing) {
		t.Fatalf("%v", err)
	}
	same := find(t, res, "same", "ours", 1)
	if same.Requests != 66 || same.Failed != 0 || len(same.SHA) != 64 || same.Tokens != 15 ||
		*same.PP != *find(t, res, "same", "stock", 1).PP || *same.TG != 250 || same.LoadTPS == nil || same.RC != 0 {
		t.Errorf("%+v %+v", same, same.Served)
	}
	for run, want := range map[string]string{
		"same tokens":              "passed: 1 of 1 runs",
		"same memory":              "passed: 1 of 1 runs",
		"same every request":       "passed: 1 of 1 runs",
		"other tokens":             "missed: 0 of 1 runs; pair 1: request 2, token 5: ",
		"grows memory":             "missed: 0 of 1 runs; pair 1: anonymous memory grows by",
		"grows tokens":             "passed",
		"refuses every":            "missed: 0 of 1 runs; pair 1: ",
		"refuses exit":             "passed",
		"dies exit":                "missed: 0 of 1 runs; pair 1: 139",
		"utf every":                "passed",
		"nomodel exit":             "missed: 0 of 1 runs; pair 1: 1",
		"nomodel tokens":           "unclear",
		"expected exit code not 0": "passed",
		"expected prints max 8":    "passed",
		"expected tokens":          "no such aim",
		"slowstart exit":           "unclear: 0 of 1 runs; pair 1: could not run: the server was not ready within 400ms: ",
	} {
		name, aim, _ := strings.Cut(run, " ")
		if got := aimOf(sum(t, res, name, "ours"), aim); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", run, got, want)
		}
	}
	if n := find(t, res, "utf", "ours", 1).Notes; !slices.ContainsFunc(n, func(s string) bool {
		return strings.Contains(s, "UTF-8")
	}) {
		t.Errorf("%q", n)
	}
	if f := find(t, res, "refuses", "ours", 1); f.Failed == 0 || f.Requests+f.Failed != 66 || len(f.Tail) == 0 ||
		!strings.Contains(f.Served.Why, "500") {
		t.Errorf("%+v", f.Served)
	}
	if f := find(t, res, "nomodel", "ours", 1); !slices.Contains(f.Tail, "error: failed to load model") {
		t.Errorf("%q", f.Tail)
	}
}

func TestRecordTrouble(t *testing.T) {
	dir := builds(t, "stock", "ours")
	o := plan(t, dir, `
[[run]]
name = "hang"
program = "llama-bench"
timeout = "300ms"
[run.build-env.ours]
FAKE = "hang"
[[run]]
name = "abort"
program = "llama-bench"
[run.build-env.ours]
FAKE = "abort"
[[run]]
name = "silent"
program = "llama-bench"
[run.build-env.ours]
FAKE = "silent"
[[run]]
name = "missing"
program = "test-backend-ops"
builds = ["ours"]
[[run]]
name = "wrapper"
program = "llama-bench"
under = ["no-such-program"]
builds = ["ours"]
`)
	res, err := record(t, o)
	if err == nil {
		t.Fatal("no error")
	}
	for run, want := range map[string]string{
		"hang":    "missed: 0 of 1 runs; pair 1: stopped at its time limit",
		"abort":   "missed: 0 of 1 runs; pair 1: signal: killed",
		"silent":  "unclear: 0 of 1 runs; pair 1: could not run: llama-bench printed no figures",
		"missing": "unclear: 0 of 1 runs; pair 1: could not run: build ours has no program test-backend-ops",
		"wrapper": "unclear: 0 of 1 runs; pair 1: could not run: no-such-program",
	} {
		if got := aimOf(sum(t, res, run, "ours"), "exit code 0"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", run, got, want)
		}
	}
	if err := o.Plan.Only([]string{"missing"}); err != nil {
		t.Fatal(err)
	}
	var not *NotRun
	if _, err := record(t, o); !errors.As(err, &not) {
		t.Errorf("%v", err)
	}
	o.Plan.Builds[0].Dir = filepath.Join(dir, "nowhere")
	if _, err := Record(t.Context(), o); !errors.As(err, &not) || !strings.Contains(err.Error(), "build stock") {
		t.Errorf("%v", err)
	}
	o.Plan.Builds[0].Dir = filepath.Join(dir, "stock")
	o.Out = filepath.Join(dir, "no", "such", "folder.json")
	if _, err := Record(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A machine that is lost half-way leaves what was measured.
func TestRecordInterrupted(t *testing.T) {
	dir := builds(t, "stock", "ours")
	o := plan(t, dir, `
[[run]]
name = "hang"
program = "llama-bench"
[run.build-env.ours]
FAKE = "hang"
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(1500*time.Millisecond, cancel)
	if _, err := Record(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	data, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Parse(data)
	if err != nil || len(res.Runs) != 1 || res.Runs[0].Build != "stock" || res.Ended != nil || len(res.Summary) != 1 {
		t.Errorf("%v %+v", err, res)
	}
}
