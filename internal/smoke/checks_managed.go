package smoke

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
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
	var more []string
	if kv := a.text("kv", ""); kv != "" {
		more = append(more, "-ctk", kv, "-ctv", kv)
	}
	if ubatch := a.number("ubatch", 0, 1); ubatch > 0 {
		more = append(more, "-b", strconv.Itoa(max(ubatch, 32)), "-ub", strconv.Itoa(ubatch))
	}
	layers, heads, size := a.number("layers", 0, 1), a.number("kv-heads", 0, 1), a.number("head-dim", 0, 1)
	base := sized(a.config(), 1, tokens, more...)
	d := deviceArgs(a)
	if d.VRAMMiB == 0 {
		d.VRAMMiB = 96 // the model and its buffers take some 40, the cache 128
	}
	cfg := func(ctx context.Context, s *session) (config, error) {
		m := &s.o.Model
		m.Layers = cmp.Or(layers, m.Layers)
		if heads > 0 {
			m.Heads, m.KVHeads = heads, heads
		}
		m.HeadDim = cmp.Or(size, m.HeadDim)
		c, err := base(ctx, s)
		if err != nil {
			return c, err
		}
		// Where the server knows how to, it makes what does not fit smaller.
		help, err := s.help(ctx, "llama-server")
		if strings.Contains(help, "-fit,") {
			c.args = append(c.args, "-fit", "off")
		}
		return c, err
	}
	refused := func(st sim.State, f *fault) {
		if st.Failed > 0 {
			f.name, f.msg = FaultDeviceOOM, fmt.Sprintf("a KV cache of %d tokens does not fit %d MiB, and the server ended: %s", tokens, d.VRAMMiB, firstLine(f.msg))
		}
	}
	return deviceWork{device: d, config: cfg, refused: refused, drive: func(ctx context.Context, srv *server, dev *device) (outcome, error) {
		if _, _, err := srv.prefill(ctx, 1024, time.Minute); err != nil {
			return outcome{}, err
		}
		st, err := sim.ReadState(dev.state)
		if err != nil {
			return outcome{}, err
		}
		if st.ManagedUsed == 0 {
			return outcome{}, fmt.Errorf("the server took no managed memory: %d MiB were enough, so nothing was shown", d.VRAMMiB)
		}
		return outcome{
			detail:  fmt.Sprintf("started and answered on a device of %d MiB, with %.1f MiB of managed memory", d.VRAMMiB, float64(st.ManagedUsed)/mib),
			figures: map[string]any{"managed_mib": float64(st.ManagedUsed) / mib},
		}, nil
	}}.run
}
