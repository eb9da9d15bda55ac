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

const (
	// FaultDeviceOOM is a server that ends because a buffer or the pool does not fit the device.
	FaultDeviceOOM = "device-oom"
	// FaultWrongMemory is a buffer or a block of the pool in the other kind of memory than
	// what was asked for.
	FaultWrongMemory = "wrong-memory"
)

// ampleMiB is a device on which everything fits.
const ampleMiB = 1 << 20

// managedFallbackCheck: a server whose KV cache, or whose scratch for a long prompt,
// does not fit the device works all the same, with managed memory. Who took it is read
// from the device's trace: the cache alone would raise any count. With room, the device
// has that many MiB more than the server takes to start.
func managedFallbackCheck(a *args) step {
	tokens, prompt := a.number("tokens", 65536, 4096), a.number("prompt", 1024, 256)
	within := a.duration("within", 5*time.Minute)
	var more []string
	if kv := a.text("kv", ""); kv != "" {
		more = append(more, "-ctk", kv, "-ctv", kv)
	}
	if ubatch := a.number("ubatch", 0, 1); ubatch > 0 {
		more = append(more, "-b", strconv.Itoa(max(ubatch, 1024)), "-ub", strconv.Itoa(ubatch))
	}
	layers, heads, size := a.number("layers", 0, 1), a.number("kv-heads", 0, 1), a.number("head-dim", 0, 1)
	want := [2]string{a.text("buffers", "managed"), a.text("pool", "device")}
	base := sized(a.config(), 1, tokens, more...)
	d, room := deviceArgs(a), int64(a.number("room", 0, 1))
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
	return func(ctx context.Context, s *session) (outcome, error) {
		d := d
		if room > 0 {
			var taken int64
			start := func(_ context.Context, _ *server, dev *device) (outcome, error) {
				st, err := sim.ReadState(dev.state)
				taken = (st.VRAMUsed + mib - 1) / mib
				return outcome{}, err
			}
			if _, err := (deviceWork{device: sim.Device{VRAMMiB: ampleMiB}, config: cfg, drive: start}).run(ctx, s); err != nil {
				return outcome{}, err
			}
			d.VRAMMiB = taken + room
		}
		refused := func(st sim.State, f *fault) {
			if st.Failed > 0 {
				f.name = FaultDeviceOOM
				f.msg = fmt.Sprintf("a KV cache of %d tokens does not fit %d MiB, and the server ended: %s", tokens, d.VRAMMiB,
					firstLine(f.msg))
			}
		}
		return deviceWork{device: d, config: cfg, refused: refused, drive: func(ctx context.Context, srv *server,
			dev *device,
		) (outcome, error) {
			_, _, wrong := srv.prefill(ctx, prompt, within)
			took, err := dev.takers()
			if err != nil {
				return outcome{}, err
			}
			if b := took[poolAlloc]; wrong != nil && b.refused > 0 && srv.dies() {
				at := srv.tokens.Load() // told after each batch
				return outcome{}, srv.namedFault(FaultDeviceOOM,
					"the pool got no %.1f MiB more of a device of %d MiB, between token %d and %d of a prompt of %d, and the "+
						"server ended: %s",
					float64(b.refused)/mib, d.VRAMMiB, at, at+1024, prompt, srv.proc.End())
			}
			if wrong != nil {
				return outcome{}, wrong
			}
			for i, b := range []*blocks{took[bufferAlloc], took[poolAlloc]} {
				if why := b.not(want[i]); why != "" {
					return outcome{}, srv.namedFault(FaultWrongMemory, "%s: %s", []string{"the buffers", "the pool's blocks"}[i], why)
				}
			}
			st, err := sim.ReadState(dev.state)
			buffers, pool := took[bufferAlloc], took[poolAlloc]
			return outcome{
				detail: fmt.Sprintf("%d tokens on a device of %d MiB; managed: %d of %d buffers, %d of %d blocks of the pool, "+
					"%.1f MiB in the end",
					prompt, d.VRAMMiB, buffers.managed, buffers.own+buffers.managed, pool.managed, pool.own+pool.managed,
					float64(st.ManagedUsed)/mib),
				figures: map[string]any{"managed_mib": float64(st.ManagedUsed) / mib},
			}, err
		}}.run(ctx, s)
	}
}

// not says why the blocks are not in the kind of memory that was asked for, or "". Buffers
// are managed where one of them is: those that fit stay in the device's own.
func (b *blocks) not(want string) string {
	switch {
	case want == "managed" && b.managed == 0:
		return fmt.Sprintf("none of %d is managed memory", b.own)
	case want == "device" && b.managed > 0:
		return fmt.Sprintf("%d of %d are managed memory, and were to be the device's own", b.managed, b.own+b.managed)
	case want == "device" && b.own == 0:
		return "there are none, so nothing was shown"
	case want == "all managed" && (b.own > 0 || b.managed == 0):
		return fmt.Sprintf("%d of %d are the device's own memory, and were to be managed", b.own, b.own+b.managed)
	}
	return ""
}
