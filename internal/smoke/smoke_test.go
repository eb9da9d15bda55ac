package smoke

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/spec"
)

var want = Version{Build: 8390, Commit: "b10e98a-llp1"}

// options are for a fake build that behaves as the mode says.
func options(tb testing.TB, mode string, checks ...spec.Check) Options {
	tb.Helper()
	return Options{
		Bin: fakeBuild(tb), Work: filepath.Join(tb.TempDir(), "smoke"), Checks: checks, Want: want,
		// Under -race a program sleeps a second before it exits, unless told not to.
		Env: []string{"FAKE=" + mode, "GORACE=atexit_sleep_ms=0"}, Tag: "b8390", Target: "linux-cpu",
		Model: gguf.Model{Layers: 1, Embd: 32, Heads: 2, KVHeads: 1, FF: 32, Context: 512, Seed: 1},
		Ready: 10 * time.Second, Answer: 10 * time.Second, Sample: 20 * time.Millisecond,
	}
}

func check(name string, kv ...any) spec.Check {
	c := spec.Check{Name: name, Args: map[string]any{}}
	for i := 0; i < len(kv); i += 2 {
		c.Args[kv[i].(string)] = kv[i+1]
	}
	return c
}

func TestEveryCheckPasses(t *testing.T) {
	t.Parallel()
	o := options(t, "", check("version"), check("health", "within", "10s"), check("tokenize"), check("completion"),
		check("variants", "one_of", []any{"haswell", "zen4"}), check("webui"), check("bench"), check("stop"))
	var steps []string
	o.Progress = func(what string, _, _ int64) { steps = append(steps, what) }
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Passed || r.count(Passed) != len(o.Checks) || r.ReadySeconds <= 0 || r.PeakRSSKiB < 1000 {
		t.Errorf("verdict %s, %d passed, ready after %g s, peak %d KiB", r.Verdict, r.count(Passed), r.ReadySeconds,
			r.PeakRSSKiB)
	}
	// Six checks share a server; stop needs two of its own.
	if len(r.Servers) != 3 {
		t.Errorf("%d servers were started", len(r.Servers))
	}
	for _, s := range r.Servers {
		if s.End != "exit code 0" {
			t.Errorf("server for %s: %s", s.Check, s.End)
		}
		if !strings.Contains(strings.Join(s.Argv, " "), "--cache-ram 0") ||
			strings.Contains(strings.Join(s.Argv, " "), "--offline") {
			t.Errorf("options that --help does not name, or lacks one that it does: %q", s.Argv)
		}
	}
	if len(steps) == 0 || steps[len(steps)-1] != "smoke" {
		t.Errorf("progress %q", steps)
	}
	if err := r.Write(o.Work); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"smoke.html", "smoke.junit.xml", "smoke.md", "server-1.log", "model-f16.gguf"} {
		if _, err := os.Stat(filepath.Join(o.Work, f)); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for mode, tc := range map[string]struct {
		check spec.Check
		want  string // in the detail
		tail  string // in the last lines
	}{
		"silent":        {check("health"), "printed nothing and ended before it was ready: exit code 0", ""},
		"crash on load": {check("tokenize"), "ended before it was ready: exit code 1", "not within the file bounds"},
		"never ready": {
			check("health", "within", "1500ms"), "not ready within 1.5s: it still answers 503",
			"load_backend",
		},
		"never answers":         {check("health", "within", "1500ms"), "not ready within 1.5s", "load_backend"},
		"health garbage":        {check("health"), `GET /health gave 200 with "<p>hello"`, "load_backend"},
		"health 404":            {check("health"), "GET /health gave 404 with no content", "load_backend"},
		"other alias":           {check("health"), "does not know the alias", "load_backend"},
		"other tokens":          {check("tokenize"), "POST /tokenize makes", "load_backend"},
		"loses bytes":           {check("tokenize"), "POST /detokenize gives", "load_backend"},
		"500":                   {check("completion"), "POST /completion gave 500", "load_backend"},
		"garbage":               {check("completion"), "what is no answer", "load_backend"},
		"cut":                   {check("completion"), "unexpected EOF", "load_backend"},
		"dies":                  {check("completion"), "the server has ended: exit code 134", "GGML_ASSERT(x) failed"},
		"hangs in a completion": {check("completion"), "context deadline exceeded", "load_backend"},
		"two answers":           {check("completion"), "the same greedy completion twice gave", "load_backend"},
		"out of grammar":        {check("completion"), "does not keep to its grammar", "load_backend"},
		"too short":             {check("completion"), "asked for 48 tokens, the completion has 47", "load_backend"},
		"miscounts the prompt":  {check("completion"), "the prompt has 45 tokens, the server counted 44", "load_backend"},
		"streams another":       {check("completion"), "streamed, the completion is", "load_backend"},
		"half a chunk":          {check("completion"), "after 3 chunks: cut in the middle of", "load_backend"},
		"clean half a chunk":    {check("completion"), "after 3 chunks: cut in the middle of", "load_backend"},
		"no final chunk":        {check("completion"), "after 3 chunks: it ended without a final chunk", "load_backend"},
		"error chunk":           {check("completion"), `chunk 4 is "{\"error\"`, "load_backend"},
		"no event":              {check("completion"), `a line that is no data: "hello`, "load_backend"},
		"goes on":               {check("completion"), "a chunk came after the final one", "load_backend"},
		"quiet":                 {check("variants"), "names no CPU backend", ""},
		"other library":         {check("variants"), "which is not in the build's folder", "load_backend"},
		"other variant": {
			check("variants", "one_of", []any{"zen4"}), "libggml-cpu-haswell; it must be one of zen4",
			"load_backend",
		},
		"no web ui":       {check("webui"), "GET / gave 404", "load_backend"},
		"unwanted web ui": {check("webui", "expect", false), "the build was to have none", "load_backend"},
		"other version":   {check("version"), "says build 8391, commit b10e98a-llp1; it was built as build 8390", "8391"},
		"no version":      {check("version"), "prints no version that llpatch knows", "llama"},
		"bench fails":     {check("bench"), "exit code 1", "failed to create context"},
		"bench garbage":   {check("bench"), "llama-bench -o jsonl printed", "| model"},
		"bench stands":    {check("bench"), "measured 0 tokens per second", "avg_ts"},
		"bench stops":     {check("bench"), "measured 1 of 2 tests", "avg_ts"},
		"bench hangs":     {check("bench"), "took too long and was stopped", ""},
		"ignores sigterm": {
			check("stop", "within", "200ms"), "idle: SIGTERM did not end the server within 200ms",
			"load_backend",
		},
		"needs two sigterms": {
			check("stop", "within", "200ms"),
			"idle: one SIGTERM did not end the idle server within 200ms", "load_backend",
		},
		"exit 3": {check("stop"), "idle: after SIGTERM the server ended with exit code 3", "load_backend"},
		"stuck when busy": {
			check("stop", "within", "5s"), "during a completion: with its client gone, two SIGTERMs",
			"load_backend",
		},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := options(t, mode, tc.check)
			if strings.Contains(mode, "hangs") {
				o.Answer = 3 * time.Second
			}
			r, err := Run(t.Context(), o)
			var failed *FailedChecks
			if !errors.As(err, &failed) || failed.Report != r {
				t.Fatalf("got %v, want *Failed", err)
			}
			c := r.Checks[0]
			if c.Verdict != Failed || !strings.Contains(c.Detail, tc.want) {
				t.Errorf("%s: %s\nwant %q", c.Verdict, c.Detail, tc.want)
			}
			if tail := strings.Join(c.Tail, "\n"); !strings.Contains(tail, tc.tail) {
				t.Errorf("last lines %q, want %q", tail, tc.tail)
			}
			if _, err := os.Stat(c.Log); err != nil {
				t.Errorf("log: %v", err)
			}
			for _, part := range []string{"smoke b8390 linux-cpu: 1 of 1 checks failed", c.Detail, "log: " + c.Log} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestGoodAnswersOfOtherKinds(t *testing.T) {
	t.Parallel()
	for mode, c := range map[string]spec.Check{
		"new version":       check("version"),
		"no web ui":         check("webui", "expect", false),
		"slow":              check("health"),
		"busy until second": check("stop", "within", "1s"),
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), options(t, mode, c))
			if err != nil {
				t.Fatal(err)
			}
			figures := r.Checks[0].Figures
			if mode == "slow" && (figures["answers_503"] != 3 || figures["ready_seconds"].(float64) <= 0) {
				t.Errorf("a slow start was not seen: %v", figures)
			}
			if mode == "busy until second" && figures["busy_sigterms"] != 2 {
				t.Errorf("figures %v", figures)
			}
		})
	}
}

func TestCouldNotRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*testing.T, *Options)
		check  spec.Check
		want   string
	}{
		"no program": {func(t *testing.T, o *Options) {
			o.Bin = t.TempDir()
		}, check("health"), "llama-server is not in the patched build"},
		"no cli":     {func(*testing.T, *Options) {}, check("cli"), "llama-cli is not in the patched build"},
		"no version": {func(_ *testing.T, o *Options) { o.Want = Version{} }, check("version"), "are not known"},
		"bad model": {func(_ *testing.T, o *Options) {
			o.Model.Embd = 33
		}, check("health"), "embd 33 is not a multiple of it"},
		"work folder": {func(_ *testing.T, o *Options) {
			o.Work = filepath.Join(o.Bin, "llama-server", "x")
		}, check("health"), "not a directory"},
		"ports taken": {func(t *testing.T, o *Options) {
			o.Ports = []int{listen(t), listen(t)}
		}, check("health"), "is taken; port "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, "", tc.check)
			tc.change(t, &o)
			r, err := Run(t.Context(), o)
			var not *NotRun
			if !errors.As(err, &not) || r == nil || not.Report != r {
				t.Fatalf("got %v, want *NotRun", err)
			}
			if r.Verdict != Errored || r.Checks[0].Verdict != Errored || !strings.Contains(r.Checks[0].Detail, tc.want) {
				t.Errorf("%s: %s\nwant %q", r.Checks[0].Verdict, r.Checks[0].Detail, tc.want)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("no checks", func(t *testing.T) {
		t.Parallel()
		var not *NotRun
		if _, err := Run(t.Context(), options(t, "")); !errors.As(err, &not) ||
			!strings.Contains(err.Error(), "no smoke check") {
			t.Errorf("got %v", err)
		}
	})
}

// A server that does not start is one check's failure; what hangs on it could
// not be judged, and the whole is a failure.
func TestBrokenServerIsToldOnce(t *testing.T) {
	t.Parallel()
	o := options(t, "crash on load", check("version"), check("health"), check("tokenize"), check("completion"))
	r, err := Run(t.Context(), o)
	var failed *FailedChecks
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	var got []Verdict
	for _, c := range r.Checks {
		got = append(got, c.Verdict)
	}
	if got[0] != Passed || got[1] != Failed || got[2] != Errored || got[3] != Errored || len(r.Servers) != 1 {
		t.Errorf("verdicts %v, %d servers", got, len(r.Servers))
	}
	if d := r.Checks[3].Detail; d != "the server does not start, see check health" {
		t.Errorf("detail %q", d)
	}
}

// A server that died in one check is started again for the next.
func TestNextCheckGetsANewServer(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), options(t, "dies", check("completion"), check("tokenize")))
	if err == nil || r.Checks[0].Verdict != Failed || r.Checks[1].Verdict != Passed || len(r.Servers) != 2 {
		t.Errorf("%v: %+v", err, r.Checks)
	}
	if end := r.Servers[0].End; end != "exit code 134" {
		t.Errorf("the first server ended with %s", end)
	}
}

// An environment of a check's own means a server of its own.
func TestCheckEnv(t *testing.T) {
	t.Parallel()
	own := check("health", "within", "200ms")
	own.Env = map[string]string{"FAKE": "never ready"}
	r, err := Run(t.Context(), options(t, "", check("health"), own, check("tokenize")))
	if err == nil || r.Checks[0].Verdict != Passed || r.Checks[1].Verdict != Failed || r.Checks[2].Verdict != Passed {
		t.Errorf("%v: %+v", err, r.Checks)
	}
}

func TestEnvIsBuilt(t *testing.T) {
	t.Setenv("LLAMA_ARG_CTX_SIZE", "1")
	s := &session{o: Options{Work: "/w", Env: []string{"A=1"}}}
	s.current.Env = map[string]string{"B": "2"}
	got := strings.Join(s.env(), " ")
	if want := "PATH=/usr/local/bin:/usr/bin:/bin HOME=/w LANG=C LLAMA_CACHE=/w/cache A=1 B=2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for mode, c := range map[string]spec.Check{
		"never ready":           check("health"),
		"hangs in a completion": check("completion"),
		"bench hangs":           check("bench"),
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := options(t, mode, c, check("tokenize"))
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			began := time.Now()
			r, err := Run(ctx, o)
			if !errors.Is(err, context.DeadlineExceeded) || r == nil {
				t.Errorf("got %v", err)
			}
			if r.Verdict != Errored || len(r.Checks) != 2 || r.count(Errored) != 2 {
				t.Errorf("verdict %s: %+v", r.Verdict, r.Checks)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v to stop", took)
			}
			for _, s := range r.Servers {
				if s.End == "" {
					t.Errorf("a server was left: %+v", s)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		check spec.Check
		want  string
	}{
		"unknown check": {check("benchmark"), `smoke check "benchmark" is not known; there are bench, cli, completion`},
		"unknown key": {
			check("health", "witin", "5s"),
			"smoke check health: argument witin is not known; it takes within, model, args",
		},
		"bad time":      {check("health", "within", int64(5)), `within is 5, it must be a time such as "5s"`},
		"negative time": {check("stop", "within", "-1s"), "within is -1s"},
		"bad number": {
			check("completion", "n_predict", "many"),
			"n_predict is many, it must be a whole number of at least 1",
		},
		"zero":      {check("completion", "n_predict", int64(0)), "n_predict is 0"},
		"bad flag":  {check("webui", "expect", "yes"), "expect is yes, it must be true or false"},
		"bad text":  {check("completion", "prompt", ""), "prompt is , it must be a text"},
		"bad list":  {check("version", "programs", []any{"llama-server", int64(1)}), "it must be a list of texts"},
		"bad model": {check("bench", "model", "q5_0"), `model type "q5_0": only f16, q8_0 and q4_0`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate([]spec.Check{tc.check})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if _, err := Run(t.Context(), Options{Work: t.TempDir(), Checks: []spec.Check{tc.check}}); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run: %v", err)
			}
		})
	}
	for _, name := range Names() {
		err := Validate([]spec.Check{{Name: name}})
		if name == Malformed { // which input, the proof of a cure says
			if err == nil || !strings.Contains(err.Error(), "gguf-empty-key") {
				t.Errorf("%s with no arguments: %v, want one with the inputs", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s with no arguments: %v", name, err)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"version: 8833 (45cac7ca7-llp1)\nbuilt with GNU 12": {8833, "45cac7ca7-llp1"},
		"x\nversion: 0.2.0-dev (build 10587, commit abc)\n": {10587, "abc"},
		"version: 0.5.0 (build 10864, commit abc)\r\n":      {10864, "abc"},
		"version: 8833":         {},
		"my version: 1 (a)":     {},
		"version: 1 (a) and so": {},
	} {
		if got, ok := parseVersion(text); got != want || ok != (want.Build != 0) {
			t.Errorf("%q gave %+v, %v", text, got, ok)
		}
	}
}
