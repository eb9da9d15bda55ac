package smoke

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
)

// sized is the config of a server with room for so many tokens in each of its
// slots.
func sized(cfg func(context.Context, *session) (config, error), slots, tokens int,
	more ...string,
) func(context.Context, *session) (config, error) {
	return func(ctx context.Context, s *session) (config, error) {
		c, err := cfg(ctx, s)
		if err != nil {
			return c, err
		}
		// A slot gets no more than what the model says it was made for.
		c.model, err = s.model(ctx, c.typ, tokens)
		// The check's own options stay last, so that they win.
		c.args = append(append([]string{"-c", strconv.Itoa(slots * tokens), "-np", strconv.Itoa(slots)}, more...), c.args...)
		return c, err
	}
}

// longPrefillCheck: a prompt of an exact number of tokens is evaluated whole and
// counted right, the server tells its progress, and memory does not go on
// growing when the same is done again.
func longPrefillCheck(a *args) step {
	tokens, repeat := a.number("tokens", 8192, 64), a.number("repeat", 3, 1)
	within, allowed := a.duration("within", 5*time.Minute), a.allow()
	// A few tokens of room: the server wants one for the answer. It tells its
	// progress once a batch, and upstream's of 2048 would be told too seldom.
	cfg := sized(a.config(), 1, tokens+64, "-b", "512")
	return func(ctx context.Context, s *session) (outcome, error) {
		return s.measured(ctx, workload{
			unit: memory.Token, allowed: allowed, config: cfg,
			drive: func(ctx context.Context, srv *server, longer int) (outcome, error) {
				looks, speed, times, enough := 0, 0.0, 0, s.enoughLooks(longer)
				for ; times < longer*repeat || looks < leastTold || time.Now().Before(enough); times++ {
					n, perSecond, err := srv.prefill(ctx, tokens, within)
					if err == nil && n == 0 {
						err = errors.New("this server does not tell how far it is with a prompt (return_progress), so its memory " +
							"cannot be matched to tokens")
					}
					if err != nil {
						return outcome{}, err
					}
					looks, speed = looks+n, perSecond
				}
				return outcome{
					detail:  fmt.Sprintf("%d tokens %d times", tokens, times),
					figures: map[string]any{"tokens": tokens, "progress_told": looks, "prompt_tokens_per_second": speed},
				}, nil
			},
		})
	}
}

// leastTold is how often the server has to tell its progress: memory.Judge wants
// figures at nine counts of tokens, and some looks come between two of them.
const leastTold = 18

// prefill has a prompt of so many tokens evaluated. It returns how often the
// server told its progress, and its speed.
func (srv *server) prefill(ctx context.Context, tokens int,
	within time.Duration,
) (looks int, perSecond float64, err error) {
	req := completionRequest(promptText(tokens), 1, true)
	req["return_progress"] = true
	before := srv.tokens.Load()
	at, wrong := 0, ""
	last, _, err := srv.chunks(ctx, within, req, func(a *answer) {
		if a.Progress == nil {
			return
		}
		looks++
		if a.Progress.Total != tokens && wrong == "" {
			wrong = fmt.Sprintf("it says %d tokens in all", a.Progress.Total)
		}
		if a.Progress.Processed < at && wrong == "" {
			wrong = fmt.Sprintf("it went from %d tokens back to %d", at, a.Progress.Processed)
		}
		at = a.Progress.Processed
		srv.tokens.Store(before + int64(at))
	})
	if err != nil {
		return looks, 0, fmt.Errorf("a prompt of %d tokens: %w", tokens, err)
	}
	switch {
	case wrong != "":
		return looks, 0, srv.fault("a prompt of %d tokens, its progress: %s", tokens, wrong)
	case last.Evaluated != tokens || last.Timings.Prompt != tokens:
		return looks, 0, srv.fault("a prompt of %d tokens: the server counted %d and evaluated %d", tokens, last.Evaluated,
			last.Timings.Prompt)
	case last.Predicted != 1:
		return looks, 0, srv.fault("after a prompt of %d tokens, 1 token was asked for and %d came", tokens, last.Predicted)
	}
	srv.tokens.Store(before + int64(tokens) + 1)
	srv.requests.Add(1)
	return looks, last.Timings.PromptPerSecond, nil
}

// parallelCheck: several slots at once, each with a text that grows by every
// answer and begins anew when its context is full, for longer than the 10 s
// after which ggml-cuda drops graphs that were not used.
func parallelCheck(a *args) step {
	slots, length, n := a.number("slots", 4, 2), a.duration("for", 25*time.Second), a.number("n_predict", 16, 1)
	room, allowed := a.number("context", 1024, 64), a.allow()
	cfg := sized(a.config(), slots, room)
	return func(ctx context.Context, s *session) (outcome, error) {
		return s.measured(ctx, workload{
			unit: memory.Request, allowed: allowed, config: cfg,
			drive: func(ctx context.Context, srv *server, longer int) (outcome, error) {
				began := time.Now()
				talk := conversation{answer: n, room: room}
				// Every slot is filled once before memory is judged: buffers grow
				// with what is in them.
				if err := srv.converse(ctx, slots, talk); err != nil {
					return outcome{}, err
				}
				warm := srv.requests.Load()
				talk.until = time.Now().Add(time.Duration(longer) * length)
				if err := srv.converse(ctx, slots, talk); err != nil {
					return outcome{}, err
				}
				return outcome{
					detail: fmt.Sprintf("%d requests in %d slots", srv.requests.Load(), slots),
					figures: map[string]any{
						"requests": srv.requests.Load(), "slots": slots,
						"tokens_per_second": float64(srv.tokens.Load()) / time.Since(began).Seconds(),
					},
					warm: float64(warm),
				}, nil
			},
		})
	}
}

// conversation is what goes on in one slot.
type conversation struct {
	answer, room int       // tokens: of one answer, and of the slot
	until        time.Time // zero: until the slot is full
}

// converse keeps all slots busy. The first that goes wrong ends it.
func (srv *server) converse(outer context.Context, slots int, talk conversation) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, slots)
	for slot := range slots {
		all.Go(func() {
			if errs[slot] = srv.talk(ctx, slot, talk); errs[slot] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	if outer.Err() != nil {
		return context.Cause(outer)
	}
	for _, err := range errs {
		// The others were only interrupted.
		if _, ok := errors.AsType[*fault](err); ok {
			return err
		}
	}
	return errors.Join(errs...)
}

// talk keeps one slot busy: its text grows by every answer, and begins anew
// where the slot is full.
func (srv *server) talk(ctx context.Context, slot int, c conversation) error {
	start := "Slot " + strconv.Itoa(slot) + " begins here. "
	for text := start; c.until.IsZero() || time.Now().Before(c.until); {
		if len(gguf.Encode(text))+1+c.answer >= c.room {
			if c.until.IsZero() {
				return nil
			}
			text = start
		}
		req := completionRequest(text, c.answer, false)
		req["id_slot"], req["cache_prompt"] = slot, true
		got, err := srv.completeWith(ctx, req, text, c.answer)
		if err != nil {
			return fmt.Errorf("slot %d: %w", slot, err)
		}
		srv.tokens.Add(int64(got.Timings.Prompt + got.Predicted))
		srv.requests.Add(1)
		text += *got.Content + " and on it goes. "
	}
	return nil
}

// requestLoopCheck: the same request again and again gives the same answer, and
// memory does not grow by it.
func requestLoopCheck(a *args) step {
	requests, n := a.number("requests", 300, 5*loopWarm), a.number("n_predict", 8, 1)
	prompt, allowed := a.text("prompt", "The quick brown fox jumps over the lazy dog."), a.allow()
	cfg := a.config()
	return func(ctx context.Context, s *session) (outcome, error) {
		return s.measured(ctx, workload{
			unit: memory.Request, allowed: allowed, config: cfg,
			drive: func(ctx context.Context, srv *server, longer int) (outcome, error) {
				began, enough := time.Now(), s.enoughLooks(longer)
				var first string
				i := 0
				for ; i < longer*requests || time.Now().Before(enough); i++ {
					got, err := srv.complete(ctx, prompt, n)
					if err != nil {
						return outcome{}, fmt.Errorf("request %d: %w", i+1, err)
					}
					if i == 0 {
						first = *got.Content
					}
					if *got.Content != first {
						return outcome{}, srv.fault("request %d got %q, and request 1, the same, %q", i+1, *got.Content, first)
					}
					srv.tokens.Add(int64(got.Timings.Prompt + got.Predicted))
					srv.requests.Add(1)
				}
				return outcome{
					detail:  fmt.Sprintf("the same answer to %d requests", i),
					figures: map[string]any{"requests": i, "requests_per_second": float64(i) / time.Since(began).Seconds()},
					warm:    loopWarm,
				}, nil
			},
		})
	}
}

// loopWarm is how many requests of a loop are not judged: the first ones fill
// buffers that stay.
const loopWarm = 10

// work is how far a server's own work has come.
type work struct {
	tokens   atomic.Int64
	requests atomic.Int64
}

func (w *work) progress() memory.Progress {
	return memory.Progress{Tokens: w.tokens.Load(), Requests: w.requests.Load()}
}
