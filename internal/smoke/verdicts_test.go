package smoke

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// The checks of this file, short enough for a fake server.
var (
	loop     = check("request-loop", "requests", int64(120))
	prefill  = check("long-prefill", "tokens", int64(2048), "repeat", int64(2))
	parallel = check("parallel", "for", "2s", "slots", int64(3), "n_predict", int64(4))
	hostile  = check("hostile", "rounds", int64(24), "crowd", int64(40))
	restart  = check("restart", "times", int64(2))
)

func TestLoadAndToolChecksPass(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode   string
		check  spec.Check
		detail string
	}{
		"loop":            {"takes its time", loop, "requests; anonymous memory"},
		"prefill":         {"", prefill, "2048 tokens "},
		"parallel":        {"takes its time", parallel, "requests in 3 slots; anonymous memory"},
		"hostile":         {"", hostile, "rounds of hostile clients, 40 at once; anonymous memory"},
		"hostile, arenas": {"keeps some connections", hostile, "rounds of hostile clients, 40 at once; anonymous memory"},
		"draft by type":   {"drafts by type", check("speculative"), "the same tokens with a draft (model)"},
		"restart":         {"", restart, "started again 2 times on port"},
		"draft model":     {"", check("speculative"), "the same tokens with a draft (model)"},
		"draft in batches": {
			"a batch differs", check("speculative"),
			"the same 40 tokens with a draft (model), and then 266 for 261, which the server without a draft chooses too",
		},
		"draft ngram":     {"", check("speculative", "draft", "ngram"), "the same tokens with a draft (ngram)"},
		"draft cut short": {"answers less than it counts", check("speculative"), "the same tokens with a draft (model)"},
		"backend ops":     {"", check("tool-backend-ops"), "99 operations, 1/1 backends passed"},
		"perplexity":      {"", check("tool-perplexity"), "perplexity 3054.6589"},
		"a long warm-up": {
			"leaks at first", loop,
			"this is a second try, 4 times as long; at the first: anonymous memory cannot be judged: it rose by",
		},
		"allowed growth": {"leaks slowly", check("request-loop", "requests", int64(120), "allow_kib", 100.0), "grows by"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), options(t, tc.mode, tc.check))
			if err != nil {
				t.Fatal(err)
			}
			if d := r.Checks[0].Detail; !strings.Contains(d, tc.detail) {
				t.Errorf("detail %q\nwant   %q", d, tc.detail)
			}
		})
	}
}

func TestLoadAndToolChecksFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode  string
		check spec.Check
		want  string
		fault string
	}{
		"a leak":      {"leaks", loop, "anonymous memory grows by", FaultRSSGrowth},
		"a slow leak": {"leaks slowly", loop, "anonymous memory grows by", FaultRSSGrowth},
		"a leak that pauses": {"leaks but for a pause", loop, "this is a second try, 4 times as long; at the first: " +
			"anonymous memory cannot be judged: it rose by", FaultRSSGrowth},
		"a leak in parallel":    {"leaks", parallel, "anonymous memory grows by", FaultRSSGrowth},
		"a leak of tokens":      {"keeps tokens", prefill, "KiB a token", FaultRSSGrowth},
		"a leak of connections": {"keeps connections", hostile, "anonymous memory grows by", FaultRSSGrowth},
		"changes its mind":      {"changes its mind", loop, "request 31 got", ""},
		"500 in a loop":         {"500", loop, "request 1: POST /completion gave 500", ""},
		"dies in a loop":        {"dies after a while", loop, "request 21: POST /completion: ", ""},
		"dies in parallel":      {"dies after a while", parallel, "the server has ended: exit code 134", ""},
		"hangs in parallel":     {"hangs in a completion", parallel, "context deadline exceeded", ""},
		"progress goes back":    {"goes back", prefill, "it went from 128 tokens back to 64", ""},
		"progress of another":   {"other total", prefill, "it says 2049 tokens in all", ""},
		"miscounts a long prompt": {
			"miscounts a long prompt", prefill, "a prompt of 2048 tokens: the server counted 2054",
			"",
		},
		"half of its progress": {
			"half of its progress", prefill,
			"a prompt of 2048 tokens: the stream of a completion, after 9 chunks: cut in the middle of", "",
		},
		"500 for a long prompt": {"500", prefill, "POST /completion as a stream gave 500", ""},
		"drafts another token":  {"drafts another", check("speculative"), "token 41 of the greedy ones is", FaultTokens},
		"accepts too many": {
			"accepts too many", check("speculative"), "of 40 drafted tokens the server accepted 41",
			"",
		},
		"answers by start":        {"answers by start", restart, "start 2 answers", ""},
		"starts once":             {"starts once", restart, "start 2: the server ended before it was ready: exit code 1", ""},
		"dies of garbage":         {"dies of garbage", hostile, "round 1: ", ""},
		"deaf in a crowd":         {"deaf in a crowd", hostile, "of 40 requests at once", ""},
		"takes anything":          {"takes anything", hostile, "a bad request got 200", ""},
		"results crash":           {"llama-perplexity crashes", check("tool-perplexity"), "exit code 134", ""},
		"perplexity is no number": {"nan", check("tool-perplexity"), "says nan, which no text can have", ""},
		"perplexity is silent":    {"llama-perplexity is silent", check("tool-perplexity"), "names no final estimate", ""},
		"wrong operations":        {"wrong operations", check("tool-backend-ops"), "exit code 1", ""},
		"wrong but content":       {"wrong but content", check("tool-backend-ops"), `says "98/99 tests passed"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, tc.mode, tc.check)
			o.Answer = 3 * time.Second
			r, err := Run(t.Context(), o)
			var failed *FailedChecks
			if !errors.As(err, &failed) {
				t.Fatalf("got %v, want *Failed: %+v", err, r.Checks)
			}
			c := r.Checks[0]
			if !strings.Contains(c.Detail, tc.want) || c.Fault != tc.fault {
				t.Errorf("fault %q, %s\nwant  %q, %s", c.Fault, c.Detail, tc.fault, tc.want)
			}
			for _, s := range r.Servers {
				if s.End == "" || taken(portOf(t, s)) {
					t.Errorf("a server was left: %+v", s)
				}
			}
		})
	}
}

// portOf is the port that a server was given.
func portOf(t *testing.T, s ServerRun) int {
	t.Helper()
	for i, a := range s.Argv {
		if a == "--port" {
			return atoi(s.Argv[i+1])
		}
	}
	t.Fatalf("no port in %q", s.Argv)
	return 0
}

func TestLoadAndToolChecksErrored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode  string
		check spec.Check
		want  string
	}{
		"no progress":    {"no progress", prefill, "does not tell how far it is with a prompt"},
		"no speculation": {"no speculation", check("speculative"), "no option for speculation by model"},
		"no ngrams": {
			"no speculation", check("speculative", "draft", "ngram"),
			"no option for speculation by ngram",
		},
		"nothing drafted":     {"drafts nothing", check("speculative"), "of 0 drafted tokens none was accepted"},
		"nothing accepted":    {"accepts nothing", check("speculative"), "of 40 drafted tokens none was accepted"},
		"no stock":            {"", check("same-tokens"), "no stock build was given to compare with"},
		"no stock of results": {"", check("tool-results"), "no stock build was given to compare with"},
		"no operation tried":  {"skips", check("tool-backend-ops"), "ran no test"},
		// How many figures there are is up to the machine: none, or too few.
		"too few requests": {"", check("parallel", "for", "1ms", "slots", int64(2)), "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), options(t, tc.mode, tc.check))
			var not *NotRun
			if !errors.As(err, &not) || !strings.Contains(r.Checks[0].Detail, tc.want) {
				t.Fatalf("got %v\nwant %s", err, tc.want)
			}
			if !strings.Contains(err.Error(), "1 of 1 checks could not run") {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("not built", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"tool-results", "tool-backend-ops", "tool-perplexity"} {
			o := options(t, "", check(name))
			o.Bin = t.TempDir()
			r, err := Run(t.Context(), o)
			var not *NotRun
			if !errors.As(err, &not) || !strings.Contains(r.Checks[0].Detail, "is not built by this recipe") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A server that the check itself kills did not have to be killed.
func TestRestartKillsOnPurpose(t *testing.T) {
	t.Parallel()
	for mode, warned := range map[string]bool{"": false, "ignores sigterm": true} {
		var log bytes.Buffer
		o := options(t, mode, restart)
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "had to be killed") != warned {
			t.Errorf("mode %q: %s", mode, &log)
		}
	}
}
