package memory

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/llpatch/llpatch/internal/sim"
)

const stateWait = 2 * time.Second

// Simulated returns a probe of the simulated device's state page (sim.ReadState),
// which the program makes when it first uses the device: until then nothing is
// taken, and where it never does, VRAM is not known. Its counts are exact, and only
// the program's own.
func Simulated(path string) Probe {
	var half time.Time // since when there is a file that is no state
	var old *sim.State // what an earlier program left in the file
	return Poll("simulated device", func(_ context.Context, watched []int) (Reading, error) {
		s, err := sim.ReadState(path)
		if errors.Is(err, fs.ErrNotExist) {
			return Reading{Cards: 1, Absent: path + " was never written: the program used no simulated device, or keeps its " +
				"state elsewhere (LLPATCH_SIM_STATE)"}, nil
		}
		if errors.Is(err, sim.ErrNoState) {
			// It may be in the making, but not for long: another file, or another
			// version, must not pass for a device that nobody uses.
			if half.IsZero() {
				half = time.Now()
			}
			if time.Since(half) < stateWait {
				return Reading{Cards: 1, Absent: err.Error()}, nil
			}
		}
		if err != nil {
			return Reading{}, err
		}
		if len(watched) == 0 {
			old = &s
		}
		if old != nil && s == *old {
			return Reading{Cards: 1, Absent: path + " is of an earlier program, and this one did not use it"}, nil
		}
		old = nil
		return Reading{Used: s.VRAMUsed, Total: s.VRAMTotal, Cards: 1, Own: s.VRAMUsed, HasOwn: true, Host: s.OwnBytes}, nil
	})
}
