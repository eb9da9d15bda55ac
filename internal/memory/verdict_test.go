package memory

import (
	"strings"
	"testing"
)

// What a program takes beyond a reference is what no error of either rate explains.
func TestAbove(t *testing.T) {
	const kib = 1 << 10
	grows := func(slope, low, high, to float64) Verdict {
		return Verdict{State: Grows, Unit: Request, Growth: Fit{Slope: slope * kib, Low: low * kib, High: high * kib, To: to}}
	}
	for name, tc := range map[string]struct {
		v, ref  Verdict
		more    float64
		unclear bool
	}{
		"as on an H200":            {grows(198, 166, 230, 162), grows(225, 201, 250, 162), 0, false},
		"they touch":               {grows(300, 250, 350, 162), grows(225, 200, 250, 162), 0, false},
		"less":                     {grows(64, 63, 65, 162), grows(225, 201, 250, 162), 0, false},
		"more":                     {grows(300, 260, 340, 162), grows(225, 200, 250, 162), 10 * kib, false},
		"apart by what is nothing": {grows(64.5, 64.4, 64.6, 162), grows(64, 63.9, 64.1, 162), 0, false},
		"a wide rate":              {grows(100, 10, 190, 162), grows(100, 99, 101, 162), 0, true},
		"a wide reference":         {grows(100, 99, 101, 162), grows(100, 10, 190, 162), 0, true},
		"apart by just the floor":  {grows(201, 201, 201, 1024), grows(200, 200, 200, 1024), 0, false},
		"apart by more":            {grows(201, 201, 201, 1025), grows(200, 200, 200, 1025), kib, false},
		"as wide as its slope":     {grows(100, 50, 150, 162), grows(100, 99, 101, 162), 0, false},
		"more than a wide one":     {grows(400, 390, 410, 162), grows(100, 10, 190, 162), 200 * kib, false},
	} {
		more, err := tc.v.Above(tc.ref)
		if more != tc.more || (err != nil) != tc.unclear {
			t.Errorf("%s: %v, %v, want %v, unclear %v", name, more, err, tc.more, tc.unclear)
		}
	}
}

// even is a series of so many pieces with two samples a piece, which lie by apart above and
// below what y says.
func even(pieces int, apart float64, y func(i int) float64) (data, means []xy) {
	for i := range pieces {
		x, y := float64(i), y(i)
		data = append(data, xy{x, y - apart}, xy{x, y + apart})
		means = append(means, xy{x, y})
	}
	return data, means
}

// What rises counts as growth from the floor on, where it is twice what it swings by, and
// while its end is at least four tenths as steep as the whole.
func TestGrowing(t *testing.T) {
	const n = blocks
	line := func(slope float64) func(int) float64 { return func(i int) float64 { return slope * float64(i) } }
	// A line that bends, and goes up and down from piece to piece: what is left of it looks
	// like chance, so that both of its parts rise for sure.
	slows := func(late float64) func(int) float64 {
		const bend = n * 2 / 3
		return func(i int) float64 {
			return float64(min(i, bend)) + late*float64(max(i-bend, 0)) + 0.9*float64(i%2*2-1)
		}
	}
	for name, c := range map[string]struct {
		y            func(int) float64
		apart, floor float64
		grows        bool
	}{
		// From piece 12 on, 23 of the 35 steps count.
		"above the floor":       {line(1), 0, 22.9, true},
		"below it":              {line(1), 0, 23.1, false},
		"more than its swing":   {line(1), 5.7, 1, true},
		"less than its swing":   {line(1), 5.8, 1, false},
		"nearly as steep":       {slows(0.28), 0, 1, true},
		"not so steep any more": {slows(0.2), 0, 1, false},
	} {
		if data, p := even(n, c.apart, c.y); growing(p, data, c.floor) != c.grows {
			t.Errorf("%s: growing %v", name, !c.grows)
		}
	}
}

// The end of what slows down still rises where it does so for sure, by more than the floor and
// by more than a tenth of the whole.
func TestStillRises(t *testing.T) {
	f := Fit{Slope: 1, To: 10, se: 0.1, effDof: 10}
	unsure := f
	unsure.se = 0.5
	for name, c := range map[string]struct {
		late        Fit
		rise, floor float64
		rises       bool
	}{
		"it does":           {f, 99, 9.9, true},
		"unsure":            {unsure, 99, 9.9, false},
		"the floor":         {f, 99, 10, false},
		"a tenth of it all": {f, 100, 9.9, false},
	} {
		if stillRises(c.late, c.rise, c.floor) != c.rises {
			t.Errorf("%s: %v", name, !c.rises)
		}
	}
}

// What rose once is flat up to twice the floor, or to its own swing, and settled above that.
func TestFlatOrBounded(t *testing.T) {
	const floor = DefaultFloor
	step := func(rise, dip float64) func(int) float64 {
		return func(i int) float64 {
			switch {
			case i < 2:
				return 0
			case i == 15:
				return rise - dip
			}
			return rise
		}
	}
	for name, c := range map[string]struct {
		y     func(int) float64
		apart float64
		state State
	}{
		"twice the floor":             {step(2*floor, 0), 0, Flat},
		"more":                        {step(2*floor+1, 0), 0, Bounded},
		"its own swing":               {step(10*floor, 10*floor), 0, Flat},
		"more than its swing":         {step(10*floor, 2*floor), 0, Bounded},
		"a creep of less than floor":  {func(i int) float64 { return 0.95 / 23 * floor * float64(i) }, floor, Flat},
		"a creep of more, in its saw": {func(i int) float64 { return 1.05 / 23 * floor * float64(i) }, floor, Unclear},
	} {
		data, _ := even(blocks, c.apart, c.y)
		if v := judge(data, JudgeOptions{Unit: Request}); v.State != c.state {
			t.Errorf("%s: %v, want %s", name, v, c.state)
		}
	}
	// The fewest pieces that are judged.
	for n, want := range map[int]bool{minBlocks - 1: false, minBlocks: true} {
		data, _ := even(n, 0, func(int) float64 { return 0 })
		if v := judge(data, JudgeOptions{Unit: Request}); (v.State == Flat) != want {
			t.Errorf("%d pieces: %v", n, v)
		}
	}
	// A rise has a rate if it lasted for six pieces.
	for n, want := range map[int]bool{5: false, 6: true} {
		_, p := even(blocks, 0, func(i int) float64 { return float64(i) })
		if f, err := rising(p, float64(n-1)); (err == nil) != want || want && (f.Slope < 0.99 || f.Slope > 1.01) {
			t.Errorf("over %d pieces: %+v, %v", n, f, err)
		}
	}
	for high, want := range map[float64]bool{0.99: false, 1: true} {
		v := Verdict{Kind: RSS, State: Flat, Unit: Request, Growth: Fit{High: high}}
		if strings.Contains(v.String(), "any growth is below") != want {
			t.Error(v)
		}
	}
}

// Three digits, and the largest unit of which there is at least one.
func TestFormatBytes(t *testing.T) {
	for b, want := range map[float64]string{
		0: "0 B", 1.4: "1 B", 1023: "1023 B", 1024: "1.00 KiB", -1024: "-1.00 KiB",
		1<<20 - 1: "1024 KiB", 1 << 20: "1.00 MiB",
		9.994 * (1 << 20): "9.99 MiB", 10 << 20: "10.0 MiB", 99.94 * (1 << 20): "99.9 MiB", 100 << 20: "100 MiB",
		1<<30 - 1: "1024 MiB", 1 << 30: "1.00 GiB", -150 << 30: "-150 GiB", 2048 << 30: "2048 GiB",
	} {
		if got := FormatBytes(b); got != want {
			t.Errorf("%.0f: %s, want %s", b, got, want)
		}
	}
}
