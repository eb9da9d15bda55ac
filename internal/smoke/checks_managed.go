package smoke

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/sim"
)

// FaultDeviceOOM is a server that ends because a buffer does not fit the device.
const FaultDeviceOOM = "device-oom"

// managedFallbackCheck: a server whose KV cache does not fit the device starts
// all the same, with managed memory, and answers.
func managedFallbackCheck(a *args) step {
	tokens := a.number("tokens", 65536, 4096)
	base := sized(a.config(), 1, tokens)
	d := deviceArgs(a)
	if _, given := a.values["vram"]; !given {
		d.VRAMMiB = 96 // the model and its buffers take some 40, the cache 128
	}
	return func(ctx context.Context, s *session) (outcome, error) {
		dev, err := s.opened(d)
		if err != nil {
			return outcome{}, err
		}
		c, err := base(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		// Where the server knows how to, it makes what does not fit smaller.
		help, err := s.help(ctx, "llama-server")
		if err != nil {
			return outcome{}, err
		}
		if strings.Contains(help, "-fit,") {
			c.args = append(c.args, "-fit", "off")
		}
		srv, err := s.need(ctx, c)
		if err != nil {
			var f *fault
			// Not by its log: a server that crashes takes its last lines with it.
			if st, stErr := sim.ReadState(dev.state); errors.As(err, &f) && stErr == nil && st.Failed > 0 {
				f.name, f.msg = FaultDeviceOOM, fmt.Sprintf("a KV cache of %d tokens does not fit %d MiB, and the server ended: %s", tokens, d.VRAMMiB, firstLine(f.msg))
			}
			return outcome{}, err
		}
		defer s.stop(context.WithoutCancel(ctx))
		if _, _, err := srv.prefill(ctx, 1024, time.Minute); err != nil {
			return outcome{}, err
		}
		st, err := sim.ReadState(dev.state)
		if err != nil {
			return outcome{}, err
		}
		switch {
		case st.Faults > 0:
			return outcome{}, srv.fault("the device saw %d faults, the first: %s; trace: %s", st.Faults, dev.firstFault(), filepath.Base(dev.trace))
		case st.ManagedUsed == 0:
			return outcome{}, fmt.Errorf("the server took no managed memory: %d MiB were enough, so nothing was shown", d.VRAMMiB)
		}
		return outcome{
			detail:  fmt.Sprintf("started and answered on a device of %d MiB, with %.1f MiB of managed memory", d.VRAMMiB, float64(st.ManagedUsed)/mib),
			figures: map[string]any{"managed_mib": float64(st.ManagedUsed) / mib, "vram_mib": float64(st.VRAMPeak) / mib},
		}, nil
	}
}
