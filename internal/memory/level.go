package memory

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// swing is by how much memory goes up and down without going anywhere: the deepest
// fall between pieces, or three times the width in which samples lie around their
// own piece. A line's residuals would not do: a pause in a leak makes them large.
// What falls early may be a peak at the start, which is no swing: it comes once.
func swing(data, p []xy) float64 { return max(fall(p[len(p)/3:]), 3*spread(data)) }

// fall is the most that memory came down by from any earlier piece. A leak does not
// come down, however unevenly it grows.
func fall(p []xy) float64 {
	top, most := math.Inf(-1), 0.0
	for _, q := range p {
		top = max(top, q.y)
		most = max(most, top-q.y)
	}
	return most
}

// givenBack is how many samples there are before a program that ends gives back
// what it holds: a machine that is busy makes that take seconds, and it would pass
// for a program whose memory comes down. All of them where it gives nothing back, or
// went on for more than a moment after it had: that is no end, but work without it.
func givenBack(data []xy, floor float64, u Unit) int {
	last, low := data[len(data)-1].y, data[0].y
	for _, q := range data {
		low = min(low, q.y)
	}
	late := data[len(data)*3/4:]
	top := slices.MaxFunc(late, func(a, b xy) int { return cmp.Compare(a.y, b.y) }).y
	fell := top - last
	if fell <= floor || fell < (top-low)/2 {
		return len(data)
	}
	end := data[len(data)-1].x
	moment := 0.02 * (end - data[0].x)
	if u == Second {
		moment = max(moment, 1)
	}
	for i, q := range slices.Backward(data) {
		if q.y <= last+fell/10 && end-q.x > moment {
			return len(data)
		}
		if q.y >= top-fell/20 {
			return i + 1
		}
	}
	return len(data)
}

// spread is the width that holds eight tenths of the samples around the mean of
// the piece that they are in.
func spread(data []xy) float64 {
	lo, hi := data[0].x, data[len(data)-1].x
	of := func(q xy) int { return min(int((q.x-lo)/(hi-lo)*blocks), blocks-1) }
	var r []float64
	for from := 0; from < len(data); {
		to := from
		var sum float64
		for to < len(data) && of(data[to]) == of(data[from]) {
			sum += data[to].y
			to++
		}
		for _, q := range data[from:to] {
			r = append(r, q.y-sum/float64(to-from))
		}
		from = to
	}
	slices.Sort(r)
	return r[len(r)*9/10] - r[len(r)/10]
}

// lowest is the place of the lowest of the first third of the pieces: the very
// first may hold a start-up peak.
func lowest(p []xy) int {
	low := 0
	for i := range max(2, len(p)/3) {
		if p[i].y < p[low].y {
			low = i
		}
	}
	return low
}

// climbs says whether memory grows to the end, but not evenly: it never comes
// down by what would count, and goes up in many pieces of the last two thirds,
// no less in the later ones, and not long ago.
func climbs(data, p []xy, floor float64) bool {
	p = p[len(p)/3:]
	n := len(p)
	grown := p[n-1].y - p[0].y
	if n < blocks/2 || grown < floor || grown < 4*fall(p) || grown < 4*spread(data) {
		return false
	}
	rises, top := 0, p[0].y
	var late, last float64 // what came in the second half, and in the last quarter
	for i, q := range p[1:] {
		up := max(0, q.y-top)
		top = max(top, q.y)
		if up > 0.4*grown {
			return false
		}
		if up > 0.02*grown {
			rises++
		}
		if i+1 >= n/2 {
			late += up
		}
		if i+1 >= n-n/4 {
			last += up
		}
	}
	return rises >= minRises && late >= 0.4*grown && last >= 0.05*grown
}

// minRises is in how many steps memory has to grow for it to be a leak: a warm-up
// has a few.
const minRises = 5

// The evidence for a plateau: how much of the run it has to cover. A machine that is
// busy holds a program up for seconds, in which memory stands still; requests and
// tokens stand still with it.
const (
	levelShare     = 0.4
	levelShareTime = 0.5
)

// settledAt finds the piece from which on memory, which rose before by rise from the
// piece at low, is level, and has been for long enough to be believed: a good part
// of the run, twice as long as it ever paused on its way, and so flat that its own
// interval excludes an eighth of the rise, and a quarter of the rate before; and it is
// no leak by its own measure. It is -1 where there is none.
func settledAt(data, p []xy, low int, rise, swing, floor float64, u Unit) int {
	n := len(p)
	share := levelShare
	if u == Second {
		share = levelShareTime
	}
	need := (share - 1.0/blocks) * (p[n-1].x - p[0].x) // a piece is as finely as can be told
	for s := low + 1; s <= n-4; s++ {
		long := p[n-1].x - p[s].x
		if long < need {
			return -1
		}
		if p[s].y < mean(p[s:])-max(rise/10, swing/2) {
			continue
		}
		f, err := line(p[s:])
		if err != nil || f.High*long > rise/8 || f.High > rise/(p[s].x-p[low].x)/4 {
			continue
		}
		if third := (n - s) / 3; mean(p[n-third:])-mean(p[s:s+third]) > max(rise/20, swing/2) {
			continue
		}
		if long >= 2*pause(p[low:s+1], rise) && !creeps(data, p[s:], rise, floor) {
			return s
		}
	}
	return -1
}

// creeps says whether a plateau, taken by itself, is a leak, for next to a large
// warm-up it looks level: it rises for sure, or step by step and without coming down.
// The tail of what settles does so too, and is small beside the rise, or slows down.
// What a runtime's heap takes for itself after a large rise does not count either.
func creeps(data, p []xy, rise, floor float64) bool {
	floor *= 2
	f, err := line(p)
	if err == nil && f.Low > 0 && f.grown() > floor {
		half, err := line(p[len(p)/2:])
		if f.grown() > rise*settlingTail || err == nil && half.Low > 0 && half.grown() > floor/2 {
			return true
		}
	}
	n := len(p)
	grown := p[n-1].y - p[0].y
	data = data[slices.IndexFunc(data, func(q xy) bool { return q.x >= p[0].x }):]
	if grown <= floor || grown < 4*fall(p) || grown < 4*spread(data) {
		return false
	}
	rises, top := 0, p[0].y
	for _, q := range p[1:] {
		if q.y-top > 0.02*grown {
			rises++
		}
		top = max(top, q.y)
	}
	return rises >= minRises && (grown > rise*settlingTail || !slows(p, max(floor/4, spread(data))))
}

// slows says whether a rise comes near to a level: most of it is in the first half of
// its way, and no fifth has more, by what counts, than an earlier one.
func slows(p []xy, counts float64) bool {
	n := len(p)
	grown := p[n-1].y - p[0].y
	way := slices.IndexFunc(p, func(q xy) bool { return q.y >= p[0].y+0.85*grown })
	if p[way/2].y-p[0].y < 0.65*grown {
		return false
	}
	least := math.Inf(1)
	for i := range 5 {
		up := p[(n-1)*(i+1)/5].y - p[(n-1)*i/5].y
		if up > least+counts {
			return false
		}
		least = min(least, up)
	}
	return true
}

// settlingTail is the share of its rise that what settles may still grow by once it is called
// level.
const settlingTail = 0.015

// pause is the longest way, in progress, on which memory that was rising stood
// still before it had come near to where it settled.
func pause(p []xy, rise float64) float64 {
	var longest float64
	since, level := -1, p[0].y
	for i, q := range p {
		if q.y-level <= rise/20 {
			continue
		}
		if since >= 0 {
			longest = max(longest, q.x-p[since].x)
		}
		if q.y-p[0].y > 0.9*rise {
			break
		}
		since, level = i, q.y
	}
	return longest
}

// levelFor is for how much of the end memory has not risen by a tenth of what it
// rose by in all.
func levelFor(p []xy, rise float64) float64 {
	last := p[len(p)-1]
	for _, q := range slices.Backward(p) {
		if last.y-q.y > rise/10 {
			return last.x - q.x
		}
	}
	return last.x - p[0].x
}

// notSettled says why memory that rose is not said to have settled.
func notSettled(p []xy, rise float64, u Unit) string {
	still, all := levelFor(p, rise), p[len(p)-1].x-p[0].x
	if still > levelShareTime*all { // no pause: its own swing, or its creeping, hides where it stands
		return fmt.Sprintf("it rose by %s, and swings too much, or still creeps too slowly, to tell whether it has "+
			"settled; let it run longer", FormatBytes(rise))
	}
	return fmt.Sprintf("it rose by %s and stands still for the last %s of %s, which may be a pause; let it run longer",
		FormatBytes(rise), count(still, u), count(all, u))
}
