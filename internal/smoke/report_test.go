package smoke

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with testdata, or writes it under -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./internal/smoke -update)", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got; go test ./internal/smoke -update):\n%s", name, d)
	}
}

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
				Name: "webui", Place: "host", Verdict: Wrong, Detail: "GET / gave 200, text/plain, with \"a | <b>\"\nand no web page", Seconds: 1,
				Log: "/out/server-1.log", Tail: []string{"srv start", "``` not a fence"},
			},
			{Name: "cli", Place: "host", Verdict: NotJudged, Detail: "llama-cli is not in the patched build: stat: no such file or directory"},
			{Name: "completion", Place: "card", Verdict: Absent, Detail: "there is no card on this machine"},
			{
				Name: "request-loop", Place: "host", Verdict: Wrong, Fault: FaultRSSGrowth, Seconds: 9.5,
				Detail: "anonymous memory grows by 64.0 KiB a request (63.9 KiB to 64.1 KiB)", Figures: map[string]any{"requests": 90}, Growth: growth(),
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
			{Check: "stop", Build: "patched", Argv: []string{"/bin/llama-server"}, Log: "/out/server-2.log", End: "signal: killed", Memory: memory.Series{Notes: []string{"no memory was seen"}}},
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
		s.Points = append(s.Points, memory.Point{Seconds: float64(i) / 9, Tokens: 53 * i, Requests: i, RSS: &rss, Anon: &anon})
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
	var failed *Failed
	err := r.judge(nil)
	if !errors.As(err, &failed) {
		t.Fatalf("verdict %s, %v", r.Verdict, err)
	}
	golden(t, "failed.txt", err.Error()+"\n")
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", string(b))
	golden(t, "report.md", r.Markdown())
	goldenFiles(t, r)

	r.Checks = r.Checks[:2]
	r.Servers = r.Servers[:1]
	r.Series = nil
	if err := r.judge(nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "passed.md", r.Markdown())
}

// goldenFiles compares the page and the JUnit file.
func goldenFiles(t *testing.T, r *Report) {
	t.Helper()
	files, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.html", string(files["smoke.html"]))
	golden(t, "report.junit.xml", string(files["smoke.junit.xml"]))
}

func TestJudge(t *testing.T) {
	why := errors.New("disk is full")
	for name, tc := range map[string]struct {
		checks []Result
		why    error
		want   Verdict
	}{
		"all passed":      {[]Result{{Verdict: Passed}, {Verdict: Passed}}, nil, Passed},
		"one failed":      {[]Result{{Verdict: Passed}, {Verdict: Wrong}, {Verdict: NotJudged}}, nil, Wrong},
		"one not run":     {[]Result{{Verdict: Passed}, {Verdict: NotJudged}}, nil, NotJudged},
		"nothing":         {nil, nil, NotJudged},
		"could not begin": {[]Result{{Verdict: NotJudged}}, why, NotJudged},
	} {
		r := &Report{Checks: tc.checks}
		err := r.judge(tc.why)
		var failed *Failed
		var not *NotRun
		if r.Verdict != tc.want || errors.As(err, &failed) != (tc.want == Wrong) || errors.As(err, &not) != (tc.want == NotJudged) {
			t.Errorf("%s: verdict %s, error %v", name, r.Verdict, err)
		}
		if tc.why != nil && !errors.Is(err, why) {
			t.Errorf("%s: %v does not wrap the cause", name, err)
		}
	}
}
