package smoke

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/spec"
)

// device is where a check's simulated device keeps its accounts.
type device struct {
	state, trace string // files
}

const mib = 1 << 20

// deviceArgs reads what a check may say of its device.
func deviceArgs(a *args) sim.Device {
	return sim.Device{
		VRAMMiB: int64(a.number("vram", 0, 16)), CC: a.text("cc", ""), VMM: a.flag("vmm", false),
		DelayFrees: a.number("delay-frees", 0, 0), FailAlloc: int64(a.number("fail-alloc", 0, 0)),
		Count: a.number("count", 0, 0), Late: a.flag("late", true),
	}
}

// opened gives the current check a simulated device of its own, whose accounts
// are kept below the work folder.
func (s *session) opened(d sim.Device) (*device, error) {
	if s.o.deviceOf(s.current) != spec.Sim {
		return nil, errors.New(`this check reads the simulated device's accounts: give it device = "sim"`)
	}
	base := filepath.Join(s.o.Work, fmt.Sprintf("device-%s-%d", s.current.Name, len(s.report.Servers)+1))
	dev := &device{state: base + ".state", trace: base + ".trace"}
	env := map[string]string{}
	seen := func(path string) string { return path }
	if s.wine != nil {
		seen = sim.WinePath
	}
	for _, kv := range d.Env(seen(dev.trace), seen(dev.state)) {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	maps.Copy(env, s.current.Env) // a recipe's own word counts
	s.current.Env = env
	s.device = dev
	return dev, nil
}

// deviceWork is what a check does to a server that has the simulated device to
// itself.
type deviceWork struct {
	device  sim.Device
	config  func(context.Context, *session) (config, error)
	refused func(sim.State, *fault) // says more of a server that does not start; may be nil
	drive   func(context.Context, *server, *device) (outcome, error)
}

// run does the work. Whatever it comes to, a fault of the device's is the check's.
func (w deviceWork) run(ctx context.Context, s *session) (outcome, error) {
	// The next device has settings of its own.
	defer func(env map[string]string) { s.current.Env = env }(s.current.Env)
	dev, err := s.opened(w.device)
	if err != nil {
		return outcome{}, err
	}
	c, err := w.config(ctx, s)
	if err != nil {
		return outcome{}, err
	}
	srv, err := s.need(ctx, c)
	if err != nil {
		dev.nameCapture(err)
		var f *fault
		if w.refused != nil && errors.As(err, &f) {
			// Not by its log: a server that crashes takes its last lines with it.
			if st, stErr := sim.ReadState(dev.state); stErr == nil {
				w.refused(st, f)
			}
		}
		return outcome{}, err
	}
	defer s.stop(context.WithoutCancel(ctx)) // the next check wants another device
	out, err := w.drive(ctx, srv, dev)
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	st, stErr := sim.ReadState(dev.state)
	if stErr != nil {
		return out, errors.Join(err, stErr)
	}
	if out.figures == nil {
		out.figures = map[string]any{}
	}
	maps.Copy(out.figures, map[string]any{
		"vram_peak_mib": float64(st.VRAMPeak*10/mib) / 10, "allocs": st.Allocs, "frees": st.Frees,
		"graphs_peak": st.GraphInstancesPeak, "graph_launches": st.GraphLaunches, "device_faults": st.Faults,
	})
	switch {
	case st.StaleReplays > 0:
		return out, srv.namedFault(FaultGraphReplay,
			"%d of %d graph launches use memory that was freed since the graph was captured; trace: %s",
			st.StaleReplays, st.GraphLaunches, dev.trace)
	case st.Faults > 0:
		kind, what := dev.first("fault")
		make := srv.fault
		if name := faultNames[kind]; name != "" {
			make = func(format string, args ...any) error { return srv.namedFault(name, format, args...) }
		}
		return out, make("the device saw %d faults, the first: %s; trace: %s", st.Faults, what, dev.trace)
	}
	dev.nameCapture(err)
	return out, err
}

// nameCapture names a fault that comes from a capture that a call made invalid.
func (d *device) nameCapture(err error) {
	var f *fault
	if !errors.As(err, &f) || f.name != "" {
		return
	}
	if _, what := d.first("break"); what != "" {
		f.name, f.msg = FaultCapture, fmt.Sprintf("a capture was made invalid (%s); trace: %s: %s", what, d.trace, f.msg)
	}
}

// faultNames are the names of the device's kinds of fault that a proof can expect.
var faultNames = map[string]string{"busy": FaultFreedInUse}

// prefillVRAMCheck: the device memory that a prefill takes beyond what was there
// when the server was ready stays near what attention needs for one layer, whose
// scratch the next reuses (docs/memory.md): with flash attention its f16 copy of
// a quantised cache, 2 bytes for each element of K and V; without, its f16 copy of
// the softmax, 2 bytes for each head, token of the ubatch and cell of the cache.
func prefillVRAMCheck(a *args) step {
	tokens, ubatch := a.number("tokens", 20480, 256), a.number("ubatch", 512, 1)
	flash, factor := a.flag("flash", true), a.fraction("factor", 2)
	kv, fa := "q8_0", "on"
	if !flash {
		kv, fa = "f16", "off"
	}
	kv = a.text("kv", kv)
	within, experts, offload := a.duration("within", 5*time.Minute), a.number("experts", 0, 0), a.fraction("offload", 1)
	base := sized(a.config(), 1, tokens+64, "-ctk", kv, "-ctv", kv, "-fa", fa, "-b", strconv.Itoa(max(ubatch, 32)), "-ub",
		strconv.Itoa(ubatch))
	cfg := func(ctx context.Context, s *session) (config, error) {
		s.withExperts(experts)
		c, err := base(ctx, s)
		if offload < 1 {
			c.args = append(c.args, "-ngl", strconv.Itoa(int(offload*float64(s.o.Model.Layers))))
		}
		return c, err
	}
	return deviceWork{device: deviceArgs(a), config: cfg, drive: func(ctx context.Context, srv *server,
		dev *device,
	) (outcome, error) {
		before, err := sim.ReadState(dev.state)
		if err != nil {
			return outcome{}, err
		}
		if _, _, err := srv.prefill(ctx, tokens, within); err != nil {
			return outcome{}, err
		}
		after, err := sim.ReadState(dev.state)
		if err != nil {
			return outcome{}, err
		}
		m := srv.s.o.Model
		cells := int64((tokens + 255) / 256 * 256)
		need := 4 * cells * int64(m.KVHeads) * int64(m.HeadSize())
		if !flash {
			need = 2 * cells * int64(m.Heads) * int64(ubatch)
		}
		grown, limit := after.VRAMPeak-before.VRAMUsed, int64(factor*float64(need))+prefillSlack
		what := fmt.Sprintf("a prefill of %d tokens took %.1f MiB more, and needs %.1f MiB (%d allocations, %d frees)",
			tokens, float64(grown)/mib, float64(need)/mib, after.Allocs-before.Allocs, after.Frees-before.Frees)
		out := outcome{detail: what, figures: map[string]any{
			"start_mib": float64(before.VRAMUsed) / mib,
			"grown_mib": float64(grown) / mib, "need_mib": float64(need) / mib,
		}}
		if grown > limit {
			return out, srv.namedFault(FaultVRAMGrowth, "%s; %.1f MiB would be no fault", what, float64(limit)/mib)
		}
		return out, nil
	}}.run
}

// withExperts gives the model n experts a layer, of which two are used; none for 0.
func (s *session) withExperts(n int) {
	if n > 0 {
		s.o.Model.Experts, s.o.Model.ExpertsUsed = n, min(2, n)
	}
}

// prefillSlack is for what a prefill takes besides: activations in q8_1, parts
// of attention's result. On the models used here that is some 10 MiB.
const prefillSlack = 16 << 20

// graphReplayCheck: slots that answer while others read long prompts in small
// ubatches, so that graphs are captured while the pool changes. No graph may be
// launched over memory that was freed since its capture. With experts, whose
// weights must be quantised or ggml-cuda takes no graph, a prompt leaves the
// answers' graph alone, and it is launched again after the pool has changed. Where
// prompts are growing, each outgrows what the answer before it used by less than the
// trim's quarter, so that the trim releases memory of the answers' graph.
func graphReplayCheck(a *args) step {
	slots, ubatch := a.number("slots", 3, 1), a.number("ubatch", 64, 1)
	room, length := a.number("context", 4096, 256), a.duration("for", 10*time.Second)
	n, kv, experts := a.number("n_predict", 32, 2), a.text("kv", "q8_0"), a.number("experts", 0, 0)
	growing := a.flag("growing", false)
	base := sized(a.config(), slots, room, "-ctk", kv, "-ctv", kv, "-fa", "on", "-b", strconv.Itoa(max(ubatch, 64)),
		"-ub", strconv.Itoa(ubatch))
	cfg := func(ctx context.Context, s *session) (config, error) {
		s.withExperts(experts)
		return base(ctx, s)
	}
	return deviceWork{device: deviceArgs(a), config: cfg, drive: func(ctx context.Context, srv *server,
		dev *device,
	) (outcome, error) {
		before, err := sim.ReadState(dev.state)
		if err != nil {
			return outcome{}, err
		}
		for length := 4; growing && length < 2*ubatch; length *= 3 {
			if _, err := srv.complete(ctx, strings.Repeat("a", length), n); err != nil {
				return outcome{}, err
			}
		}
		began := time.Now()
		for i := 1; time.Since(began) < length || i < 3; i++ {
			// Slots fill up from a short text, which takes many answers, and from
			// a long one, which takes many ubatches.
			if err := srv.converse(ctx, slots, conversation{
				answer: n, room: room,
				until: time.Now().Add(length / 4),
			}); err != nil {
				return outcome{}, err
			}
			// The graph of a short answer is launched again after the long prompt.
			if _, err := srv.complete(ctx, "An answer.", n); err != nil {
				return outcome{}, err
			}
			if _, _, err := srv.prefill(ctx, room*3/4, time.Minute); err != nil {
				return outcome{}, err
			}
			if _, err := srv.complete(ctx, "An answer.", n); err != nil {
				return outcome{}, err
			}
		}
		st, err := sim.ReadState(dev.state)
		if err != nil {
			return outcome{}, err
		}
		what := fmt.Sprintf("%d graph launches, none over freed memory, %d captures, %d frees, %d requests",
			st.GraphLaunches, st.Captures, st.Frees-before.Frees, srv.requests.Load())
		switch {
		case st.GraphLaunches == 0:
			return outcome{}, errors.New("no graph was launched, so nothing was shown")
		case 2*st.Captures > st.GraphLaunches:
			return outcome{}, srv.namedFault(FaultRecapture, "graphs are captured again and again: %s", what)
		}
		return outcome{detail: what}, nil
	}}.run
}
