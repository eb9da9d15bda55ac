package smoke

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
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

func TestMoreChecksPass(t *testing.T) {
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
		"a long warm-up":  {"leaks at first", loop, "this is a second try, 4 times as long; at the first: anonymous memory cannot be judged: it rose by"},
		"allowed growth":  {"leaks slowly", check("request-loop", "requests", int64(120), "allow_kib", 100.0), "grows by"},
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

func TestMoreWrongAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode  string
		check spec.Check
		want  string
		fault string
	}{
		"a leak":                  {"leaks", loop, "anonymous memory grows by", FaultRSSGrowth},
		"a slow leak":             {"leaks slowly", loop, "anonymous memory grows by", FaultRSSGrowth},
		"a leak that pauses":      {"leaks but for a pause", loop, "this is a second try, 4 times as long; at the first: anonymous memory cannot be judged: it rose by", FaultRSSGrowth},
		"a leak in parallel":      {"leaks", parallel, "anonymous memory grows by", FaultRSSGrowth},
		"a leak of tokens":        {"keeps tokens", prefill, "KiB a token", FaultRSSGrowth},
		"a leak of connections":   {"keeps connections", hostile, "anonymous memory grows by", FaultRSSGrowth},
		"changes its mind":        {"changes its mind", loop, "request 31 got", ""},
		"500 in a loop":           {"500", loop, "request 1: POST /completion gave 500", ""},
		"dies in a loop":          {"dies after a while", loop, "request 21: POST /completion: ", ""},
		"dies in parallel":        {"dies after a while", parallel, "the server has ended: exit code 134", ""},
		"hangs in parallel":       {"hangs in a completion", parallel, "context deadline exceeded", ""},
		"progress goes back":      {"goes back", prefill, "it went from 128 tokens back to 64", ""},
		"progress of another":     {"other total", prefill, "it says 2049 tokens in all", ""},
		"miscounts a long prompt": {"miscounts a long prompt", prefill, "a prompt of 2048 tokens: the server counted 2054", ""},
		"half of its progress":    {"half of its progress", prefill, "a prompt of 2048 tokens: the stream of a completion, after 9 chunks: cut in the middle of", ""},
		"500 for a long prompt":   {"500", prefill, "POST /completion as a stream gave 500", ""},
		"drafts another token":    {"drafts another", check("speculative"), "token 41 of the greedy ones is", FaultTokens},
		"accepts too many":        {"accepts too many", check("speculative"), "of 40 drafted tokens the server accepted 41", ""},
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

func TestMoreErrored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode  string
		check spec.Check
		want  string
	}{
		"no progress":         {"no progress", prefill, "does not tell how far it is with a prompt"},
		"no speculation":      {"no speculation", check("speculative"), "no option for speculation by model"},
		"no ngrams":           {"no speculation", check("speculative", "draft", "ngram"), "no option for speculation by ngram"},
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

func TestSameTokens(t *testing.T) {
	t.Parallel()
	same, results, ppl := check("same-tokens"), check("tool-results"), check("tool-perplexity")
	for name, tc := range map[string]struct {
		stock, patched string
		check          spec.Check
		verdict        Verdict
		want           string
	}{
		"equal":              {"", "", same, Passed, "the same tokens and the same logits"},
		"one logit":          {"", "one other logit", same, Failed, "prompt 3 of 700 tokens: step 24: stock gives token 77"},
		"within a tolerance": {"", "one other logit", check("same-tokens", "tolerance", 1e-6), Passed, "logits that differ by 1e-07 at most"},
		"bytes":              {"500 without a grammar", "500 without a grammar", same, Passed, "byte tokens were barred"},
		"bytes in one":       {"", "500 without a grammar", same, Errored, "500 for text that is no UTF-8"},
		"no number":          {"", "a logit that is none", same, Failed, "the probability of token 5 is no number"},
		"stock no number":    {"a logit that is none", "", same, Errored, "the stock build cannot be compared with"},
		"stock unsteady":     {"unsteady", "", same, Errored, "it does not agree with itself"},
		"stock crashes":      {"crash on load", "", same, Errored, "the stock build cannot be compared with: the server ended"},
		"patched crashes":    {"", "crash on load", same, Failed, "the server ended before it was ready"},
		"no probabilities":   {"no probabilities", "no probabilities", same, Errored, "tells no probabilities"},
		"results":            {"", "", results, Passed, "NMSE 0.000e+00"},
		"other results":      {"", "other logits", results, Failed, "differ from stock's by an NMSE of 3.141e-02"},
		"results crash":      {"", "llama-results crashes", results, Failed, "exit code 134"},
		"stock results":      {"llama-results crashes", "", results, Errored, "the stock build cannot be compared with"},
		"results are silent": {"", "llama-results is silent", results, Failed, "names no NMSE"},
		"perplexity":         {"", "", ppl, Passed, "perplexity 3054.6589, as stock"},
		"other perplexity":   {"", "other logits", ppl, Failed, "says 3055.1234, that of the stock build 3054.6589"},
		"stock perplexity":   {"llama-perplexity crashes", "", ppl, Errored, "the stock build cannot be compared with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, "", tc.check)
			o.Bin, o.Stock = fakeBuildOf(t, tc.patched), fakeBuildOf(t, tc.stock)
			r, err := Run(t.Context(), o)
			if r == nil {
				t.Fatal(err)
			}
			c := r.Checks[0]
			if c.Verdict != tc.verdict || !strings.Contains(c.Detail, tc.want) {
				t.Errorf("%s: %s\nwant %s: %s", c.Verdict, c.Detail, tc.verdict, tc.want)
			}
			differs := strings.Contains(tc.want, "differ from") || strings.Contains(tc.want, "stock gives") || strings.Contains(tc.want, "that of the stock")
			if differs != (c.Fault == FaultTokens) {
				t.Errorf("fault %q", c.Fault)
			}
		})
	}
}

// Where no compiled file is touched there is nothing to compare, and the report
// says so.
func TestSameBinaries(t *testing.T) {
	t.Parallel()
	o := options(t, "", check("same-tokens"), check("tool-results"), loop)
	o.Same, o.Env = "no file that is compiled is touched", append(o.Env, "FAKE=takes its time")
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks[:2] {
		if c.Detail != "same binaries: no file that is compiled is touched" {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	if r.Checks[2].Growth.Stock != nil {
		t.Error("the same binaries were measured twice")
	}
}

// What stock does with a draft as well is no fault of the patched build.
func TestDraftBesideStock(t *testing.T) {
	t.Parallel()
	for stock, want := range map[string]struct {
		verdict Verdict
		detail  string
	}{
		"drafts another": {Passed, "as the stock build does with the same draft"},
		"slow":           {Failed, "token 41 of the greedy ones is"},
	} {
		o := options(t, "", check("speculative"))
		o.Bin, o.Stock = fakeBuildOf(t, "drafts another"), fakeBuildOf(t, stock)
		r, _ := Run(t.Context(), o)
		if c := r.Checks[0]; c.Verdict != want.verdict || !strings.Contains(c.Detail, want.detail) {
			t.Errorf("stock %s: %s: %s\nwant %s: %s", stock, c.Verdict, c.Detail, want.verdict, want.detail)
		}
	}
}

// Memory that nobody can judge is upstream's where stock's rose as far.
func TestBesideRise(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	at := 1
	for name, tc := range map[string]struct {
		kind       memory.Kind
		rose, held float64
		stock      *int
		want       bool
	}{
		"as far":           {memory.Anon, 48 * mib, 48 * mib, &at, true},
		"at the limit":     {memory.Anon, 72 * mib, 48 * mib, &at, true},
		"beyond":           {memory.Anon, 73 * mib, 48 * mib, &at, false},
		"stock stands":     {memory.Anon, 1 * mib, mib - 1, &at, false},
		"no stock":         {memory.Anon, 0, 48 * mib, nil, false},
		"the card's":       {memory.VRAM, 1 * mib, 48 * mib, &at, false},
		"it fell":          {memory.Anon, -1 * mib, 48 * mib, &at, true},
		"stock's a little": {memory.Anon, 1 * mib, mib, &at, true},
	} {
		got, said := besideRise(&Growth{Rose: tc.rose, StockRose: tc.held, Stock: tc.stock}, memory.Verdict{Kind: tc.kind})
		if got != tc.want || got != (said != "") {
			t.Errorf("%s: %v, %q", name, got, said)
		}
	}
}

// The rise of memory counts from the end of the warm-up, by medians of three looks.
func TestRose(t *testing.T) {
	t.Parallel()
	var s memory.Series
	for i, b := range []int64{0, 500, 900, 100, 102, 90, 150, 200, 195, 90000} {
		p := memory.Point{Requests: int64(i)}
		if i > 0 {
			p.Anon = &b
		}
		s.Points = append(s.Points, p)
	}
	for from, want := range map[float64]float64{3: 200 - 100, 0: 200 - 500, 5: 0} {
		if got := rose(s, memory.Request, from); got != want {
			t.Errorf("from %v: %v, want %v", from, got, want)
		}
	}
}

// Stock and patched are measured alike, and growth that stock has as well is upstream's.
func TestStockBesidePatched(t *testing.T) {
	t.Parallel()
	const same, with = "same", "with"
	for name, tc := range map[string]struct {
		stock, patched string // stock: "": there is none; same: it is the same program
		check          spec.Check
		verdict        Verdict
		upstream       bool
		want           string
	}{
		"cured":            {"leaks", "takes its time", loop, Passed, false, "the same answer to"},
		"made worse":       {"takes its time", "leaks", loop, Failed, false, "the stock build's anonymous memory is flat"},
		"both leak":        {"leaks slowly", "leaks slowly", loop, Passed, true, ", so it is upstream's; this is a second try, 4 times as long; at the first: "},
		"both, of tokens":  {"keeps tokens", "keeps tokens", prefill, Passed, true, "the stock build's anonymous memory grows by"},
		"both, of rounds":  {"keeps connections", "keeps connections", hostile, Passed, true, "the stock build's anonymous memory grows by"},
		"leaks more":       {"leaks slowly", "leaks", loop, Failed, false, "KiB a request are not upstream's"},
		"leaks less":       {"leaks", "leaks slowly", loop, Passed, true, "so it is upstream's"},
		"stock dies":       {"dies after a while", "leaks", loop, Failed, false, "whether this is upstream's is not known: the stock build did not get through it: request 21"},
		"stock is silent":  {"silent", "leaks", loop, Failed, false, "whether this is upstream's is not known: the stock build did not get through it: the server printed nothing"},
		"no stock":         {"", "leaks", loop, Failed, false, "is told by a stock build, which `llpatch smoke b8390 linux-cpu` makes"},
		"the same program": {same, "leaks", loop, Passed, true, "it is upstream's, since stock is the same program: nothing is touched"},
		"not stock alone":  {with, "leaks", loop, Failed, false, "stock cannot tell whether this is upstream's, since it has to be built with win7-compat too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, "", tc.check)
			o.Bin = fakeBuildOf(t, tc.patched)
			switch tc.stock {
			case with:
				o.StockWith = []string{"win7-compat"}
				fallthrough
			case same:
				o.Same = "nothing is touched"
			case "":
			default:
				o.Stock = fakeBuildOf(t, tc.stock)
			}
			r, _ := Run(t.Context(), o)
			c := r.Checks[0]
			if c.Verdict != tc.verdict || !strings.Contains(c.Detail, tc.want) || c.Fault != map[Verdict]string{Failed: FaultRSSGrowth}[tc.verdict] {
				t.Errorf("%s, %q: %s\nwant %s: %s", c.Verdict, c.Fault, c.Detail, tc.verdict, tc.want)
			}
			if c.Growth == nil {
				t.Fatal("memory was not watched")
			}
			if got := slices.Contains(c.Growth.Upstream, memory.Anon); got != tc.upstream {
				t.Errorf("upstream's: %v, want %v", got, tc.upstream)
			}
			files, err := r.Files()
			if err == nil {
				files["smoke.json"], err = r.JSON()
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, sign := range map[string]string{
				"smoke.md": ", which is upstream's", "smoke.html": ", which is upstream&#39;s", "smoke.junit.xml": " it is upstream&#39;s", "smoke.json": `"upstream": [`,
			} {
				if strings.Contains(string(files[name]), sign) != tc.upstream {
					t.Errorf("%s has %q: %v\n%s", name, sign, !tc.upstream, files[name])
				}
			}
			if c.Growth.Stock == nil {
				return
			}
			stock, patched := r.Servers[*c.Growth.Stock], r.Servers[c.Growth.Server]
			if stock.Build != "stock" || patched.Build != "patched" || !strings.HasPrefix(stock.Argv[0], o.Stock) || !strings.HasPrefix(patched.Argv[0], o.Bin) {
				t.Errorf("stock is %q, patched %q", stock.Argv[0], patched.Argv[0])
			}
		})
	}
}

// A second try is longer also where a machine does in no time what the check asks for.
func TestSecondTryIsLonger(t *testing.T) {
	t.Parallel()
	r, _ := Run(t.Context(), options(t, "leaks", check("request-loop", "requests", int64(50))))
	if len(r.Servers) != 2 || r.Servers[1].Memory.Ticks < secondTry*leastLooks {
		t.Errorf("%d servers; at the last %d looks were due, want %d at the least", len(r.Servers), r.Servers[len(r.Servers)-1].Memory.Ticks, secondTry*leastLooks)
	}
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
