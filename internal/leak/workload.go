package leak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

// work is a workload and how far it has come.
type work struct {
	memory.Tally
	o      Options
	kind   string
	srv    *llamaserver.Client // nil: the program is no server
	target int                 // tokens of a prefill
	cut    bool                // --for ended it
	total  atomic.Int64        // requests that are to be made; 0: not known, or none
	latest atomic.Pointer[memory.Point]
}

// run does the work until it is done or ctx ends.
func (w *work) run(ctx context.Context) error {
	w.total.Store(int64(w.o.Requests))
	switch w.kind {
	case "none":
		w.total.Store(0)
		<-ctx.Done()
		return nil
	case "prefill":
		w.total.Store(2 * steps)
		return w.prefill(ctx)
	case "requests":
		return w.loop(ctx)
	}
	return w.command(ctx)
}

// maxPrefill is how far a prefill grows where nothing else is said.
const maxPrefill = 8192

// steps is into how many requests a prefill is cut: enough for a line with its
// uncertainty.
const steps = 48

// prefill grows a prompt to the target, step by step over the slot's cache, and
// then does so once more with another prompt: what a context needs is taken in
// the first pass only, a leak in both.
func (w *work) prefill(ctx context.Context) error {
	n := w.o.Tokens
	slot := slotContext(ctx, w.srv)
	if n == 0 {
		n = maxPrefill
		if slot > 0 {
			n = min(n, slot-8)
		}
	} else if slot > 0 && n > slot-8 {
		return fmt.Errorf("a prefill of %d tokens does not fit the slot, which holds %d: give the server a larger -c", n,
			slot)
	}
	if n < 2*steps {
		return fmt.Errorf("a prefill of %d tokens is too short to see memory grow (%d are the least): a larger --tokens, "+
			"and a -c that holds them (a slot holds %d)", n, 2*steps, slot)
	}
	w.target = n
	step := n / steps
	for pass := range 2 {
		ids := llamaserver.Tokens(uint64(pass)+1, n)
		for i := range steps {
			if err := w.complete(ctx, ids[:(i+1)*step], 1, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// loop sends requests of different lengths and contents.
func (w *work) loop(ctx context.Context) error {
	slot := slotContext(ctx, w.srv)
	most := 256
	if slot > 0 {
		most = max(8, min(most, slot-32))
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, w.o.Clients)
	for c := range w.o.Clients {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(w.o.Requests) || ctx.Err() != nil || errs[c] != nil {
					return
				}
				r := rand.New(rand.NewPCG(uint64(i), 0x6c6f6f70))
				errs[c] = w.complete(ctx, llamaserver.Tokens(uint64(i)+100, most/8+r.IntN(most*7/8)), 8, false)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// command runs a shell command once a request.
func (w *work) command(ctx context.Context) error {
	env := slices.Clone(w.o.Env)
	if w.srv != nil {
		env = append(env, "LLPATCH_URL="+w.srv.URL())
	}
	for i := range w.o.Requests {
		out, err := run.Output(ctx, run.Cmd{
			Argv: []string{"/bin/sh", "-c", w.kind}, Env: env, Dir: w.o.Dir,
			Grace: time.Second,
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the workload failed at run %d: %w (it printed %s)", i+1, err, llamaserver.Quote(out))
		}
		w.Requests.Add(1)
	}
	return nil
}

// complete sends one streamed completion and counts its tokens as they are done.
func (w *work) complete(ctx context.Context, prompt []int, predict int, oneSlot bool) error {
	body := map[string]any{
		"prompt": prompt, "n_predict": predict, "temperature": 0, "ignore_eos": true,
		"cache_prompt": oneSlot, "stream": true, "return_progress": true,
	}
	if oneSlot {
		body["id_slot"] = 0
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	res, err := w.srv.Request(ctx, http.MethodPost, "/completion", body)
	if err != nil {
		return fmt.Errorf("POST /completion: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, llamaserver.MaxAnswer)) // the status is the news
		return fmt.Errorf("POST /completion gave %d with %s", res.StatusCode, llamaserver.Quote(b))
	}
	var counted int64
	count := func(n int64) {
		if n > counted {
			w.Tokens.Add(n - counted)
			counted = n
		}
	}
	finished := false
	err = llamaserver.Events(res.Body, func(data []byte) error {
		ev, err := parseEvent(data)
		count(ev.evaluated)
		finished = finished || ev.stop
		return err
	})
	if err != nil {
		return fmt.Errorf("POST /completion: %w", err)
	}
	if !finished {
		return errors.New("POST /completion: the answer ended in the middle")
	}
	w.Requests.Add(1)
	return nil
}

type event struct {
	evaluated int64 // tokens of the prompt and of the answer that were computed for this request
	stop      bool
}

// parseEvent reads the data of an event. Older servers send no prompt_progress:
// then the last event counts.
func parseEvent(data []byte) (event, error) {
	var ev struct {
		Stop     bool `json:"stop"`
		Progress struct {
			Cache     int64 `json:"cache"`
			Processed int64 `json:"processed"`
		} `json:"prompt_progress"`
		Timings struct {
			Prompt    int64 `json:"prompt_n"`
			Predicted int64 `json:"predicted_n"`
		} `json:"timings"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &ev); err != nil {
		return event{}, fmt.Errorf("an event that is no JSON: %s", llamaserver.Quote(data))
	}
	if len(ev.Error) > 0 {
		return event{}, fmt.Errorf("the server says %s", llamaserver.Quote(ev.Error))
	}
	n := max(ev.Progress.Processed-ev.Progress.Cache, ev.Timings.Prompt+ev.Timings.Predicted, 0)
	return event{evaluated: min(n, 1<<40), stop: ev.Stop}, nil
}
