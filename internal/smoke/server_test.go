package smoke

import (
	"testing"
)

// The sampler sees the memory of the server and of its child.
func TestSamplerSeesTheTree(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), options(t, "fat", check("health"), check("tokenize"), check("completion")))
	if err != nil {
		t.Fatal(err)
	}
	s := r.Servers[0]
	const mib = 1024
	// The server holds 64 MiB and its child 256; the rest is two Go runtimes,
	// which are large under -race.
	if s.PeakRSSKiB < 320*mib || s.PeakRSSKiB > 2*320*mib {
		t.Errorf("peak RSS is %d MiB, want a little over 320", s.PeakRSSKiB/mib)
	}
	if len(s.Memory.Points) < 3 {
		t.Errorf("%d looks", len(s.Memory.Points))
	}
	if r.PeakRSSKiB != s.PeakRSSKiB {
		t.Errorf("peak of the run is %d KiB, of its server %d", r.PeakRSSKiB, s.PeakRSSKiB)
	}
}
