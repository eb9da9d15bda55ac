package smoke

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"golang.org/x/net/html"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/memory"
)

// mixed has every verdict, and texts that would break a table.
func mixed() *Report {
	return &Report{
		Tag: "b8390", Target: "linux-cpu", Place: "host", Want: want,
		Commit: "b6c83aad5", Tree: "f4f156dc5", Series: []string{"graph-cache-lru", "ubatch-pool-purge"},
		Machine: Machine{OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPU: "AMD EPYC", Cores: 2, MemoryKiB: 8 << 20},
		Started: time.Date(2026, 11, 28, 1, 2, 3, 0, time.UTC), Seconds: 12.345678,
		ReadySeconds: 0.0309, PeakRSSKiB: 45678,
		Checks: []Result{
			{Name: "version", Place: "host", Verdict: Passed, Detail: "build 8390, commit b10e98a-llp1", Seconds: 0.012},
			{
				Name: "completion", Place: "host", Verdict: Passed, Detail: "the same tokens twice and streamed", Seconds: 0.1,
				Figures: map[string]any{"tokens_per_second": 4321.98765, "tokens": 48},
			},
			{
				Name: "webui", Place: "host", Verdict: Failed,
				Detail: "GET / gave 200, text/plain, with \"a | <b>\"\nand no web page", Seconds: 1,
				Log: "/out/server-1.log", Tail: []string{"srv start", "``` not a fence"},
			},
			{
				Name: "cli", Place: "host", Verdict: Errored,
				Detail: "llama-cli is not in the patched build: stat: no such file or directory",
			},
			{Name: "completion", Place: "card", Verdict: Skipped, Detail: "there is no card on this machine"},
			{
				Name: "request-loop", Place: "host", Verdict: Failed, Fault: FaultRSSGrowth, Seconds: 9.5,
				Detail:  "anonymous memory grows by 64.0 KiB a request (63.9 KiB to 64.1 KiB)",
				Figures: map[string]any{"requests": 90}, Growth: growth(),
			},
		},
		Models: []ModelInfo{{
			Model: gguf.Model{Layers: 4, Embd: 256, Heads: 4, KVHeads: 2, FF: 512, Context: 4096, Type: gguf.F16, Seed: 1},
			Info:  gguf.Info{Bytes: 5101056, SHA256: "00a465f7", Tensors: 39}, Path: "/out/model-f16.gguf",
		}},
		Servers: []ServerRun{
			{
				Check: "completion", Argv: []string{"/bin/llama-server", "--port", "4000"}, Log: "/out/server-1.log",
				Build: "patched", ReadySeconds: 0.0309, End: "exit code 0", PeakRSSKiB: 45678, PeakPSSKiB: 40000,
			},
			{
				Check: "stop", Build: "patched", Argv: []string{"/bin/llama-server"}, Log: "/out/server-2.log",
				End: "signal: killed", Memory: memory.Series{Notes: []string{"no memory was seen"}},
			},
			{
				Check: "request-loop", Build: "stock", Argv: []string{"/stock/llama-server"}, Log: "/out/server-3.log",
				ReadySeconds: 0.03, End: "exit code 0", PeakRSSKiB: 61000, Memory: leaking("stock", 0),
			},
			{
				Check: "request-loop", Build: "patched", Argv: []string{"/bin/llama-server"}, Log: "/out/server-4.log",
				ReadySeconds: 0.03, End: "exit code 0", PeakRSSKiB: 80000, Memory: leaking("patched", 64<<10),
			},
		},
	}
}

// leaking is the memory of a server that keeps so many bytes of every request.
func leaking(name string, bytes int64) memory.Series {
	s := memory.Series{Name: name, EverySecs: 0.1}
	for i := range int64(90) {
		rss := 60<<20 + i*bytes + i%7*4096
		anon := rss - 20<<20
		s.Points = append(s.Points, memory.Point{
			Seconds: float64(i) / 9, Tokens: 53 * i, Requests: i, RSS: &rss,
			Anon: &anon,
		})
	}
	return s
}

// growth is that of the last two servers of mixed.
func growth() *Growth {
	stock := 2
	judge := func(s memory.Series) []memory.Verdict {
		return memory.Judge(s, memory.JudgeOptions{Unit: memory.Request})
	}
	return &Growth{
		Unit: memory.Request, Server: 3, Judged: judge(leaking("patched", 64<<10)),
		Stock: &stock, StockJudged: judge(leaking("stock", 0)),
	}
}

func TestReportGolden(t *testing.T) {
	r := mixed()
	var failed *FailedChecks
	err := r.judge(nil)
	if !errors.As(err, &failed) {
		t.Fatalf("verdict %s, %v", r.Verdict, err)
	}
	golden.Check(t, "testdata/failed.txt", err.Error()+"\n")
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report.json", string(b)+"\n")
	golden.Check(t, "testdata/report.md", r.Markdown())
	goldenFiles(t, r)

	r.Checks = r.Checks[:2]
	r.Servers = r.Servers[:1]
	r.Series = nil
	if err := r.judge(nil); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/passed.md", r.Markdown())
}

// goldenFiles compares the page and the JUnit file.
func goldenFiles(t *testing.T, r *Report) {
	t.Helper()
	files, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report.html", files["smoke.html"])
	golden.Check(t, "testdata/report.junit.xml", files["smoke.junit.xml"])
}

func TestJudge(t *testing.T) {
	why := errors.New("disk is full")
	for name, tc := range map[string]struct {
		checks []Result
		why    error
		want   Verdict
	}{
		"all passed":      {[]Result{{Verdict: Passed}, {Verdict: Passed}}, nil, Passed},
		"one failed":      {[]Result{{Verdict: Passed}, {Verdict: Failed}, {Verdict: Errored}}, nil, Failed},
		"one not run":     {[]Result{{Verdict: Passed}, {Verdict: Errored}}, nil, Errored},
		"nothing":         {nil, nil, Errored},
		"could not begin": {[]Result{{Verdict: Errored}}, why, Errored},
	} {
		r := &Report{Checks: tc.checks}
		err := r.judge(tc.why)
		var failed *FailedChecks
		var not *NotRun
		if r.Verdict != tc.want || errors.As(err, &failed) != (tc.want == Failed) ||
			errors.As(err, &not) != (tc.want == Errored) {
			t.Errorf("%s: verdict %s, error %v", name, r.Verdict, err)
		}
		if tc.why != nil && !errors.Is(err, why) {
			t.Errorf("%s: %v does not wrap the cause", name, err)
		}
	}
}

// What a program printed means nothing in any form of the report.
func TestReportEscapes(t *testing.T) {
	evil := "<script>alert(1)</script> \"' ]]> & \x00\x1b[31m\xff | `x` ![a](http://b) @you\n# big"
	r := &Report{
		Tag: evil, Target: evil, Place: "host", Series: []string{evil}, Card: evil, Started: time.Unix(0, 0),
		Machine: Machine{OS: "linux", Arch: "amd64", CPU: evil},
		Checks: []Result{
			{
				Name: evil, Place: "host", Verdict: Failed, Fault: evil, Detail: evil, Tail: []string{evil, "```"}, Log: evil,
				Figures: map[string]any{evil: evil},
			},
			{
				Name: "loop", Place: "host", Verdict: Errored, Detail: evil,
				Growth: &Growth{Unit: memory.Request, StockNote: evil, Server: 7},
			},
			{Name: "loop", Place: evil, Verdict: Skipped, Detail: evil},
		},
		Servers: []ServerRun{{Check: evil, Build: evil, End: evil, Memory: leaking(evil, 1)}},
	}
	r.Checks = append(r.Checks, Result{
		Name: "chart", Place: "host", Verdict: Passed,
		Growth: &Growth{Unit: memory.Request, StockNote: evil},
	})
	files, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(files["smoke.html"]))
	if err != nil {
		t.Fatal(err)
	}
	charts := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		charts += strings.Count(n.Data, "svg")
		if slices.Contains([]string{"script", "img", "iframe", "link", "object"}, n.Data) {
			t.Errorf("the page has a <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
				t.Errorf("the page has <%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	if charts != 1 {
		t.Errorf("the page has %d charts", charts)
	}
	md := string(files["smoke.md"])
	for _, bad := range []string{"<script", "![a](", "@you"} {
		// A fence is the place where everything is shown as it is.
		if before, _, _ := strings.Cut(md, "````"); strings.Contains(before, bad) {
			t.Errorf("the Markdown has %q", bad)
		}
	}
	var suites junit.Testsuites
	if err := xml.Unmarshal(files["smoke.junit.xml"], &suites); err != nil {
		t.Fatalf("%v\n%s", err, files["smoke.junit.xml"])
	}
	if got := suites.Suites[0].Testcases; len(got) != 4 || got[0].Failure == nil || got[1].Error == nil ||
		got[2].Skipped == nil || got[3].SystemOut != nil {
		t.Errorf("cases %+v", got)
	}
	if suites.Tests != 4 || suites.Failures != 1 || suites.Errors != 1 || suites.Skipped != 1 {
		t.Errorf("counts %+v", suites)
	}
}
