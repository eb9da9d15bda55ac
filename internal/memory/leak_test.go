//go:build linux

package memory

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// make leaks runs the full figures of docs/memory.md; the rest of the time a few.
var (
	leakRuns = flag.Int("leaks", 2, "runs of a program with a known leak")
	flatRuns = flag.Int("flats", 3, "runs of a program without one")
)

// A real program with a known leak: the slope must be within 2 %.
func TestRealLeak(t *testing.T) {
	worst := 0.0
	for i := range *leakRuns {
		keep := []int{64 << 10, 256 << 10, 1 << 20}[i%3]
		kind := []string{"plain", "warm"}[i%2]
		requests := 300
		if keep == 64<<10 {
			requests = 600 // 19 MiB under buffers that swing by 2 are not measured to 2 %
		}
		s := watch(t, Options{Every: MinEvery}, fmt.Sprintf("work %d %d %d %s", i, requests, keep, kind))
		v := JudgeKind(s, Anon, JudgeOptions{Unit: Request})
		off := v.Growth.Slope/float64(keep) - 1
		worst = max(worst, math.Abs(off))
		t.Logf("seed %d, %s, %d KiB a request: %v, off by %.2f %%, %d looks, %d missed", i, kind, keep>>10, v, 100*off,
			len(s.Points), s.Missed)
		if v.State != Grows || math.Abs(off) > 0.02 {
			t.Errorf("seed %d: %v, want %d KiB a request within 2 %%", i, v, keep>>10)
		}
	}
	t.Logf("%d runs, the slope is off by %.2f %% at most", *leakRuns, 100*worst)
}

// Shared memory that no file backs is a leak like any other: statm counts it among
// the pages of files.
func TestRealSharedLeak(t *testing.T) {
	const keep = 256 << 10
	s := watch(t, Options{Every: MinEvery}, fmt.Sprintf("work 1 200 %d shared", keep))
	v := JudgeKind(s, Anon, JudgeOptions{Unit: Request})
	if v.State != Grows || math.Abs(v.Growth.Slope/keep-1) > 0.02 {
		t.Errorf("%v, want 256 KiB a request within 2 %%", v)
	}
}

// A mapped file is not the program's own, what is swapped out still is, and a zombie has nothing.
func TestParseStatus(t *testing.T) {
	for text, want := range map[string]hosted{
		"Name:\tx\nVmRSS:\t 30 kB\nRssAnon:\t 10 kB\nRssFile:\t 12 kB\nRssShmem:\t 8 kB\n": {
			resident: 30 << 10, own: 18 << 10,
		},
		"Name:\tx\nRssAnon:\t 10 kB\nRssFile:\t 12 kB\nRssShmem:\t 0 kB\nVmSwap:\t 7 kB\n": {
			resident: 22 << 10, own: 17 << 10, swapped: 7 << 10,
		},
		"Name:\tx\nState:\tZ (zombie)\n": {},
	} {
		if got, ok := parseStatus([]byte(text)); got != want || !ok {
			t.Errorf("%q: %+v, %v, want %+v", text, got, ok, want)
		}
	}
	for _, bad := range []string{"Name:\tx\nRssAnon:\t-1 kB\n", "Name:\tx\nVmSwap:\t-1 kB\n", "Rss:\t1 kB\n"} {
		if _, ok := parseStatus([]byte(bad)); ok {
			t.Errorf("%q is taken", bad)
		}
	}
}

// The system may swap a program out while it takes more: of 300 MiB 58 stay and 9,216 are in
// swap, zswap or zram, all of which VmSwap counts. A program that is out as a whole is still there.
func TestSwapIsMemory(t *testing.T) {
	s := Series{Name: "swapped"}
	const looks = 40
	for i := range looks {
		file := filepath.Join(t.TempDir(), "status")
		f := float64(i) / (looks - 1)
		resident, swapped := 307200-int64(f*(307200-59392)), int64(f*9437184)
		if i == looks-1 {
			resident = 0
			swapped += 59392
		}
		text := fmt.Sprintf("Name:\tx\nRssAnon:\t%d kB\nRssFile:\t0 kB\nRssShmem:\t0 kB\nVmSwap:\t%d kB\n", resident, swapped)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		status, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		// Nothing new is looked for: there is no such process.
		p := &procs{
			open: map[int]*os.File{-1: status}, buf: make([]byte, maxStatus),
			next: time.Now().Add(time.Hour), nextP: time.Now().Add(time.Hour),
		}
		pt := Point{Seconds: float64(i), Requests: int64(i)}
		alive := p.look(&pt)
		p.close()
		if !alive {
			t.Fatalf("look %d: it is taken for gone", i)
		}
		s.Points = append(s.Points, pt)
	}
	first, last := *s.Points[0].Anon, *s.Points[looks-1].Anon
	if first>>20 != 300 || last>>20 != 9274 || *s.Points[looks-1].Swap>>20 != 9274 {
		t.Errorf("%d to %d MiB, of them %d in swap", first>>20, last>>20, *s.Points[looks-1].Swap>>20)
	}
	if v := JudgeKind(s, Anon, JudgeOptions{Unit: Request}); v.State != Grows {
		t.Errorf("%v", v)
	}
}

// Shared memory in swap is in no figure of status (proc(5)): smaps_rollup counts it.
func TestSharedInSwap(t *testing.T) {
	for _, c := range []struct {
		rollup  string
		private int64 // VmSwap
		want    int64
	}{
		{"Rss: 10 kB\nPss: 9 kB\nSwap: 0 kB\n", 0, 0},
		{"Rss: 10 kB\nPss: 9 kB\nSwap: 20480 kB\nSwapPss: 1 kB\n", 4 << 20, 16 << 20},
		{"Rss: 10 kB\nPss: 9 kB\nSwap: 20480 kB\n", 20 << 20, 0},
		{"Rss: 10 kB\nPss: 9 kB\nSwap: 20480 kB\n", 21 << 20, 0},        // the kernel's counter is ahead
		{"Rss: 10 kB\nPss: 9 kB\nSwap: 20480 kB\n", 20<<20 - 64<<10, 0}, // or behind
		{"Rss: 10 kB\nPss: 9 kB\n", 0, 0},                               // Linux before 4.14 has no Swap there
	} {
		pss, swapped, ok := parseRollup([]byte(c.rollup))
		if got := sharedSwap(swapped, c.private); pss != 9<<10 || !ok || got != c.want {
			t.Errorf("%q: %d, %d, %v, want %d", c.rollup, pss, got, ok, c.want)
		}
	}
}

func TestRealFlat(t *testing.T) {
	states := map[string]map[State]int{}
	unclear := 0 // of two verdicts a run: a busy machine makes a sawtooth of a second hard to read
	for i := range *flatRuns {
		kind := []string{"plain", "warm", "saw"}[i%3]
		s := watch(t, Options{Every: MinEvery}, fmt.Sprintf("work %d 120 0 %s", i, kind))
		for _, v := range Judge(s, JudgeOptions{Unit: Request}) {
			key := kind + " " + string(v.Kind)
			if states[key] == nil {
				states[key] = map[State]int{}
			}
			if v.Kind == PSS {
				continue // two or three looks in a second are too few to judge
			}
			states[key][v.State]++
			switch v.State {
			case Grows:
				t.Errorf("seed %d, %s: %v", i, kind, v)
			case Unclear:
				unclear++
				t.Logf("seed %d, %s: %v", i, kind, v)
			}
		}
	}
	t.Logf("%d runs: %v", *flatRuns, states)
	if unclear > max(4, *flatRuns/5) {
		t.Errorf("%d verdicts of %d are unclear", unclear, 2**flatRuns)
	}
}

// A process below the watched one counts, and the sampler ends with the program.
func TestTree(t *testing.T) {
	o := Options{Every: MinEvery, Progress: func() Progress { return Progress{} }}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c, stop := start(t, "hold 64 child")
	s.Attach(c)
	time.Sleep(2 * treeEvery)
	stop()
	series := s.Stop()
	for k, want := range map[Kind]int64{RSS: 128 << 20, Anon: 128 << 20, PSS: 128 << 20} {
		if got, ok := series.Peak(k); !ok || got < want || got > want+(64<<20) {
			t.Errorf("%v: peak %d MiB (%v), want a little more than %d MiB", k, got>>20, ok, want>>20)
		}
	}
	if series.Ended == 0 {
		t.Log("the program's end was not seen by a look")
	}
}
