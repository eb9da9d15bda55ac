//go:build linux

package leak

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
)

// options are those of a run of the tests' server. Its heap takes up to 2 MiB in the
// first hundred requests by itself (Go's, on a busy machine), which is not what is judged.
func options(t *testing.T, kind string) Options {
	t.Helper()
	return Options{
		Argv: []string{serverPath(t), "--port", "0", "--mark", mark(t)},
		Env:  []string{"HELPER=" + kind, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"},
		Work: t.TempDir(), Every: memory.MinEvery, Ready: 20 * time.Second, Floor: 4 << 20,
	}
}

func TestServers(t *testing.T) {
	for _, c := range []struct {
		kind, workload string
		class          Class
		grows          bool
		rate           float64 // bytes a unit, 0: not looked at
		evidence       string
	}{
		{"flat", "requests", None, false, 0, ""},
		{"leaks by request", "requests", Unknown, true, 256 << 10, ""},
		{"leaks by token", "prefill", Unknown, true, 16 << 10, ""},
		{"needs by token", "auto", Need, false, 16 << 10, "not again"},
		{"prompt cache", "requests", Cache, true, 256 << 10, "8192 MiB"},
		{"leaks by request", "test -n \"$LLPATCH_URL\"", None, false, 0, ""}, // the command asks nothing of the server
	} {
		t.Run(c.kind+" "+c.workload, func(t *testing.T) {
			t.Parallel()
			o := options(t, c.kind)
			o.Workload = c.workload
			if c.workload == "requests" {
				o.Requests = 120
			}
			res, err := Run(t.Context(), o)
			var grew *Grew
			if errors.As(err, &grew) != c.grows || (err != nil && !c.grows) {
				t.Fatalf("error %v, want growth: %v", err, c.grows)
			}
			if res.Class != c.class {
				// A runtime's heap may settle in the first requests.
				if !(c.class == None && res.Class == Settles) {
					t.Errorf("class %q, want %q\n%s", res.Class, c.class, res.Text())
				}
			}
			v, ok := res.verdict(memory.Anon)
			if !ok {
				t.Fatalf("no verdict: %s", res.Text())
			}
			if c.rate > 0 && (v.Growth.Slope < 0.95*c.rate || v.Growth.Slope > 1.1*c.rate) {
				t.Errorf("%s, want %.0f B", v, c.rate)
			}
			if !strings.Contains(res.Text(), c.evidence) {
				t.Errorf("no %q in\n%s", c.evidence, res.Text())
			}
			noProcess(t, mark(t))
		})
	}
}

func TestTrouble(t *testing.T) {
	for _, c := range []struct {
		kind, workload, why string
		ready               time.Duration
	}{
		{"silent, exits", "auto", "before it was ready, and printed nothing", 0},
		{"crashes", "auto", "failed to load model", 0},
		{
			"silent, hangs", "auto", "not ready within 400ms: it listens on no port, and it printed nothing",
			400 * time.Millisecond,
		},
		{"never answers", "requests", "answered no request within 2s (--for)", 0},
		{"answers 500", "requests", "gave 500", 0},
		{"cuts", "requests", "ended in the middle", 0},
		{"flat", "prefill", "does not fit the slot, which holds 4096", 0},
		{"flat", "exit 3", "the workload failed at run 1", 0},
	} {
		t.Run(c.kind+" "+c.workload, func(t *testing.T) {
			t.Parallel()
			o := options(t, c.kind)
			o.Workload = c.workload
			if c.workload == "prefill" {
				o.Tokens = 5000
			}
			if c.kind == "never answers" {
				o.For = 2 * time.Second
			}
			if c.ready > 0 {
				o.Ready = c.ready
			}
			_, err := Run(t.Context(), o)
			var n *NotRun
			if !errors.As(err, &n) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %q", err, c.why)
			}
			noProcess(t, mark(t))
		})
	}
}

// A device that was to be looked at and is not there is no flat memory.
func TestNoVRAM(t *testing.T) {
	o := options(t, "flat")
	o.Workload, o.Requests = "requests", 60
	o.Probe, o.Source = memory.Simulated(filepath.Join(t.TempDir(), "state")), "simulated device"
	res, err := Run(t.Context(), o)
	if err != nil || res.Class != HostOnly {
		t.Fatalf("%v, class %s", err, res.Class)
	}
	for _, want := range []string{
		"no leak of host memory; VRAM is not known", "VRAM is not known: ",
		"was never written",
	} {
		if !strings.Contains(res.Text(), want) {
			t.Errorf("no %q in\n%s", want, res.Text())
		}
	}
	o.Named = true // by name: nothing is told without it
	o.Work = t.TempDir()
	res, err = Run(t.Context(), o)
	var n *NotRun
	if !errors.As(err, &n) || !strings.Contains(err.Error(), "was never written") || res.Class != Unjudged ||
		!strings.Contains(res.Text(), "VRAM could not be judged") {
		t.Errorf("%v\n%s", err, res.Text())
	}
	o.Argv, o.Env[0], o.Work = []string{o.Argv[0], "--port", "0"}, "HELPER=leaks by request", t.TempDir()
	res, err = Run(t.Context(), o)
	var grew *Grew
	if !errors.As(err, &grew) || !strings.Contains(res.Text(), "VRAM is not known: ") {
		t.Errorf("%v\n%s", err, res.Text())
	}
}

// Host memory of a program elsewhere that is not known, or not to the end, is not flat.
func TestHostEnds(t *testing.T) {
	device := filepath.Join(t.TempDir(), "state") // never written
	for name, c := range map[string]struct {
		figures int
		probe   memory.Probe
		want    []string
	}{
		"ends": {40, nil, []string{
			"host memory is known only up to 2.",
			"anonymous memory cannot be judged: it is known only up to 2.", "it went silent",
		}},
		"never comes": {0, nil, []string{"nothing is known of its memory: host memory is not known: it went silent"}},
		"comes once":  {1, nil, []string{"nothing is known of its memory: host memory is not known: it went silent"}},
		"VRAM alone": {0, memory.Poll("card", func(context.Context, []int) (memory.Reading, error) {
			return memory.Reading{Used: 1 << 30, Total: 2 << 30}, nil
		}), []string{"host memory is not known: it went silent"}},
		"VRAM is unknown": {0, memory.Simulated(device), []string{
			"nothing is known of its memory: ",
			"host memory is not known: it went silent",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{
				Argv: []string{"/bin/sh", "-c", "sleep 30"}, Env: []string{"PATH=" + os.Getenv("PATH")}, Work: t.TempDir(),
				For: 6 * time.Second, RemoteName: "box", Probe: c.probe, Source: "card",
				Remote: func(ctx context.Context, _ time.Duration, out func(memory.RemoteReading)) error {
					for range c.figures {
						out(memory.RemoteReading{Private: 5 << 20, WorkingSet: 6 << 20})
						time.Sleep(50 * time.Millisecond)
					}
					<-ctx.Done()
					return errors.New("it went silent")
				},
			}
			if c.figures == 0 {
				o.For = 1500 * time.Millisecond
			}
			res, err := Run(t.Context(), o)
			var n *NotRun
			if !errors.As(err, &n) || res.Class != Unjudged {
				t.Fatalf("%v\n%s", err, res.Text())
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error()+"\n"+res.Text(), want) {
					t.Errorf("no %q in %v\n%s", want, err, res.Text())
				}
			}
			if !strings.Contains(res.Headline(), "could not be judged") {
				t.Error(res.Headline())
			}
		})
	}
}

// What to do about a run that is too short to judge.
func TestTooShort(t *testing.T) {
	o := options(t, "needs by token")
	o.Workload, o.Tokens, o.Every = "prefill", 96, memory.MaxEvery
	_, err := Run(t.Context(), o)
	var n *NotRun
	if !errors.As(err, &n) || !strings.Contains(err.Error(), "--tokens") ||
		!strings.Contains(err.Error(), "than every 1s: --every 20ms") {
		t.Errorf("%v", err)
	}
	o.Tokens = 50
	if _, err = Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "50 tokens is too short") {
		t.Errorf("%v", err)
	}
}

// A server that dies on the way is judged until then, and its end is told.
func TestDiesOnTheWay(t *testing.T) {
	o := options(t, "dies")
	o.Workload = "requests"
	res, err := Run(t.Context(), o)
	var grew *Grew
	if !errors.As(err, &grew) {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(res.Text(), "CUDA error: out of memory") || !strings.Contains(res.End, "exit code 1") {
		t.Errorf("%s\nend %q", res.Text(), res.End)
	}
}

func TestHangsInShutdown(t *testing.T) {
	o := options(t, "hangs in shutdown")
	o.Workload, o.Requests = "requests", 40
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(res.Text(), "its shutdown hangs") {
		t.Errorf("%s", res.Text())
	}
	noProcess(t, mark(t))
}

func TestAnyProgram(t *testing.T) {
	o := options(t, "grows by itself")
	o.Argv = []string{filepath.Join(t.TempDir(), "any"), mark(t)}
	if err := os.Symlink(serverPath(t), o.Argv[0]); err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), o)
	var grew *Grew
	if !errors.As(err, &grew) {
		t.Fatalf("%v", err)
	}
	if res.Workload != "none" || !strings.Contains(err.Error(), "a second") {
		t.Errorf("%v\n%s", err, res.Text())
	}
	o.Argv = []string{"/bin/sh", "-c", "sleep 30"}
	o.For = 1500 * time.Millisecond
	if res, err = Run(t.Context(), o); err != nil || res.Class != None {
		t.Errorf("%v %v", err, res.Text())
	}
}

func TestCancel(t *testing.T) {
	o := options(t, "flat")
	o.Workload = "requests"
	o.Requests = 100000
	ctx, cancel := contextAfter(t, time.Second)
	defer cancel()
	if _, err := Run(ctx, o); !errors.Is(err, ctx.Err()) || err == nil {
		t.Errorf("%v", err)
	}
	noProcess(t, mark(t))
}

func TestMissingTool(t *testing.T) {
	for _, name := range []string{"memcheck", "nsys"} {
		o := options(t, "flat")
		o.With = []string{name}
		o.Env = []string{"PATH=" + t.TempDir()}
		_, err := Run(t.Context(), o)
		var n *NotRun
		if !errors.As(err, &n) || !strings.Contains(err.Error(), "install") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPage(t *testing.T) {
	o := options(t, "leaks by request")
	o.Workload, o.Requests = "requests", 80
	res, err := Run(t.Context(), o)
	var grew *Grew
	if !errors.As(err, &grew) {
		t.Fatal(err)
	}
	other := res.Series
	other.Name = "stock <i>"
	b, err := res.HTML(other)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "a leak, or a cache without bounds", "--with valgrind", "stock &lt;i&gt;"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(string(b), "ZgotmplZ") {
		t.Error("a value was refused by the template")
	}
	if dir := os.Getenv("PAGE_DIR"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "page.html"), []byte(string(b)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What is said of VRAM that grows by 34 KiB a token, as issue 687 of ik_llama.cpp
// measured it, on a card of 24 GiB.
func TestConclusionOfVRAM(t *testing.T) {
	grown := func(until int64) *Result {
		r := &Result{Argv: []string{"llama-server", "-ctk", "q8_0"}, Workload: "prefill", WorkTo: 1e9}
		r.Series = memory.Series{Name: "llama-server", Device: memory.Device{
			Total: 24 << 30, Baseline: 1 << 30,
			Source: "nvidia-smi", Cards: 1,
		}}
		for i := range int64(600) {
			x := i * 32
			v := 20<<30 + min(x, until)*34<<10
			a := int64(700 << 20)
			r.Series.Points = append(r.Series.Points, memory.Point{Seconds: float64(i), Tokens: x, VRAM: &v, Anon: &a})
		}
		o := Options{Argv: r.Argv}
		r.judge(o)
		r.conclude(o)
		return r
	}
	leak, need := grown(1<<40), grown(9600)
	if leak.Class != Unknown || need.Class != Need {
		t.Errorf("%s, %s\n%s\n%s", leak.Class, need.Class, leak.Text(), need.Text())
	}
	// 23 GiB are free and 20 taken: 3 GiB of 34 KiB are 92,521 tokens.
	for _, want := range []string{
		"VRAM grows by 34.0 KiB a token", "runs out after 9252", "--with memcheck",
		"-ctk f16 -ctv f16", "131072 tokens: 24.2 GiB of VRAM",
	} {
		if !strings.Contains(leak.Text(), want) {
			t.Errorf("no %q in\n%s", want, leak.Text())
		}
	}
	for _, want := range []string{"not again", "by 34.0 KiB a token", "runs out after 9252", "-ctk f16"} {
		if !strings.Contains(need.Text(), want) {
			t.Errorf("no %q in\n%s", want, need.Text())
		}
	}
	// The device's tool decides: lost, or a cache.
	for _, c := range []struct {
		f    Finding
		want Class
	}{
		{Finding{
			Tool: "memcheck", Lost: 100, LostN: 12, Requests: 12,
			Places: []Place{{Bytes: 100, Blocks: 12, Stack: []string{"cudaMalloc"}}},
		}, Explicit},
		{Finding{Tool: "memcheck", Requests: 12}, Cache},
		{Finding{Tool: "memcheck", Lost: 100, LostN: 1, Requests: 12, Places: []Place{{Bytes: 100, Blocks: 1}}}, Unknown},
		{Finding{Tool: "valgrind", Requests: 12}, Unknown}, // it does not see the device
	} {
		r := grown(1 << 40)
		r.Class, r.Evidence, r.Next, r.Forecast = "", nil, nil, nil
		r.Tools = []Finding{c.f}
		r.conclude(Options{Argv: r.Argv})
		if r.Class != c.want {
			t.Errorf("%+v: %s, want %s", c.f, r.Class, c.want)
		}
	}
	if dir := os.Getenv("PAGE_DIR"); dir != "" {
		leak.Series.Name = "stock"
		need.Series.Name = "patched"
		b, err := leak.HTML(need.Series)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "vram.html"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
