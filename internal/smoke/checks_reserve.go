package smoke

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/sim"
)

// FaultReserve is a reserve for a prompt that is wrong: another size than what the prompt
// takes, or a start that ends, or does not, where it should not.
const FaultReserve = "reserve"

// reserveVariable is the switch of prefill-reserve.
const reserveVariable = "LLAMA_PREFILL_RESERVE"

// kimi is a model of two layers with the attention of Kimi K2.
var kimi = gguf.Model{
	Layers: 2, Embd: 512, Heads: 64, KVHeads: 1, HeadDim: 192, FF: 1024, KVRank: 512, QRank: 128,
	RopeDim: 64, ValueDim: 128,
}

// reserveSlack is for what a prompt takes of the pool besides: activations in f16 and q8_1.
const reserveSlack = 64 * mib

// prefillReserveCheck: an MLA model of ik_llama.cpp whose prompt takes scratch that grows with
// the context. A server that starts on a device with room for half of it dies in the prompt;
// one that reserves it does not start there, and says what internal/memory forecasts. With room
// for all of it that server starts, and the prompt takes no more than the slack besides.
func prefillReserveCheck(a *args) step {
	tokens, within := a.number("tokens", 8192, 4096), a.duration("within", 5*time.Minute)
	tokens = (tokens + 255) / 256 * 256 // as the server rounds it
	base := sized(a.config(), 1, tokens, "-mla", "3", "-fa", "on", "-amb", "0", "-b", "512", "-ub", "512",
		"--no-warmup") // its one token has cuBLAS read beyond a buffer of the pool, upstream's own fault with f16 weights
	d, prompt := deviceArgs(a), tokens-64
	cfg := func(ctx context.Context, s *session) (config, error) {
		m := kimi
		m.Context, m.Seed = s.base.Context, s.base.Seed
		s.o.Model = m
		return base(ctx, s)
	}
	return func(ctx context.Context, s *session) (outcome, error) {
		need, err := scratchOf(ctx, s, cfg, tokens)
		if err != nil {
			return outcome{}, err
		}
		started, err := startTakes(ctx, s, d, cfg)
		if err != nil {
			return outcome{}, err
		}
		on := func(bytes int64) sim.Device {
			d := d
			d.VRAMMiB = (started + bytes + mib - 1) / mib
			return d
		}
		small := on(need / 2)
		var said *refusal
		refused := func(st sim.State, f *fault) {
			if said = readRefusal(f.log); said == nil && st.Failed > 0 {
				f.name = FaultDeviceOOM
			}
		}
		out, err := deviceWork{
			device: small, config: cfg, refused: refused,
			drive: func(ctx context.Context, srv *server, dev *device) (outcome, error) {
				_, wrong := srv.scratched(ctx, dev, prompt, within)
				if wrong == nil {
					wrong = srv.namedFault(FaultReserve, "a prompt of %d tokens fits a device of %d MiB, and by the forecast it "+
						"lacks %.1f MiB", prompt, small.VRAMMiB, float64(need-need/2)/mib)
				}
				return outcome{}, wrong
			},
		}.run(ctx, s)
		if said == nil {
			return out, err
		}
		if why := said.not(tokens, need); why != "" {
			return outcome{}, &fault{name: FaultReserve, msg: "the start is refused: " + why, log: said.log}
		}
		ample := on(need + need/20 + reserveSlack) // the legacy pool takes a twentieth more
		return deviceWork{device: ample, config: cfg, drive: func(ctx context.Context, srv *server, dev *device) (outcome,
			error,
		) {
			more, err := srv.scratched(ctx, dev, prompt, within)
			if err != nil {
				return outcome{}, err
			}
			what := fmt.Sprintf("on a device of %d MiB the start is refused: %.2f MiB needed, as forecast, and %.2f MiB "+
				"free; on one of %d MiB a prompt of %d tokens takes %.1f MiB more than the start",
				small.VRAMMiB, said.need, said.free, ample.VRAMMiB, prompt, float64(more)/mib)
			if more > reserveSlack {
				return outcome{}, srv.namedFault(FaultReserve, "%s; %d MiB would be no fault", what, reserveSlack/mib)
			}
			return outcome{detail: what, figures: map[string]any{
				"need_mib": said.need, "free_mib": said.free,
				"grown_mib": float64(more) / mib,
			}}, nil
		}}.run(ctx, s)
	}
}

// scratchOf is what internal/memory forecasts for a prompt that fills the context, in bytes.
func scratchOf(ctx context.Context, s *session, cfg func(context.Context, *session) (config, error),
	tokens int,
) (int64, error) {
	c, err := cfg(ctx, s)
	if err != nil {
		return 0, err
	}
	h, err := gguf.ReadFile(c.model)
	if err != nil {
		return 0, err
	}
	n, err := memory.Forecast(&h, memory.NeedOptions{
		Ctx: tokens, KeyType: gguf.F16, ValueType: gguf.F16, GPULayers: -1,
		IK: true,
	})
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(n.Parts, func(p memory.Part) bool { return p.Name == memory.MLAPart })
	if i < 0 {
		return 0, fmt.Errorf("%s: there is no %s in the forecast", c.model, memory.MLAPart)
	}
	return n.Parts[i].Bytes, nil
}

// startTakes is how much of an ample device a server has taken when it is ready, with nothing reserved.
func startTakes(ctx context.Context, s *session, d sim.Device,
	cfg func(context.Context, *session) (config, error),
) (taken int64, err error) {
	defer func(env map[string]string) { s.current.Env = env }(s.current.Env)
	s.current.Env = maps.Clone(s.current.Env)
	delete(s.current.Env, reserveVariable)
	d.VRAMMiB = ampleMiB
	_, err = deviceWork{device: d, config: cfg, drive: func(_ context.Context, _ *server, dev *device) (outcome, error) {
		st, err := sim.ReadState(dev.state)
		taken = st.VRAMUsed
		return outcome{}, err
	}}.run(ctx, s)
	return taken, err
}

// scratched reads a prompt and returns by how many bytes the device's peak has outgrown what was
// taken before. A pool that gets no more is the fault, whatever the server does then.
func (srv *server) scratched(ctx context.Context, dev *device, tokens int,
	within time.Duration,
) (more int64, err error) {
	before, err := sim.ReadState(dev.state)
	if err != nil {
		return 0, err
	}
	_, _, wrong := srv.prefill(ctx, tokens, within)
	if ctx.Err() != nil {
		return 0, wrong
	}
	after, err := sim.ReadState(dev.state)
	if err != nil {
		return 0, err
	}
	took, err := dev.takers()
	if err != nil {
		return 0, err
	}
	if b := took[poolAlloc]; wrong != nil && b.refused > 0 {
		return 0, srv.namedFault(FaultDeviceOOM,
			"in a prompt of %d tokens the pool got no %.1f MiB more, with %.1f MiB taken: %s",
			tokens, float64(b.refused)/mib, float64(after.VRAMUsed)/mib, firstLine(wrong.Error()))
	}
	return after.VRAMPeak - before.VRAMUsed, wrong
}

// refusal is what a server says that does not start, since a prompt would have no room.
type refusal struct {
	tokens     int
	need, free float64 // MiB
	log        string
}

var refusalRE = regexp.MustCompile(`a prompt that fills the context of (\d+) tokens needs (\d+\.\d\d) MiB of scratch on \w+, and (\d+\.\d\d) MiB are free`)

// readRefusal reads it from a server's log; nil: it does not say so.
func readRefusal(log string) *refusal {
	text, err := os.ReadFile(log)
	m := refusalRE.FindSubmatch(text)
	if err != nil || m == nil {
		return nil
	}
	tokens, errT := strconv.Atoi(string(m[1]))
	need, errN := strconv.ParseFloat(string(m[2]), 64)
	free, errF := strconv.ParseFloat(string(m[3]), 64)
	if errors.Join(errT, errN, errF) != nil {
		return nil
	}
	return &refusal{tokens, need, free, log}
}

// not says why it is not what was to be said, or "".
func (r *refusal) not(tokens int, need int64) string {
	switch want := float64(need) / mib; {
	case r.tokens != tokens:
		return fmt.Sprintf("it is said of %d tokens, and the context has %d", r.tokens, tokens)
	case math.Abs(r.need-want) > 0.005:
		return fmt.Sprintf("%.2f MiB are needed, it says, and the forecast is %.2f MiB", r.need, want)
	case r.free >= r.need:
		return fmt.Sprintf("it says that %.2f MiB are needed and %.2f MiB free", r.need, r.free)
	}
	return ""
}
