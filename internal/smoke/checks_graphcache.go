package smoke

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/llpatch/llpatch/internal/sim"
)

// oddLayers leaves every other layer to the processor, by llama.cpp's -ot.
const oddLayers = `blk\.[0-9]*[13579]\.=CPU`

// cacheVariable is the limit of graph-cache-lru.
const cacheVariable = "GGML_CUDA_GRAPH_CACHE_MAX"

// graphCacheCheck: with every other layer on the processor each computation takes
// many graphs, and prompts, read in small ubatches, take others than answers do.
// A context keeps no more of them than GGML_CUDA_GRAPH_CACHE_MAX says, and no fewer: the
// limit is reached, and the graphs of an answer, which fit, are launched as often as
// without a limit but for those that a prompt has pushed out. Without the variable
// nothing is limited. A dense model that is wholly on the device needs no limit: it has
// no more graphs anyway.
func graphCacheCheck(a *args) step {
	limit, layers, rounds := a.number("max", 24, 1), a.number("layers", 8, 2), a.number("rounds", 4, 1)
	slots, dense := a.number("slots", 1, 1), a.flag("dense", false)
	const ubatch, answer = 64, 32
	tokens := a.number("tokens", 8*ubatch, 4*ubatch)
	more := []string{"-b", strconv.Itoa(ubatch), "-ub", strconv.Itoa(ubatch)}
	if !dense {
		more = append(more, "-ot", oddLayers)
	}
	base := sized(a.config(), slots, tokens+64, more...)
	d := deviceArgs(a)
	work := func(max, rounds int, judge func(*server, graphRun) (outcome, error)) deviceWork {
		cfg := func(ctx context.Context, s *session) (config, error) {
			s.o.Model.Layers = layers
			if max > 0 {
				s.current.Env = maps.Clone(s.current.Env)
				s.current.Env[cacheVariable] = strconv.Itoa(max)
				// From b9161 on (pull request 23021) llama-server hides ggml's lines of level INFO, countsReach's among them.
				s.current.Env["LLAMA_ARG_LOG_VERBOSITY"] = "4"
			}
			return base(ctx, s)
		}
		return deviceWork{device: d, config: cfg, drive: func(ctx context.Context, srv *server, dev *device) (outcome,
			error,
		) {
			var r graphRun
			for range rounds {
				if _, _, err := srv.prefill(ctx, tokens, time.Minute); err != nil {
					return outcome{}, err
				}
				before, err := sim.ReadState(dev.state)
				if err != nil {
					return outcome{}, err
				}
				if _, err := srv.complete(ctx, "An answer.", answer); err != nil {
					return outcome{}, err
				}
				if r.state, err = sim.ReadState(dev.state); err != nil {
					return outcome{}, err
				}
				r.answer = r.state.GraphLaunches - before.GraphLaunches
				if slots > 1 {
					// So many turns, and not so long: a slow machine must meet as many evictions.
					if err := srv.converse(ctx, slots, conversation{answer: 16, room: tokens}); err != nil {
						return outcome{}, err
					}
				}
			}
			var err error
			if r.state, err = sim.ReadState(dev.state); err != nil {
				return outcome{}, err
			}
			return judge(srv, r)
		}}
	}
	var free graphRun
	unlimited := func(srv *server, r graphRun) (outcome, error) {
		free = r
		if r.state.GraphInstancesPeak <= uint64(limit) {
			return outcome{}, srv.namedFault(FaultUnasked, "without a limit no more than %d graphs at once: something limits "+
				"them, or the model is too small for a limit of %d to show anything",
				r.state.GraphInstancesPeak, limit)
		}
		return outcome{}, nil
	}
	limited := func(srv *server, r graphRun) (outcome, error) {
		what := fmt.Sprintf("%d graphs at once with a limit of %d, %d made, %d launches", r.state.GraphInstancesPeak, limit,
			r.state.Instantiations, r.state.GraphLaunches)
		switch {
		case r.state.GraphInstancesPeak > uint64(limit):
			return outcome{}, srv.namedFault(FaultGraphCache, "%s", what)
		case dense && r.state.GraphLaunches == 0:
			return outcome{}, errors.New("no graph was launched, so nothing was shown")
		case !dense && 2*r.answer < free.answer:
			return outcome{}, srv.namedFault(FaultGraphsLost, "an answer launches %d graphs, and %d without a limit: %s",
				r.answer, free.answer, what)
		case !dense:
			what += fmt.Sprintf("; an answer launches %d, and %d without a limit", r.answer, free.answer)
		}
		return outcome{detail: what, figures: map[string]any{
			"answer_launches":           r.answer,
			"answer_launches_unlimited": free.answer,
		}}, nil
	}
	return func(ctx context.Context, s *session) (outcome, error) {
		if !dense {
			if out, err := work(0, min(rounds, 2), unlimited).run(ctx, s); err != nil {
				return out, err
			}
		}
		out, err := work(limit, rounds, limited).run(ctx, s)
		if err != nil || dense || s.wine != nil { // a server under wine is not asked to end
			return out, err
		}
		return out, countsReach(s.report.Servers[len(s.report.Servers)-1].Log, limit)
	}
}

// graphRun is what a server did with graphs.
type graphRun struct {
	state  sim.State
	answer uint64 // launches for the last answer
}

var cacheCounts = regexp.MustCompile(`CUDA graph cache: device=\d+ max=(\d+) peak=(\d+) left=\d+ inserts=\d+ hits=(\d+) evictions=(\d+)`)

// countsReach reads what the cache says of itself when its context ends: graphs that
// were not captured yet count too, and the device does not see those.
func countsReach(log string, limit int) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	all := cacheCounts.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return fmt.Errorf("%s does not tell what became of the cache", log)
	}
	most := 0
	for _, m := range all {
		peak, err := strconv.Atoi(string(m[2]))
		if err != nil {
			return err
		}
		most = max(most, peak)
	}
	said := string(all[len(all)-1][0])
	switch {
	case most > limit:
		return &fault{name: FaultGraphCache, msg: fmt.Sprintf("a limit of %d: %s", limit, said), log: log}
	case most < limit:
		return &fault{name: FaultGraphsLost, msg: fmt.Sprintf("a limit of %d was not used up: %s", limit, said), log: log}
	}
	return nil
}
