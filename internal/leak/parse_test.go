//go:build linux

package leak

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// The reports are of real runs: valgrind 3.19 and heaptrack 1.4 on testdata/leak.c,
// compute-sanitizer of CUDA 13.0 on an H100; cuda-memcheck's is the example of its
// manual (CUDA 5 to 11).
func TestReports(t *testing.T) {
	for _, c := range []struct {
		file              string
		parse             func([]byte) (Finding, error)
		lost, n, kept, er int64
		places            int
		top               string
	}{
		{"valgrind.xml", parseValgrind, 40960, 10, 0, 0, 1, "request (leak.c:5)"},
		{"heaptrack.txt", parseHeaptrack, 0, 0, 55300, 0, 2, "request (leak.c:5)"},
		{"sanitizer.txt", parseSanitizer, 12582912, 3, 0, 0, 1, "leak(unsigned long) in l.cu:5"},
		{"cuda-memcheck.txt", parseSanitizer, 64, 1, 0, 2, 1, "memcheck_demo"},
	} {
		f, err := c.parse(read(t, c.file))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if f.Lost != c.lost || f.LostN != c.n || f.Kept != c.kept || f.Errors != c.er || len(f.Places) != c.places {
			t.Errorf("%s: %+v", c.file, f)
		}
		if s := strings.Join(f.Places[0].Stack, "\n"); !strings.Contains(s, c.top) {
			t.Errorf("%s: no %q in\n%s", c.file, c.top, s)
		}
	}
}

// A report that is cut anywhere is an error or says less, and never more.
func TestCutReports(t *testing.T) {
	for file, parse := range map[string]func([]byte) (Finding, error){
		"valgrind.xml": parseValgrind, "heaptrack.txt": parseHeaptrack, "sanitizer.txt": parseSanitizer,
	} {
		whole := read(t, file)
		full, err := parse(whole)
		if err != nil {
			t.Fatal(err)
		}
		errs := 0
		for n := 0; n < len(whole); n += 7 {
			f, err := parse(whole[:n])
			if err != nil {
				errs++
			}
			if f.Lost > full.Lost || f.Kept > full.Kept || len(f.Places) > 20 {
				t.Errorf("%s cut at %d: %+v", file, n, f)
			}
		}
		if errs == 0 {
			t.Errorf("%s: no cut is noticed", file)
		}
	}
	for _, bad := range []string{"", "<valgrindoutput><error><kind>Leak_DefinitelyLost</kind><xwhat><leakedbytes>-5</leakedbytes></xwhat></error></valgrindoutput>", "<a><b></a>"} {
		if f, err := parseValgrind([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, f)
		}
	}
}

func FuzzReports(f *testing.F) {
	for _, name := range []string{"valgrind.xml", "heaptrack.txt", "sanitizer.txt", "cuda-memcheck.txt"} {
		f.Add(read(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (Finding, error){parseValgrind, parseHeaptrack, parseSanitizer} {
			r, err := parse(b)
			if err != nil {
				continue
			}
			if r.Lost < 0 || r.LostN < 0 || r.Kept < 0 || r.Errors < 0 || len(r.Places) > maxPlaces {
				t.Errorf("%+v", r)
			}
			for _, p := range r.Places {
				if p.Bytes < 0 || p.Blocks < 0 || len(p.Stack) > maxFrames {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}

func FuzzServer(f *testing.F) {
	f.Add([]byte(`{"prompt_progress":{"total":10,"cache":4,"processed":10}}`))
	f.Add([]byte(`{"stop":true,"timings":{"prompt_n":6,"predicted_n":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ev, err := parseEvent(b); err == nil && (ev.evaluated < 0 || ev.evaluated > 1<<40) {
			t.Errorf("%q: %+v", b, ev)
		}
	})
}

// The real tools on a real program that loses 4 KiB a step.
func TestRealTools(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "leaky")
	out, err := exec.Command("gcc", "-g", "-O0", "-DPAUSE=15000", "-o", bin, "testdata/leak.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := options(t, "")
	o.Env, o.Work = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, filepath.Join(o.Work, "[odd]")
	if err := os.Mkdir(o.Work, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Argv = []string{bin, "100"}
	o.With = []string{"valgrind", "heaptrack"}
	o.Floor = 64 << 10
	res, err := Run(t.Context(), o)
	if res == nil || len(res.Tools) != 2 {
		t.Fatalf("%v\n%+v", err, res)
	}
	text := res.Text()
	for _, want := range []string{
		"an explicit leak", "valgrind: 400 KiB in 100 allocations were lost",
		"request (leak.c:", "heaptrack:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "grows") {
		t.Errorf("%v", err)
	}
}

// A call that returned an error is no wrong access; what is left of the summary is.
func TestFailedCalls(t *testing.T) {
	record := func(err, call string) string {
		return "========= Program hit " + err + " (error 910) due to \"the graph update was not performed\" on CUDA " +
			"API call to " + call + ".\n" +
			"=========     Saved host backtrace up to driver entry point at error\n" +
			"=========         Host Frame: ggml_backend_cuda_graph_compute(ggml_backend*, ggml_cgraph*) [0xf92ea] in " +
			"libggml-cuda.so\n=========\n"
	}
	log := record("cudaErrorGraphExecUpdateFailure", "cudaGraphExecUpdate") +
		record("cudaErrorGraphExecUpdateFailure", "cudaGetLastError") +
		"========= Invalid __global__ read of size 4 bytes\n========= \n" +
		"========= LEAK SUMMARY: 0 bytes leaked in 0 allocations\n========= ERROR SUMMARY: 3 errors\n"
	f, err := parseSanitizer([]byte(log))
	if err != nil || f.Errors != 1 || !slices.Equal(f.API, []string{"cudaErrorGraphExecUpdateFailure in " +
		"cudaGraphExecUpdate", "cudaErrorGraphExecUpdateFailure in cudaGetLastError"}) {
		t.Fatalf("%+v, %v", f, err)
	}
	f.Tool, f.Files = "memcheck", []string{"program.log"}
	r := &Result{Tools: []Finding{f}}
	r.fromTools(false, false)
	said := strings.Join(r.Evidence, "\n")
	for _, want := range []string{"a call returned an error, which is no wrong access: cudaErrorGraphExecUpdateFailure " +
		"in cudaGraphExecUpdate, 1 times; llama.cpp asks", "1 wrong accesses, see program.log"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}
