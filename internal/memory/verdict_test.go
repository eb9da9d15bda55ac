package memory

import "testing"

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
		"more than a wide one":     {grows(400, 390, 410, 162), grows(100, 10, 190, 162), 200 * kib, false},
	} {
		more, err := tc.v.Above(tc.ref)
		if more != tc.more || (err != nil) != tc.unclear {
			t.Errorf("%s: %v, %v, want %v, unclear %v", name, more, err, tc.more, tc.unclear)
		}
	}
}
