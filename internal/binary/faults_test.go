package binary

import "testing"

// A file with any number of faults says the first of them, as many as are kept, and no more.
func TestFaultsKept(t *testing.T) {
	c, h := &CUDA{}, newHIP(1)
	for i := range maxFaults + 3 {
		c.fault("fault %d", i)
		h.fault("fault %d", i)
	}
	for name, faults := range map[string][]string{"CUDA": c.Faults, "HIP": h.Faults} {
		if len(faults) != maxFaults || faults[0] != "fault 0" || faults[maxFaults-1] != "fault 7" {
			t.Errorf("%s: %q", name, faults)
		}
	}
}
