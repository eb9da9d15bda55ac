package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// State is what a verdict says of memory.
type State string

// The states.
const (
	Flat    State = "flat"
	Bounded State = "bounded" // it grew, and settled
	Grows   State = "grows"
	Unclear State = "unclear" // it cannot be judged: Reason says why
)

// DefaultFloor is the growth, in bytes over the judged part of a run, below
// which nothing is called growth: allocators and the kernel's counters move as much.
const DefaultFloor = 1 << 20

// Verdict says what one kind of memory did in one series.
type Verdict struct {
	Kind   Kind   `json:"kind"`
	State  State  `json:"state"`
	Unit   Unit   `json:"unit"`
	Reason string `json:"reason,omitempty"` // why it is unclear

	// Growth is the line through the part that grew; for flat memory the line
	// whose interval bounds what may have been missed.
	Growth  Fit      `json:"growth"`
	Start   float64  `json:"start"`             // bytes at the beginning
	Plateau float64  `json:"plateau,omitempty"` // bytes where it settled, or its mean where flat
	Settled float64  `json:"settled,omitempty"` // the progress at which it had settled
	Peak    int64    `json:"peak"`              // bytes
	Samples int      `json:"samples"`
	Notes   []string `json:"notes,omitempty"`
}

// JudgeOptions are how to judge.
type JudgeOptions struct {
	Unit  Unit    // empty: the series' best
	Floor float64 // bytes; 0: DefaultFloor
	Ended bool    // the program ended by itself: what it gave back on its way out is not judged
}

// Judge judges every kind of memory that the series holds, anonymous memory and
// VRAM first, for those are what a program allocates.
func Judge(s Series, o JudgeOptions) []Verdict {
	var out []Verdict
	for _, k := range []Kind{VRAM, Anon, RSS, PSS} {
		if !s.Has(k) {
			continue
		}
		v := JudgeKind(s, k, o)
		// PSS is looked at seldom: where that is too seldom, RSS has said it already.
		if k != PSS || v.State != Unclear {
			out = append(out, v)
		}
	}
	return out
}

// JudgeKind judges one kind of memory.
func JudgeKind(s Series, k Kind, o JudgeOptions) Verdict {
	o.Unit = cmp.Or(o.Unit, s.BestUnit())
	var data []xy
	for _, p := range s.Points {
		if b, ok := p.Bytes(k); ok {
			data = append(data, xy{p.At(o.Unit), float64(b)})
		}
	}
	v := judge(data, o)
	v.Kind = k
	v.Notes = slices.Concat(v.Notes, s.Notes)
	if k == VRAM && s.Device.Shared && len(data) > 0 {
		v.State, v.Reason = Unclear, "another program used the card, and its memory cannot be told apart"
	}
	if k == VRAM && s.Device.Unknown != "" && v.State != Grows && len(data) > 0 {
		v.State, v.Reason = Unclear, "it was not followed to the end: "+s.Device.Unknown
	}
	if until, _ := s.RemoteEnds(); (k == Anon || k == RSS) && s.remoteLost() && v.State != Grows && len(data) > 0 {
		v.State, v.Reason = Unclear, fmt.Sprintf("it is known only up to %.1f s of %.1f s: %s", until,
			s.Points[len(s.Points)-1].Seconds, s.RemoteWhy)
	}
	return v
}

func judge(data []xy, o JudgeOptions) Verdict {
	floor := cmp.Or(o.Floor, DefaultFloor)
	v := Verdict{Unit: o.Unit, State: Unclear, Samples: len(data)}
	for _, p := range data {
		v.Peak = max(v.Peak, int64(p.y))
	}
	if len(data) == 0 {
		v.Reason = "there are no figures"
		return v
	}
	v.Start = data[0].y
	slices.SortStableFunc(data, func(a, b xy) int {
		switch {
		case a.x < b.x:
			return -1
		case a.x > b.x:
			return 1
		}
		return 0
	})
	if o.Ended {
		data = data[:givenBack(data, floor, o.Unit)]
	}
	p := pieces(data, blocks)
	if len(p) < minBlocks {
		v.Reason = fmt.Sprintf("there are figures at %d different counts of %ss, and %d are the least; let it run longer",
			len(p), o.Unit, minBlocks)
		return v
	}
	n := len(p)
	whole, err := steady(p)
	if err != nil {
		v.Reason = err.Error()
		return v
	}
	v.Growth = whole
	tail := p[n-max(n/3, 4):]
	v.Plateau = mean(tail)
	late, err := line(tail)
	if err != nil {
		v.Reason = err.Error()
		return v
	}
	if growing(p, data, floor) || whole.Low > 0 && climbs(data, p, floor) {
		v.State = Grows
		v.Plateau = 0
		return v
	}
	low := lowest(p)
	swing := swing(data, p)
	rise := v.Plateau - p[low].y
	// A runtime's heap takes a MiB more now and then; what rises for sure is told below.
	if rise <= 2*floor || rise <= swing {
		if flat, err := line(p[n/3:]); err == nil {
			v.Growth = flat
		}
		v.State = Flat
		if v.Growth.Low > 0 && v.Growth.grown() > floor {
			v.State, v.Reason = Unclear, fmt.Sprintf("it swings by %s, and may grow (%s); let it run longer",
				FormatBytes(swing), perUnit(v.Growth, o.Unit))
		}
		return v
	}
	at := settledAt(data, p, low, rise, swing, floor, o.Unit)
	switch {
	case stillRises(late, rise, floor):
		// Slowing and still clearly rising is neither: nobody can say where it ends.
		v.Reason = fmt.Sprintf("it still rises at the end, but more slowly (%s); let it run longer", perUnit(late, o.Unit))
	case at < 0:
		v.Reason = notSettled(p, rise, o.Unit)
	default:
		v.State = Bounded
		v.Settled, v.Plateau = p[at].x, mean(p[at:])
		v.Growth, _ = rising(p, v.Settled) // a jump has no slope
	}
	return v
}

// growing says whether memory grows to the end: in the last two thirds, in the
// last half and in the last third, for sure each time, at about the same rate,
// and by more than what it swings by.
func growing(p []xy, data []xy, floor float64) bool {
	n := len(p)
	var first Fit
	for i, w := range []struct {
		from int
		p    float64
	}{{n / 3, 0.9999}, {n / 2, 0.999}, {n - max(n/3, 4), 0.975}} {
		f, err := line(p[w.from:])
		if err != nil || !f.certain(w.p) {
			return false
		}
		if i == 0 {
			first = f
			if f.grown() < floor || f.grown() < 2*band(data, f.From, f) {
				return false
			}
		} else if f.Slope < 0.4*first.Slope {
			return false
		}
	}
	return true
}

// stillRises says whether the last third alone is a rise that counts.
func stillRises(late Fit, rise, floor float64) bool {
	return late.certain(0.995) && late.grown() > floor && late.grown() > 0.1*rise
}

// band is how much the samples from x on swing around a line: the width that
// holds eight tenths of them.
func band(data []xy, from float64, f Fit) float64 {
	var r []float64
	for _, q := range data {
		if q.x >= from {
			r = append(r, q.y-f.Intercept-f.Slope*q.x)
		}
	}
	if len(r) == 0 {
		return 0
	}
	slices.Sort(r)
	return r[len(r)*9/10] - r[len(r)/10]
}

func mean(p []xy) float64 {
	var sum float64
	for _, q := range p {
		sum += q.y
	}
	return sum / float64(len(p))
}

// rising fits the part before memory settled; a zero Fit where it is too short for one.
func rising(p []xy, until float64) (Fit, error) {
	i := slices.IndexFunc(p, func(q xy) bool { return q.x >= until })
	if i+1 < minBlocks*2/3 {
		return Fit{}, errors.New("too short")
	}
	return line(p[:i+1])
}

// Above says by how many bytes a unit memory that grows does so faster than that of a reference
// which did the same work: the distance from the upper end of the reference's 95 % interval
// to the lower end of this one. It is 0 where the intervals meet, or the distance
// comes to less than DefaultFloor over what was judged: two runs of one program differ by as much.
// Intervals that meet say little where one is wider than its slope: that is an error.
func (v Verdict) Above(ref Verdict) (float64, error) {
	f := v.Growth
	if more := f.Low - ref.Growth.High; more*(f.To-f.From) > DefaultFloor {
		return more, nil
	}
	for _, one := range []Fit{f, ref.Growth} {
		if one.High-one.Low > one.Slope {
			return 0, fmt.Errorf("a rate of %s is known too badly to be compared; let it run longer", perUnit(one, v.Unit))
		}
	}
	return 0, nil
}

// Rate is the growth with its interval, such as "34.0 KiB a token (33.8 to 34.2)".
func (v Verdict) Rate() string { return perUnit(v.Growth, v.Unit) }

func perUnit(f Fit, u Unit) string {
	return fmt.Sprintf("%s a %s (%s to %s)", FormatBytes(f.Slope), u, FormatBytes(f.Low), FormatBytes(f.High))
}

// String is the verdict as one sentence.
func (v Verdict) String() string {
	switch v.State {
	case Grows:
		return fmt.Sprintf("%s grows by %s", v.Kind, v.Rate())
	case Bounded:
		s := fmt.Sprintf("%s grew from %s and settled at %s after %s", v.Kind, FormatBytes(v.Start), FormatBytes(v.Plateau),
			count(v.Settled, v.Unit))
		if v.Growth.Low > 0 {
			s += fmt.Sprintf(", by %s until then", v.Rate())
		}
		return s
	case Flat:
		s := fmt.Sprintf("%s is flat at %s", v.Kind, FormatBytes(v.Plateau))
		if v.Growth.High >= 1 {
			s += fmt.Sprintf(": any growth is below %s a %s", FormatBytes(v.Growth.High), v.Unit)
		}
		return s
	}
	return fmt.Sprintf("%s cannot be judged: %s", v.Kind, v.Reason)
}

func count(x float64, u Unit) string {
	s := fmt.Sprintf("%.0f", x)
	if u == Second {
		s = fmt.Sprintf("%.1f", x)
	}
	return s + " " + string(u) + "s"
}

// Says tells whether any verdict has the state.
func Says(vs []Verdict, s State) bool {
	return slices.ContainsFunc(vs, func(v Verdict) bool { return v.State == s })
}
