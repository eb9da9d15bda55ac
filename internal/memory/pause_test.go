package memory

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// docs/memory.md has the figures of 5,000 runs each.
var pauseRuns = flag.Int("pauses", 300, "runs of each kind of leak that is held up")

// held is a leak whose program is held up now and then, as on a busy machine: up to
// share of the run is spent in pauses, so many at most, in which memory stands still
// while progress goes on. No pause is longer than longest of the run.
func held(rate float64, pauses int, share, longest float64) func(r *rand.Rand) func(float64) float64 {
	return func(r *rand.Rand) func(float64) float64 {
		const span, steps = 200.0, 2000
		for {
			var still [steps]bool
			n, total := 1+r.IntN(pauses), share*(0.3+0.7*r.Float64())
			for range n {
				at := r.IntN(steps)
				long := int(min(total/float64(n)*2*r.Float64(), longest) * steps)
				for i := at; i < min(at+long, steps); i++ {
					still[i] = true
				}
			}
			var worked [steps + 1]float64
			run, most := 0, 0
			for i, s := range still {
				worked[i+1] = worked[i]
				if s {
					run++
					most = max(most, run)
					continue
				}
				run = 0
				worked[i+1] += span / steps
			}
			if float64(most) > longest*steps {
				continue // pauses that touch are one
			}
			return func(x float64) float64 {
				i := min(int(x/span*steps), steps-1)
				y := worked[i]
				if !still[i] {
					y += x - float64(i)*span/steps
				}
				return rate * y
			}
		}
	}
}

// bursts is a leak that comes in bursts of random size at random distances.
func bursts(rate float64, times int) func(r *rand.Rand) func(float64) float64 {
	return func(r *rand.Rand) func(float64) float64 {
		const span = 200.0
		at, size, sum := make([]float64, times), make([]float64, times), 0.0
		for i := range at {
			at[i] = span * (float64(i) + r.Float64()) / float64(times)
			size[i] = 0.2 + r.ExpFloat64()
			sum += size[i]
		}
		return func(x float64) float64 {
			var y float64
			for i, a := range at {
				if x >= a {
					y += size[i] / sum * rate * span
				}
			}
			return y
		}
	}
}

// busy is the run of a program that takes 1 MiB and sleeps 0.1 s, 100 times, on a
// machine that stops it, and the one that looks at it, now and then.
func busy(seed uint64) []xy {
	r := rand.New(rand.NewPCG(seed, 0x62757379))
	often, long := 0.002+0.05*r.Float64(), 0.2+1.5*r.Float64()
	stall := func() float64 {
		if r.Float64() < often {
			return math.Min(long*r.ExpFloat64(), 3)
		}
		return 0.01 * r.ExpFloat64()
	}
	var taken []float64 // when each MiB was taken
	var end float64
	for range 100 {
		taken = append(taken, end)
		end += 0.1 + stall()
	}
	// It starts slowly, and what it holds is freed before it is gone, which takes a
	// busy machine a second or two.
	begin, freed := 5*r.Float64(), 0.1+2*r.Float64()
	var out []xy
	for x := 0.02; x < begin+end+freed; x += 0.1 + stall()/2 {
		n, _ := slices.BinarySearch(taken, x-begin)
		held := float64(n) * min(1, max(0, (begin+end+freed-x)/freed))
		out = append(out, xy{x, 10*mibF + mibF*held + 4096*float64(r.IntN(8))})
	}
	return out
}

// A steady leak stays one when its program is held up: growth, or unclear at
// worst, and never flat or settled.
func TestPausesDoNotHideALeak(t *testing.T) {
	runs := *pauseRuns
	wrong, grows, all := 0, 0, 0
	for name, c := range map[string]func(seed uint64) ([]xy, Unit){
		"a busy machine":                func(seed uint64) ([]xy, Unit) { return busy(seed), Second },
		"one pause":                     paused(Second, 120, white(30*kib), held(mibF, 1, 0.3, 0.3)),
		"some pauses":                   paused(Second, 120, white(30*kib), held(mibF, 4, 0.5, 0.3)),
		"many pauses":                   paused(Second, 600, white(300*kib), held(mibF, 12, 0.6, 0.3)),
		"in noise":                      paused(Second, 600, ar(2*mibF, 0.9), held(mibF, 4, 0.5, 0.3)),
		"a small leak":                  paused(Second, 600, white(30*kib), held(30*kib, 4, 0.4, 0.3)),
		"requests that do not leak":     paused(Request, 600, white(30*kib), held(mibF, 4, 0.4, 0.2)),
		"requests that leak in bursts":  paused(Request, 600, white(30*kib), bursts(mibF, 12)),
		"requests, bursts of all sizes": paused(Request, 600, ar(mibF, 0.9), bursts(mibF, 8)),
	} {
		states := map[State]int{}
		for seed := range uint64(runs) {
			data, unit := c(seed)
			v := judge(data, JudgeOptions{Unit: unit, Ended: unit == Second})
			states[v.State]++
			if v.State != Grows && v.State != Unclear && states[v.State] < 3 {
				t.Logf("%s, seed %d: %v", name, seed, v)
			}
		}
		t.Logf("%s: %v", name, states)
		n := states[Flat] + states[Bounded]
		if n > runs/500 {
			t.Errorf("%s: %d of %d steady leaks are called flat or settled", name, n, runs)
		}
		wrong += n
		grows += states[Grows]
		all += runs
	}
	t.Logf("of %d steady leaks %d are called flat or settled, %d growth", all, wrong, grows)
}

// A leak that is lost in noise may be flat, but then the bound that is told holds it.
func TestFlatTellsWhatItMayMiss(t *testing.T) {
	const runs = 500
	for name, rate := range map[string]float64{
		"as the noise": 10 * kib, "twice the noise": 20 * kib,
		"a few times the noise": 60 * kib,
	} {
		noisy := shape{600, 200, ar(2*mibF, 0.9), held(rate, 4, 0.4, 0.3)}
		quiet := noisy
		quiet.noise = ar(0, 0.9)
		states, missed := map[State]int{}, 0
		for seed := range uint64(runs) {
			v := judge(noisy.run(seed), JudgeOptions{Unit: Request})
			states[v.State]++
			truth := quiet.run(seed)[200:]
			last := truth[len(truth)-1]
			if v.State == Bounded || v.State == Flat && v.Growth.High < (last.y-truth[0].y)/(last.x-truth[0].x) {
				missed++
			}
		}
		t.Logf("%s: %v, %d bounds are too low", name, states, missed)
		if missed > runs/20 {
			t.Errorf("%s: %d of %d bounds are too low", name, missed, runs)
		}
	}
}

func paused(u Unit, n int, noise func(*rand.Rand) func(int) float64,
	mem func(*rand.Rand) func(float64) float64,
) func(uint64) ([]xy, Unit) {
	s := shape{n, 200, noise, mem}
	return func(seed uint64) ([]xy, Unit) { return s.run(seed), u }
}

// Why memory that rose is not said to have settled: a pause, or its own swing.
func TestNotSettled(t *testing.T) {
	series := func(f func(i int) float64) []xy {
		var p []xy
		for i := range 36 {
			p = append(p, xy{float64(i), f(i)})
		}
		return p
	}
	step := series(func(i int) float64 { return float64(min(i, 26)) * (1 << 20) })
	if got := notSettled(step, 26<<20, Request); !strings.Contains(got, "which may be a pause") {
		t.Error(got)
	}
	saw := series(func(i int) float64 { return float64(30-i%6*5) * (1 << 20) })
	if got := notSettled(saw, 25<<20, Request); !strings.Contains(got, "swings too much") {
		t.Error(got)
	}
}
