package memory

import (
	"math"
	"math/rand/v2"
	"testing"
)

// shape makes a run: n samples, x from 0 to span.
type shape struct {
	n     int
	span  float64
	noise func(r *rand.Rand) func(i int) float64 // bytes
	mem   func(r *rand.Rand) func(x float64) float64
}

func (s shape) run(seed uint64) []xy {
	r := rand.New(rand.NewPCG(seed, 0x6d656d))
	noise, mem := s.noise(r), s.mem(r)
	out := make([]xy, s.n)
	for i := range out {
		x := s.span * float64(i) / float64(s.n-1)
		out[i] = xy{x, 500<<20 + mem(x) + noise(i)}
	}
	return out
}

const kib, mibF = 1 << 10, 1 << 20

func white(sd float64) func(r *rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return sd * r.NormFloat64() }
	}
}

// ar is noise of which a sample keeps rho of the one before: sd is that of the whole.
func ar(sd, rho float64) func(r *rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		v := sd * r.NormFloat64()
		return func(int) float64 {
			v = rho*v + sd*math.Sqrt(1-rho*rho)*r.NormFloat64()
			return v
		}
	}
}

// peaks are looks in which a short-lived buffer is there.
func peaks(sd, height, often float64) func(r *rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		return func(int) float64 {
			v := sd * r.NormFloat64()
			if r.Float64() < often {
				v += height
			}
			return v
		}
	}
}

func still(*rand.Rand) func(float64) float64 { return func(float64) float64 { return 0 } }

// sawtooth rises by height and falls back, so many times in the run.
func sawtooth(span, height, times float64) func(r *rand.Rand) func(float64) float64 {
	return func(r *rand.Rand) func(float64) float64 {
		phase := r.Float64()
		times := times * (0.8 + 0.4*r.Float64())
		return func(x float64) float64 {
			_, f := math.Modf(phase + times*x/span)
			return height * f
		}
	}
}

// warm jumps by height somewhere in the first quarter.
func warm(span, height float64) func(r *rand.Rand) func(float64) float64 {
	return func(r *rand.Rand) func(float64) float64 {
		at := span * 0.25 * r.Float64()
		return func(x float64) float64 {
			if x < at {
				return 0
			}
			return height
		}
	}
}

// settling comes near to height, by 63 % of what is left every tau.
func settling(height, tau float64) func(r *rand.Rand) func(float64) float64 {
	return func(*rand.Rand) func(float64) float64 {
		return func(x float64) float64 { return height * (1 - math.Exp(-x/tau)) }
	}
}

// leak grows by rate a unit, in chunks where chunk is not 0, after a warm-up.
func leak(rate, chunk, warmup float64) func(r *rand.Rand) func(float64) float64 {
	return func(r *rand.Rand) func(float64) float64 {
		off := chunk * r.Float64()
		return func(x float64) float64 {
			y := rate * x
			if chunk > 0 {
				y = chunk * math.Floor((y+off)/chunk)
			}
			if x > 20 {
				y += warmup
			}
			return y
		}
	}
}

var flats = map[string]shape{
	"still":          {600, 200, white(0), still},
	"white noise":    {600, 200, white(300 * kib), still},
	"sticky noise":   {600, 200, ar(2*mibF, 0.9), still},
	"stickier noise": {600, 200, ar(2*mibF, 0.95), still},
	"peaks":          {600, 200, peaks(200*kib, 300*mibF, 0.05), still},
	"sawtooth, 40":   {600, 200, white(100 * kib), sawtooth(200, 64*mibF, 40)},
	"sawtooth, 13":   {600, 200, white(100 * kib), sawtooth(200, 64*mibF, 13)},
	"sawtooth, 4":    {600, 200, white(100 * kib), sawtooth(200, 64*mibF, 4)},
	"few requests":   {60, 12, white(300 * kib), still},
}

var settles = map[string]shape{
	"warm-up":          {600, 200, white(300 * kib), warm(200, 256*mibF)},
	"sticky warm-up":   {600, 200, ar(2*mibF, 0.9), warm(200, 256*mibF)},
	"settles":          {600, 200, white(300 * kib), settling(256*mibF, 20)},
	"settles in a saw": {600, 200, ar(500*kib, 0.5), settling(256*mibF, 25)},
	"small warm-up":    {600, 200, white(100 * kib), warm(200, 4*mibF)},
}

func TestFlatIsNotCalledGrowth(t *testing.T) {
	const runs = 200
	for name, s := range flats {
		states := map[State]int{}
		for seed := range uint64(runs) {
			states[judge(s.run(seed), JudgeOptions{Unit: Request}).State]++
		}
		t.Logf("%s: %v", name, states)
		if states[Grows] > 0 {
			t.Errorf("%s: %d of %d runs are called growth", name, states[Grows], runs)
		}
		if states[Flat] < runs*9/10 {
			t.Errorf("%s: %v, want it flat", name, states)
		}
	}
}

func TestSettledIsBounded(t *testing.T) {
	const runs = 200
	for name, s := range settles {
		states := map[State]int{}
		worst := 0.0
		for seed := range uint64(runs) {
			v := judge(s.run(seed), JudgeOptions{Unit: Request})
			states[v.State]++
			want := s.mem(rand.New(rand.NewPCG(seed, 1)))(1e9) + 500<<20
			if v.State == Bounded {
				if v.Settled > 0.63*s.span {
					t.Errorf("%s: %v, of %.0f: too late to be told", name, v, s.span)
				}
				worst = max(worst, math.Abs(v.Plateau/want-1))
			}
		}
		t.Logf("%s: %v, plateau off by %.2f %% at most", name, states, 100*worst)
		if states[Grows] > 0 {
			t.Errorf("%s: %d of %d runs are called growth", name, states[Grows], runs)
		}
		if states[Bounded] < runs*9/10 {
			t.Errorf("%s: %v, want it bounded", name, states)
		}
		if worst > 0.02 {
			t.Errorf("%s: a plateau is %.1f %% off", name, 100*worst)
		}
	}
}

func TestSlopeOfAKnownLeak(t *testing.T) {
	for name, c := range map[string]struct {
		shape
		rate float64
	}{
		"34 KiB a token":      {shape{900, 20480, ar(2*mibF, 0.9), leak(34*kib, 0, 0)}, 34 * kib},
		"2 MiB steps of VRAM": {shape{900, 20480, white(0), leak(34*kib, 2*mibF, 0)}, 34 * kib},
		"32 MiB chunks":       {shape{900, 20480, white(500 * kib), leak(34*kib, 32*mibF, 0)}, 34 * kib},
		"8 MiB a request":     {shape{600, 200, ar(3*mibF, 0.9), leak(8*mibF, 0, 700*mibF)}, 8 * mibF},
		"64 KiB a request":    {shape{600, 200, white(300 * kib), leak(64*kib, 0, 30*mibF)}, 64 * kib},
		"in peaks":            {shape{600, 200, peaks(300*kib, 100*mibF, 0.05), leak(1*mibF, 0, 0)}, 1 * mibF},
	} {
		const runs = 200
		states := map[State]int{}
		worst, covered := 0.0, 0
		for seed := range uint64(runs) {
			v := judge(c.run(seed), JudgeOptions{Unit: Request})
			states[v.State]++
			worst = max(worst, math.Abs(v.Growth.Slope/c.rate-1))
			if v.Growth.Low <= c.rate && c.rate <= v.Growth.High {
				covered++
			}
		}
		t.Logf("%s: %v, slope off by %.2f %% at most, %d of %d intervals hold the truth", name, states, 100*worst, covered,
			runs)
		if states[Grows] != runs {
			t.Errorf("%s: %v, want growth each time", name, states)
		}
		if worst > 0.02 {
			t.Errorf("%s: a slope is %.2f %% off", name, 100*worst)
		}
		if covered < runs*88/100 {
			t.Errorf("%s: only %d of %d intervals hold the truth", name, covered, runs)
		}
	}
}

// What drifts for a twelfth of the run, or swings twice in it, is near to what can
// be told apart: it may be unclear, and hardly ever growth.
func TestDriftIsSeldomCalledGrowth(t *testing.T) {
	for name, s := range map[string]shape{
		"drift":         {600, 200, ar(2*mibF, 0.98), still},
		"2.5 saw teeth": {600, 200, white(100 * kib), sawtooth(200, 64*mibF, 2.5)},
	} {
		const runs = 1000
		states := map[State]int{}
		for seed := range uint64(runs) {
			states[judge(s.run(seed), JudgeOptions{Unit: Request}).State]++
		}
		t.Logf("%s: %v", name, states)
		if states[Grows] > runs/100 || states[Flat] < runs*8/10 {
			t.Errorf("%s: %v", name, states)
		}
	}
}

func TestTooLittleIsUnclear(t *testing.T) {
	for name, data := range map[string][]xy{
		"nothing":        nil,
		"one look":       {{0, 1}},
		"no progress":    {{1, 1}, {1, 2}, {1, 3}},
		"a few requests": {{1, 1}, {2, 1}, {3, 1}, {4, 1}},
		"it still slows": shape{600, 200, white(100 * kib), settling(256*mibF, 110)}.run(1),
	} {
		v := judge(data, JudgeOptions{Unit: Request})
		if v.State != Unclear || v.Reason == "" {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// The forecast's interval holds the truth about as often as it says.
func TestForecastInterval(t *testing.T) {
	s := shape{900, 20480, ar(2*mibF, 0.9), leak(34*kib, 0, 0)}
	const runs = 300
	var inAt, inReach int
	for seed := range uint64(runs) {
		f := judge(s.run(seed), JudgeOptions{Unit: Token}).Growth
		if _, lo, hi := f.At(128000); lo <= 500*mibF+34*kib*128000 && 500*mibF+34*kib*128000 <= hi {
			inAt++
		}
		// 8 GiB are reached at (8192-500) MiB / 34 KiB tokens.
		want := (8192.0 - 500) * mibF / (34 * kib)
		x, lo, hi, ok := f.Reaches(8192 * mibF)
		if !ok || math.Abs(x/want-1) > 0.02 {
			t.Fatalf("reached at %.0f, want %.0f (%v)", x, want, ok)
		}
		if lo <= want && want <= hi {
			inReach++
		}
	}
	t.Logf("of %d: At %d, Reaches %d", runs, inAt, inReach)
	if inAt < runs*88/100 || inReach < runs*88/100 {
		t.Errorf("of %d intervals %d and %d hold the truth", runs, inAt, inReach)
	}
	flat := judge(shape{600, 200, white(300 * kib), still}.run(3), JudgeOptions{Unit: Request}).Growth
	if _, _, _, ok := flat.Reaches(8192 * mibF); ok {
		t.Error("flat memory reaches a card's end")
	}
}
