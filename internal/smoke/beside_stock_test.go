package smoke

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/spec"
)

func TestSameTokens(t *testing.T) {
	t.Parallel()
	same, results, ppl := check("same-tokens"), check("tool-results"), check("tool-perplexity")
	for name, tc := range map[string]struct {
		stock, patched string
		check          spec.Check
		verdict        Verdict
		want           string
	}{
		"equal":     {"", "", same, Passed, "the same tokens and the same logits"},
		"one logit": {"", "one other logit", same, Failed, "prompt 3 of 700 tokens: step 24: stock gives token 77"},
		"within a tolerance": {
			"", "one other logit", check("same-tokens", "tolerance", 1e-6), Passed,
			"logits that differ by 1e-07 at most",
		},
		"bytes":           {"500 without a grammar", "500 without a grammar", same, Passed, "byte tokens were barred"},
		"bytes in one":    {"", "500 without a grammar", same, Errored, "500 for text that is no UTF-8"},
		"no number":       {"", "a logit that is none", same, Failed, "the probability of token 5 is no number"},
		"stock no number": {"a logit that is none", "", same, Errored, "the stock build cannot be compared with"},
		"stock unsteady":  {"unsteady", "", same, Errored, "it does not agree with itself"},
		"stock crashes": {
			"crash on load", "", same, Errored,
			"the stock build cannot be compared with: the server ended",
		},
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
			differs := strings.Contains(tc.want, "differ from") || strings.Contains(tc.want, "stock gives") ||
				strings.Contains(tc.want, "that of the stock")
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
		"cured":      {"leaks", "takes its time", loop, Passed, false, "the same answer to"},
		"made worse": {"takes its time", "leaks", loop, Failed, false, "the stock build's anonymous memory is flat"},
		"both leak": {
			"leaks slowly", "leaks slowly", loop, Passed, true,
			", so it is upstream's; this is a second try, 4 times as long; at the first: ",
		},
		"both, of tokens": {
			"keeps tokens", "keeps tokens", prefill, Passed, true,
			"the stock build's anonymous memory grows by",
		},
		"both, of rounds": {
			"keeps connections", "keeps connections", hostile, Passed, true,
			"the stock build's anonymous memory grows by",
		},
		"leaks more": {"leaks slowly", "leaks", loop, Failed, false, "KiB a request are not upstream's"},
		"leaks less": {"leaks", "leaks slowly", loop, Passed, true, "so it is upstream's"},
		"stock dies": {
			"dies after a while", "leaks", loop, Failed, false,
			"whether this is upstream's is not known: the stock build did not get through it: request 21",
		},
		"stock is silent": {
			"silent", "leaks", loop, Failed, false,
			"whether this is upstream's is not known: the stock build did not get through it: the server printed nothing",
		},
		"no stock": {
			"", "leaks", loop, Failed, false,
			"is told by a stock build, which `llpatch smoke b8390 linux-cpu` makes",
		},
		"the same program": {
			same, "leaks", loop, Passed, true,
			"it is upstream's, since stock is the same program: nothing is touched",
		},
		"not stock alone": {
			with, "leaks", loop, Failed, false,
			"stock cannot tell whether this is upstream's, since it has to be built with win7-compat too",
		},
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
			if c.Verdict != tc.verdict || !strings.Contains(c.Detail, tc.want) ||
				c.Fault != map[Verdict]string{Failed: FaultRSSGrowth}[tc.verdict] {
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
				files["smoke.json"], err = json.MarshalIndent(r, "", "  ")
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, sign := range map[string]string{
				"smoke.md": ", which is upstream's", "smoke.html": ", which is upstream&#39;s",
				"smoke.junit.xml": " it is upstream's", "smoke.json": `"upstream": [`,
			} {
				if strings.Contains(string(files[name]), sign) != tc.upstream {
					t.Errorf("%s has %q: %v\n%s", name, sign, !tc.upstream, files[name])
				}
			}
			if c.Growth.Stock == nil {
				return
			}
			stock, patched := r.Servers[*c.Growth.Stock], r.Servers[c.Growth.Server]
			if stock.Build != "stock" || patched.Build != "patched" || !strings.HasPrefix(stock.Argv[0], o.Stock) ||
				!strings.HasPrefix(patched.Argv[0], o.Bin) {
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
		t.Errorf("%d servers; at the last %d looks were due, want %d at the least", len(r.Servers),
			r.Servers[len(r.Servers)-1].Memory.Ticks, secondTry*leastLooks)
	}
}
