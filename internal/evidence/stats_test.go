package evidence

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/memory"
)

// The interval by the definition, with whole numbers.
func TestInterval(t *testing.T) {
	for n := 1; n <= 200; n++ {
		k, level := interval(n)
		below := func(k int) float64 { // P(Bin(n, 1/2) < k)
			sum := new(big.Int)
			for i := range k {
				sum.Add(sum, new(big.Int).Binomial(int64(n), int64(i)))
			}
			p, _ := new(big.Rat).SetFrac(sum, new(big.Int).Lsh(big.NewInt(1), uint(n))).Float64()
			return p
		}
		if k > 0 && (math.Abs(1-2*below(k)-level) > 1e-9 || level < 0.95) || 1-2*below(k+1) >= 0.95 || k > n/2 {
			t.Errorf("n = %d: k = %d at %v", n, k, level)
		}
	}
	// The usual table.
	for n, want := range map[int]int{1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 12: 3, 20: 6, 25: 8} {
		if k, _ := interval(n); k != want {
			t.Errorf("n = %d: k = %d, want %d", n, k, want)
		}
	}
}

func TestRatio(t *testing.T) {
	v := []float64{0.853, 0.863, 0.899, 0.964, 1.019, 1.023, 1.023, 1.047, 1.067, 1.196}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
	r := ratioOf(v, 12)
	if got := r.String(); got != "1.021 (0.863 to 1.067)" || r.Note != "2 of 12 pairs have no figure" ||
		math.Abs(r.Level-0.978515625) > 1e-12 || !slices.Equal(r.Values, v) {
		t.Errorf("%s %+v", got, r)
	}
	r = ratioOf([]float64{3, 1, 2}, 3)
	if r.String() != "2.000" || r.Low != nil || !strings.Contains(r.Note, "six are the least") {
		t.Errorf("%+v", r)
	}
}

func TestThin(t *testing.T) {
	var s memory.Series
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 50_000 {
		rss := int64(1<<30 + r.IntN(1<<20)<<10)
		p := memory.Point{Seconds: float64(i) / 50, RSS: &rss}
		if i%2 == 0 {
			vram := int64(100 << 20)
			if i == 31_416 {
				vram = 900 << 20
			}
			p.VRAM = &vram
		}
		s.Points = append(s.Points, p)
	}
	high, low := int64(9<<30), int64(4096)
	s.Points[77].RSS, s.Points[40_001].RSS = &high, &low
	got := thin(s)
	if len(got.RSS) > maxSamples || len(got.RSS) < maxSamples*9/10 || len(got.MS) != len(got.RSS) ||
		!slices.IsSorted(got.MS) || got.Looks != 50_000 {
		t.Errorf("%d %d", len(got.RSS), len(got.MS))
	}
	if slices.Max(got.RSS) != high>>10 || slices.Min(got.RSS) != low>>10 || got.MS[0] != 0 ||
		got.MS[len(got.MS)-1] != 999_980 {
		t.Errorf("%d %d", slices.Max(got.RSS), slices.Min(got.RSS))
	}
	// A plateau is its ends.
	if want := []int64{102400, 102400, 921600, 102400, 102400}; !slices.Equal(got.VRAM, want) || got.VRAMMS[2] != 628_320 {
		t.Errorf("%v %v", got.VRAM, got.VRAMMS)
	}
}

func TestHide(t *testing.T) {
	p := &Plan{Builds: []Build{{Name: "stock", Dir: "/srv/b/stock/bin"}, {Name: "ours", Dir: "/srv/b/ours/bin"}}}
	h := newHider(p, map[string]string{"M": "/srv/models", "B": "/srv/b", "N": "512", "EMPTY": ""})
	for text, want := range map[string]string{
		"/srv/b/stock/bin/llama-bench":                          "{stock}/llama-bench",
		"/srv/b/ours/bin":                                       "{ours}",
		"/srv/b/stock/bin2/x /srv/models-old/m":                 "{B}/stock/bin2/x {path}/m",
		"--model=/srv/models/m.gguf":                            "--model={M}/m.gguf",
		"LD_LIBRARY_PATH=/srv/b/ours/bin:/home/me/lib:/usr/lib": "LD_LIBRARY_PATH={ours}:{path}/lib:/usr/lib",
		"at /home/me/llama.cpp/ggml/src/ggml.c:123: abort":      "at {path}/ggml.c:123: abort",
		"(/home/me/x/y.so+0x12) [0x1234]":                       "({path}/y.so+0x12) [0x1234]",
		"42.1 t/s, 512/512, http://127.0.0.1:8080/health":       "42.1 t/s, 512/512, http://127.0.0.1:8080/health",
		"/usr/lib/x86_64-linux-gnu/libc.so.6":                   "/usr/lib/x86_64-linux-gnu/libc.so.6",
		"-I/home/me/inc -L/srv/b/lib \"-I/srv/models\"":         "-I{path}/inc -L{B}/lib \"-I{M}\"",
		"file:///home/me/x.html file:///srv/b/y":                "file://{path}/x.html file://{B}/y",
		"/home/jürgen/日本/m.gguf":                                "{path}/m.gguf",
		`a\n/home/me/x\n/srv/b/y`:                               `a\n{path}/x\n{B}/y`,
		"/home//me/x":                                           "{path}/x",
		"a/b/c/d x-I/b/c https://example.org/a/b/c":             "a/b/c/d x-I/b/c https://example.org/a/b/c",
		"512 layers":                  "512 layers",
		"'/srv/a/b.gguf' \"/tmp/x/\"": "'{path}/b.gguf' \"{path}/\"",
	} {
		if got := h.text(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A record has one line a run, whatever stands in its texts.
func TestJSONLines(t *testing.T) {
	r := &Result{What: "a [\n   1\n  ] text", Builds: map[string]Built{"stock": {}}, Plan: "x", Runs: []Run{
		{Argv: []string{"a", "\n   b"}, Sample: Samples{MS: []int64{1, 20, 300}, RSS: []int64{}}, Kept: []string{"1", "2"}},
		{Name: "second"},
	}}
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(b)
	if err != nil || back.What != r.What || !slices.Equal(back.Runs[0].Argv, r.Runs[0].Argv) ||
		fmt.Sprint(back.Runs[0].Sample) != fmt.Sprint(r.Runs[0].Sample) {
		t.Errorf("%v: %s", err, b)
	}
	for _, line := range []string{
		`(?m)^ "runs": \[$`, `(?m)^  \{"name": "",.*"kept": \["1","2"\],.*"ms": \[1,20,300\],"rss_kib": \[\]\}\},$`,
		`(?m)^  \{"name": "second",.*\}\}$`, `(?m)^ \],$`,
	} {
		if !regexp.MustCompile(line).Match(b) {
			t.Errorf("no line like %s in\n%s", line, b)
		}
	}
	for _, bad := range []string{"", "[]", "{}", `{"runs":[]}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a record", bad)
		}
	}
}

func TestBenchFaults(t *testing.T) {
	for out, want := range map[string]string{
		"": "no figures", "=========\n": "no figures", "[": "no JSON", "[]": "no test", `[{"n_prompt":1}]`: "without a speed",
		`[{"n_prompt":1,"avg_ts":1e300}]`: "without a speed", `[{"n_prompt":1,"avg_ts":1e-320}]`: "without a speed",
	} {
		if _, err := parseBench([]byte(out)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", out, err)
		}
	}
}

func TestSpeeds(t *testing.T) {
	pp, tg := speeds([]Test{{Prompt: 512, TPS: 99}, {Gen: 16, TPS: 50}, {Gen: 48, TPS: 25}, {Prompt: 8, Gen: 8, TPS: 1}})
	if pp == nil || *pp != 99 || tg == nil || math.Abs(*tg-64/(16.0/50+48.0/25)) > 1e-9 {
		t.Errorf("%v %v", *pp, *tg)
	}
	if pp, tg := speeds(nil); pp != nil || tg != nil {
		t.Errorf("%v %v", pp, tg)
	}
}

func FuzzBench(f *testing.F) {
	f.Add([]byte(`[{"n_prompt":512,"n_gen":0,"avg_ts":10.5,"samples_ts":[1]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tests, err := parseBench(b)
		pp, tg := speeds(tests)
		if err == nil && (pp != nil && !(*pp > 0) || tg != nil && !(*tg > 0)) {
			t.Errorf("%q: %v %v", b, pp, tg)
		}
	})
}

// Memory is told in whole MiB, the nearest.
func TestRemember(t *testing.T) {
	const half = 1 << 19
	for bytes, want := range map[int64]int64{0: 0, half - 1: 0, half: 1, 3*half - 1: 1, 3 * half: 2} {
		var rec Run
		rec.remember(memory.Series{
			Points: []memory.Point{{RSS: &bytes, VRAM: &bytes}},
			Device: memory.Device{Baseline: bytes},
		})
		for _, got := range []*int64{rec.RSS, rec.PeakVRAM, rec.Idle} {
			if got == nil || *got != want {
				t.Errorf("%d bytes: %+v, want %d MiB", bytes, rec, want)
			}
		}
	}
}
