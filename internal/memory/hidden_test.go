package memory

import "testing"

// every calls f for a look each 0.1 s of so many seconds; f gives MiB.
func every(seconds float64, f func(x float64) float64) []xy {
	var out []xy
	for x := 0.0; x <= seconds; x += 0.1 {
		out = append(out, xy{x, f(x) * mibF})
	}
	return out
}

// pausing is the time that a program has worked at x, when it stood still from at.
func pausing(x, at, long float64) float64 { return x - min(max(0, x-at), long) }

// A peak at the start is no swing in which a leak can hide.
func TestPeakAtTheStartDoesNotHideALeak(t *testing.T) {
	states := map[State]int{}
	for _, peak := range []float64{50, 100, 200, 400} {
		for at := 6.0; at < 55; at += 6 {
			for _, long := range []float64{0, 6, 9, 12, 15, 18} {
				if at+long > 60 {
					continue
				}
				v := judge(every(60, func(x float64) float64 {
					y := 10 + max(0, pausing(x, at, long)-6)
					if x > 2 {
						y += 20
					}
					if x > 2 && x < 6 {
						y += peak
					}
					return y
				}), JudgeOptions{Unit: Second})
				if states[v.State]++; v.State != Grows && v.State != Unclear {
					t.Errorf("peak of %v MiB, pause of %v s at %v: %v", peak, long, at, v)
				}
			}
		}
	}
	t.Log(states)
}

// A warm-up does not hide a leak that is small beside it. A pause may, which is all but the
// first third of the plateau, in one that grows by little more than the floor.
func TestWarmUpDoesNotHideALeak(t *testing.T) {
	states, all := map[State]int{}, 0
	for _, warm := range []float64{100, 200, 400, 800} {
		for _, rate := range []float64{0.1, 0.2, 0.5, 1} {
			for at := 6.0; at < 55; at += 6 {
				for _, long := range []float64{0, 6, 9, 12, 15, 18} {
					if at+long > 60 {
						continue
					}
					v := judge(every(60, func(x float64) float64 {
						return 10 + warm*min(1, x/3) + rate*pausing(x, at, long)
					}), JudgeOptions{Unit: Second})
					all++
					if states[v.State]++; v.State != Grows && v.State != Unclear {
						t.Logf("warm-up of %v MiB, %v MiB/s, pause of %v s at %v: %v", warm, rate, long, at, v)
					}
				}
			}
		}
	}
	t.Log(states)
	if n := states[Flat] + states[Bounded]; n > all/20 {
		t.Errorf("%d of %d leaks are called flat or settled", n, all)
	}
}

// A program that frees what it worked on and idles before it ends does not leak; one
// that frees on its way out, in a moment, may.
func TestFreedBeforeTheEnd(t *testing.T) {
	work := func(idle float64) []xy {
		return every(16+idle, func(x float64) float64 {
			if x > 16 {
				return 10
			}
			return 10 + 3.75*x
		})
	}
	for _, idle := range []float64{2, 4} {
		if v := judge(work(idle), JudgeOptions{Unit: Second, Ended: true}); v.State != Flat {
			t.Errorf("idle for %v s: %v", idle, v)
		}
	}
	if v := judge(work(0.5), JudgeOptions{Unit: Second, Ended: true}); v.State != Grows {
		t.Errorf("at once: %v", v)
	}
}
