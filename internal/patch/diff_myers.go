package patch

import "math"

// splitCost is the least number of edits after which the search for the
// shortest script of a part is given up; long files get more, by roughRoot. It
// is git's bound too.
const splitCost = 256

// differ compares the lines that are worth it. a and b are their numbers, lineA
// and lineB their places in the files, whose changed lines goneA and goneB mark.
type differ struct {
	a, b         []int32
	lineA, lineB []int
	goneA, goneB []bool
	// The furthest x on each diagonal x-y, from the start and from the end;
	// origin is the index of diagonal 0.
	ahead, back []int
	origin      int
	cost        int
}

// box is the part [x0,x1) of a against [y0,y1) of b. exact asks for its shortest
// script whatever it takes.
type box struct {
	x0, x1, y0, y1 int
	exact          bool
}

func (d *differ) compare() {
	d.origin = len(d.b) + 1
	d.ahead = make([]int, len(d.a)+len(d.b)+3)
	d.back = make([]int, len(d.a)+len(d.b)+3)
	d.cost = max(splitCost, roughRoot(len(d.a)+len(d.b)+3))
	// Boxes still to do. Their order does not matter, and a list is not as
	// deep as the calls that bad input could make.
	for todo := []box{{0, len(d.a), 0, len(d.b), false}}; len(todo) > 0; {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for k.x0 < k.x1 && k.y0 < k.y1 && d.a[k.x0] == d.b[k.y0] {
			k.x0, k.y0 = k.x0+1, k.y0+1
		}
		for k.x0 < k.x1 && k.y0 < k.y1 && d.a[k.x1-1] == d.b[k.y1-1] {
			k.x1, k.y1 = k.x1-1, k.y1-1
		}
		if k.x0 == k.x1 || k.y0 == k.y1 {
			for _, i := range d.lineA[k.x0:k.x1] {
				d.goneA[i] = true
			}
			for _, j := range d.lineB[k.y0:k.y1] {
				d.goneB[j] = true
			}
			continue
		}
		x, y, exactLow, exactHigh := d.split(k)
		todo = append(todo, box{k.x0, x, k.y0, y, exactLow}, box{x, k.x1, y, k.y1, exactHigh})
	}
}

// split returns a point that a shortest script of the box goes through, found
// where a search from the start meets one from the end. Beyond d.cost edits it
// returns the point that one of the two got furthest to.
func (d *differ) split(k box) (x, y int, exactLow, exactHigh bool) {
	ahead, back, o := d.ahead, d.back, d.origin
	lowest, highest := k.x0-k.y1, k.x1-k.y0 // diagonals of the box
	first, last := k.x0-k.y0, k.x1-k.y1     // of its two corners
	odd := (first-last)&1 != 0
	fmin, fmax, bmin, bmax := first, first, last, last
	ahead[o+first], back[o+last] = k.x0, k.x1
	// A diagonal outside of the box must never be the better neighbour.
	widen := func(v []int, lo, hi *int, outside int) {
		if *lo > lowest {
			*lo--
			v[o+*lo-1] = outside
		} else {
			*lo++
		}
		if *hi < highest {
			*hi++
			v[o+*hi+1] = outside
		} else {
			*hi--
		}
	}
	for cost := 1; ; cost++ {
		widen(ahead, &fmin, &fmax, -1)
		for diag := fmax; diag >= fmin; diag -= 2 {
			x := ahead[o+diag+1]
			if ahead[o+diag-1] >= x {
				x = ahead[o+diag-1] + 1
			}
			y := x - diag
			for x < k.x1 && y < k.y1 && d.a[x] == d.b[y] {
				x, y = x+1, y+1
			}
			ahead[o+diag] = x
			if odd && bmin <= diag && diag <= bmax && back[o+diag] <= x {
				return x, y, true, true
			}
		}
		widen(back, &bmin, &bmax, math.MaxInt)
		for diag := bmax; diag >= bmin; diag -= 2 {
			x := back[o+diag-1]
			if x >= back[o+diag+1] {
				x = back[o+diag+1] - 1
			}
			y := x - diag
			for x > k.x0 && y > k.y0 && d.a[x-1] == d.b[y-1] {
				x, y = x-1, y-1
			}
			back[o+diag] = x
			if !odd && fmin <= diag && diag <= fmax && x <= ahead[o+diag] {
				return x, y, true, true
			}
		}
		if !k.exact && cost >= d.cost {
			return d.furthest(k, fmin, fmax, bmin, bmax)
		}
	}
}

// furthest returns the point, of those reached from either end, with the most
// lines behind it. The side it was reached from is then known to be cheap.
func (d *differ) furthest(k box, fmin, fmax, bmin, bmax int) (x, y int, exactLow, exactHigh bool) {
	o := d.origin
	fsum, fx := -1, 0
	for diag := fmax; diag >= fmin; diag -= 2 {
		x := min(d.ahead[o+diag], k.x1)
		y := x - diag
		if y > k.y1 {
			x, y = k.y1+diag, k.y1
		}
		if x+y > fsum {
			fsum, fx = x+y, x
		}
	}
	bsum, bx := math.MaxInt, 0
	for diag := bmax; diag >= bmin; diag -= 2 {
		x := max(d.back[o+diag], k.x0)
		y := x - diag
		if y < k.y0 {
			x, y = k.y0+diag, k.y0
		}
		if x+y < bsum {
			bsum, bx = x+y, x
		}
	}
	if k.x1+k.y1-bsum < fsum-(k.x0+k.y0) {
		return fx, fsum - fx, true, false
	}
	return bx, bsum - bx, false, true
}
