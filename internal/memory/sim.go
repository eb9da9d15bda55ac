package memory

import (
	"context"
	"errors"
	"io/fs"

	"github.com/llpatch/llpatch/internal/sim"
)

// SimulatedDevice returns a probe of the state page that a simulated device
// keeps in file. Before the program has opened the device nothing is taken.
func SimulatedDevice(file string) Probe {
	return Poll("the simulated device", func(context.Context, []int) (Reading, error) {
		st, err := sim.ReadState(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sim.ErrNoState) {
			return Reading{Cards: 1}, nil
		}
		return Reading{Cards: 1, Used: st.VRAMUsed, Total: st.VRAMTotal}, err
	})
}
