package memory

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// A series is cut into pieces of equal progress, and each piece becomes one
// number. Pieces longer than what neighbours share make the scatter of those
// numbers honest, where thousands of samples that follow each other are not.
const (
	blocks    = 36
	minBlocks = 9 // fewer cannot be judged
)

// xy is a sample: progress and bytes.
type xy struct{ x, y float64 }

// Fit is a straight line through memory over progress, with its uncertainty.
type Fit struct {
	Slope     float64 `json:"slope"`     // bytes a unit
	Intercept float64 `json:"intercept"` // bytes at 0
	Low       float64 `json:"low"`       // 95 % interval of the slope
	High      float64 `json:"high"`
	From      float64 `json:"from"` // the progress that the line was fitted over
	To        float64 `json:"to"`

	n      int     // pieces
	meanX  float64 // of the pieces
	sxx    float64
	sd     float64 // scatter of a piece around the line
	se     float64 // of the slope, with what neighbours share
	infl   float64 // how much neighbours share: 1 is nothing
	effDof float64
}

// t returns the quantile of Student's t for the fit's degrees of freedom.
func (f Fit) t(p float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: f.effDof}.Quantile(p)
}

// certain says whether the line rises, at one side's confidence p.
func (f Fit) certain(p float64) bool { return f.Slope-f.t(p)*f.se > 0 }

// grown is by how much the line rises from its beginning to its end, in bytes.
func (f Fit) grown() float64 { return f.Slope * (f.To - f.From) }

// At returns the line's value and the 95 % interval of the line itself there, in bytes.
func (f Fit) At(x float64) (y, low, high float64) {
	y = f.Intercept + f.Slope*x
	se := f.sd * math.Sqrt(f.infl) * math.Sqrt(1/float64(f.n)+(x-f.meanX)*(x-f.meanX)/f.sxx)
	d := f.t(0.975) * se
	return y, y - d, y + d
}

// Reaches returns the progress at which the line reaches so many bytes, with
// its 95 % interval (Fieller's: where the line's own band crosses). It is false
// where the line does not rise for sure.
func (f Fit) Reaches(bytes float64) (x, low, high float64, ok bool) {
	if f.Low <= 0 {
		return 0, 0, 0, false
	}
	x = (bytes - f.Intercept) / f.Slope
	// (y(m) + b(x-m) - bytes)^2 = t^2 s^2 (1/n + (x-m)^2/sxx), solved for d = x-m.
	s := f.sd * math.Sqrt(f.infl) * f.t(0.975)
	gap := bytes - (f.Intercept + f.Slope*f.meanX)
	a := f.Slope*f.Slope - s*s/f.sxx
	b := -2 * gap * f.Slope
	c := gap*gap - s*s/float64(f.n)
	disc := b*b - 4*a*c
	if a <= 0 || disc < 0 {
		return 0, 0, 0, false
	}
	r := math.Sqrt(disc)
	return x, f.meanX + (-b-r)/(2*a), f.meanX + (-b+r)/(2*a), true
}

// pieces cuts samples, sorted by x, into n pieces of equal width in x and gives
// the mean x and the trimmed mean y of each; empty ones are left out. A trimmed
// mean forgets a peak of a moment, and follows a sawtooth as a median does not.
func pieces(s []xy, n int) []xy {
	if len(s) == 0 {
		return nil
	}
	lo, hi := s[0].x, s[len(s)-1].x
	if hi <= lo {
		return nil
	}
	out := make([]xy, 0, n)
	var ys []float64
	for i, at := 0, 0; i < n; i++ {
		end := lo + (hi-lo)*float64(i+1)/float64(n)
		from := at
		for at < len(s) && (s[at].x < end || i == n-1) {
			at++
		}
		if at == from {
			continue
		}
		ys = ys[:0]
		var x float64
		for _, p := range s[from:at] {
			x += p.x
			ys = append(ys, p.y)
		}
		out = append(out, xy{x / float64(at-from), trimmed(ys)})
	}
	return out
}

// trimmed is the mean without the largest and the smallest quarter.
func trimmed(ys []float64) float64 {
	slices.Sort(ys)
	cut := len(ys) / 4
	ys = ys[cut : len(ys)-cut]
	var sum float64
	for _, y := range ys {
		sum += y
	}
	return sum / float64(len(ys))
}

// line fits pieces by least squares. The interval is Student's t, widened by what
// neighbouring residuals share (first order).
func line(p []xy) (Fit, error) {
	n := float64(len(p))
	if len(p) < 4 {
		return Fit{}, fmt.Errorf("%d different places are too few for a line", len(p))
	}
	f := Fit{n: len(p), From: p[0].x, To: p[len(p)-1].x}
	var my float64
	for _, q := range p {
		f.meanX += q.x / n
		my += q.y / n
	}
	var sxy float64
	for _, q := range p {
		f.sxx += (q.x - f.meanX) * (q.x - f.meanX)
		sxy += (q.x - f.meanX) * (q.y - my)
	}
	if f.sxx == 0 {
		return Fit{}, fmt.Errorf("no progress was made")
	}
	f.Slope = sxy / f.sxx
	f.Intercept = my - f.Slope*f.meanX
	var ss, lag, prev float64
	for i, q := range p {
		r := q.y - f.Intercept - f.Slope*q.x
		ss += r * r
		if i > 0 {
			lag += r * prev
		}
		prev = r
	}
	dof := n - 2
	f.infl = 1
	if ss > 0 {
		// Residuals of few pieces look less alike than they are: the estimate is
		// low by about (1+4rho)/n (Kendall 1954).
		rho := lag / ss
		rho = min(rho+(1+4*rho)/n, 0.9)
		if rho > 0 {
			f.infl = (1 + rho) / (1 - rho)
		}
	}
	f.sd = math.Sqrt(ss / dof)
	f.se = f.sd * math.Sqrt(f.infl/f.sxx)
	f.effDof = max(2, dof/math.Sqrt(f.infl))
	d := f.t(0.975) * f.se
	f.Low, f.High = f.Slope-d, f.Slope+d
	return f, nil
}

// steady fits the tail that gives the sharpest slope, of those that leave out no
// more than a third at the beginning: a warm-up does not belong to the line.
func steady(p []xy) (Fit, error) {
	best, err := line(p)
	if err != nil {
		return Fit{}, err
	}
	for cut := 1; cut <= len(p)/3; cut++ {
		f, err := line(p[cut:])
		if err == nil && f.se < best.se*0.9 {
			best = f
		}
	}
	return best, nil
}
