package smoke

import (
	"fmt"
	"os"

	"github.com/llpatch/llpatch/internal/sim"
)

// firstFault returns the first fault of the trace in words.
func (d *device) firstFault() string {
	f, err := os.Open(d.trace)
	if err != nil {
		return "its trace cannot be read: " + err.Error()
	}
	defer f.Close()
	for e, err := range sim.ReadTrace(f) {
		if err != nil {
			return err.Error()
		}
		if e.Name == "fault" {
			return fmt.Sprintf("%s of %d bytes (allocation %d)", e.Kind, e.Bytes, e.ID)
		}
	}
	return "it is not in the trace"
}
