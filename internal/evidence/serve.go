package evidence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

// work is what one run does, and how far it has come.
type work struct {
	memory.Tally
	server *Server // nil: the program is none
	seed   uint64  // of the pair
	rec    *Run
	client *llamaserver.Client

	mu  sync.Mutex
	why string // the first request that failed
}

// serve starts a llama-server, has it do its work, and ends it.
func (w *work) serve(outer context.Context, pr *PlanRun, cmd run.Cmd, s *memory.Sampler) memory.Series {
	port, err := llamaserver.FreePort()
	if err != nil {
		w.rec.NotRun = "no port: " + err.Error()
		return s.Stop()
	}
	cmd.Argv = append(cmd.Argv, "--host", "127.0.0.1", "--port", strconv.Itoa(port))
	w.rec.Argv = append(w.rec.Argv, "--host", "127.0.0.1", "--port", "{port}")
	w.rec.Served = &Served{}
	ctx, cancel := context.WithTimeout(outer, pr.limit)
	defer cancel()
	p, err := run.Start(outer, cmd)
	if err != nil {
		w.rec.NotRun = firstLine(err.Error())
		return s.Stop()
	}
	defer p.Stop(context.WithoutCancel(outer)) //nolint:errcheck // how it ended is in its Wait
	s.Attach(p.Pid())
	began := time.Now()
	w.client = llamaserver.New(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "")
	alive, gone := context.WithCancel(ctx)
	defer gone()
	go func() {
		select {
		case <-p.Done():
			gone() // no request waits for a server that is gone
		case <-alive.Done():
		}
	}()
	if err = w.await(alive, began, pr.Server.ready); err == nil {
		w.rec.ReadySec = time.Since(began).Round(time.Millisecond).Seconds()
		w.drive(alive)
	}
	// A server that dies cuts its connections before it is seen to be gone.
	if w.why != "" {
		select {
		case <-p.Done():
		case <-time.After(time.Second):
		}
	}
	ended := p.Ended()
	series := s.Stop() // what it gives back on its way out is no part of its work
	w.rec.Memory = w.judge(series)
	w.rec.Timeout = ctx.Err() != nil && outer.Err() == nil
	if err != nil && !ended && !w.rec.Timeout {
		w.rec.NotRun = err.Error()
	}
	w.shutDown(outer, p, pr.Program)
	w.rec.ended(p)
	w.rec.Requests, w.rec.Failed = w.Requests.Load(), int64(w.server.total())-w.Requests.Load()
	w.rec.Served.Why = w.why
	if w.rec.Failed > 0 && len(w.rec.Tail) == 0 {
		w.rec.Tail = p.Tail()
	}
	w.rec.Notes = append(w.rec.Notes, w.Notes()...)
	return series
}

func (s *Server) total() int { return s.First + s.Requests + s.Prefills.Count }

const healthLimit = 10 * time.Second

// await waits until the server is ready.
func (w *work) await(ctx context.Context, began time.Time, limit time.Duration) error {
	for {
		err := w.client.Health(ctx, healthLimit)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > limit {
			return fmt.Errorf("the server was not ready within %v: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// shutDown asks the server itself to end, which is below the program that it may
// run under, twice: the first time it finishes what it does.
func (w *work) shutDown(ctx context.Context, p *run.Process, program string) {
	killed, err := p.Terminate(ctx, func() { signalServer(p, program) }, grace)
	if killed {
		w.Note(fmt.Sprintf("it did not end within %v of SIGTERM, twice, and was killed", grace))
	}
	if err != nil {
		w.Note(err.Error())
	}
}

func signalServer(p *run.Process, program string) {
	for _, pid := range slices.Backward(memory.Descendants(p.Pid())) {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		name, _, _ := strings.Cut(string(line), "\x00")
		if err == nil && filepath.Base(name) == program {
			if inner, err := os.FindProcess(pid); err == nil {
				_ = inner.Signal(syscall.SIGTERM) // gone already is as good
				return
			}
		}
	}
	_ = p.Signal(syscall.SIGTERM)
}

// answer is what is read of a completion.
type answer struct {
	Content string `json:"content"`
	Tokens  []int  `json:"tokens"`
	Timings struct {
		PromptN     int     `json:"prompt_n"`
		PromptMS    float64 `json:"prompt_ms"`
		PredictedN  int     `json:"predicted_n"`
		PredictedMS float64 `json:"predicted_ms"`
	} `json:"timings"`
}

// drive sends the first requests one after another, and then the load.
func (w *work) drive(ctx context.Context) {
	s := w.server
	var promptN, predictedN int
	var promptMS, predictedMS float64
	hash := sha256.New()
	for i := range s.First {
		a, err := w.ask(ctx, w.request(i, 0))
		if err != nil {
			w.fail(err)
			return
		}
		t := a.Timings
		promptN, predictedN = promptN+t.PromptN, predictedN+t.PredictedN
		promptMS, predictedMS = promptMS+t.PromptMS, predictedMS+t.PredictedMS
		if len(a.Tokens) == 0 && a.Content != "" {
			w.Note("this server returns no tokens: the bytes of the answers are compared")
			for _, b := range []byte(a.Content) {
				a.Tokens = append(a.Tokens, int(b))
			}
		}
		w.rec.answers = append(w.rec.answers, a.Tokens)
		w.rec.Tokens += len(a.Tokens)
		fmt.Fprintln(hash, a.Tokens)
	}
	w.rec.SHA = hex.EncodeToString(hash.Sum(nil))
	w.rec.PP, w.rec.TG = perSecond(promptN, promptMS/1000), perSecond(predictedN, predictedMS/1000)
	if s.First > 0 && (w.rec.PP == nil || w.rec.TG == nil) {
		w.Note(fmt.Sprintf("its times give no speed: %d tokens of prompts in %g ms, %d of answers in %g ms", promptN,
			promptMS, predictedN, predictedMS))
	}
	if s.Requests+s.Prefills.Count == 0 {
		return
	}
	w.rec.from = w.Requests.Load()
	began, before := time.Now(), w.Tokens.Load()
	w.load(ctx)
	w.rec.LoadTPS = perSecond(int(w.Tokens.Load()-before), time.Since(began).Seconds())
}

func perSecond(n int, secs float64) *float64 {
	if n <= 0 || secs <= 0 {
		return nil
	}
	v := float64(n) / secs
	if !isSpeed(v) {
		return nil
	}
	return &v
}

// isSpeed says whether a figure can be tokens a second: no machine is near either
// bound, and what is neither infinite nor almost 0 divides into ratios that JSON
// can hold.
func isSpeed(v float64) bool { return v > 1e-9 && v < 1e12 }

func (w *work) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.why = cmp.Or(w.why, err.Error())
}

// load sends the rest, each client one request at a time. A client whose request
// fails ends: what was not asked counts as failed too.
func (w *work) load(ctx context.Context) {
	s := w.server
	total := s.Requests + s.Prefills.Count
	var next atomic.Int64
	var all sync.WaitGroup
	for range s.Clients {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= total || ctx.Err() != nil {
					return
				}
				long := 0
				// The prefills come evenly spread, the first in the middle of its share.
				if c := s.Prefills.Count; c > 0 && (2*i*c+c)/(2*total) != (2*(i+1)*c+c)/(2*total) {
					long = s.Prefills.Tokens
				}
				if _, err := w.ask(ctx, w.request(s.First+i, long)); err != nil {
					w.fail(fmt.Errorf("request %d of the load: %w", i+1, err))
					return
				}
			}
		})
	}
	all.Wait()
}

// request is the i-th one: the same for every build of a pair. long is the length
// of a prefill, 0 for a usual request.
func (w *work) request(i, long int) map[string]any {
	s := w.server
	seed := s.Seed<<32 + w.seed<<24 + uint64(i)
	r := rand.New(rand.NewPCG(seed, 0x65766964))
	n, predict := s.Prompt[0]+r.IntN(s.Prompt[1]-s.Prompt[0]+1), s.Predict
	if long > 0 {
		n, predict = long, 1
	}
	req := map[string]any{
		"prompt": llamaserver.Tokens(seed, n), "n_predict": predict, "temperature": 0, "seed": 1,
		"ignore_eos": true, "cache_prompt": false, "return_tokens": true,
	}
	if i < s.First {
		req["id_slot"] = 0
	}
	for k, v := range s.Request {
		req[k] = v
	}
	return req
}

// answerLimit is for one request; the run's own limit is above it.
const answerLimit = 30 * time.Minute

// ask sends one completion.
func (w *work) ask(ctx context.Context, req map[string]any) (answer, error) {
	var a answer
	status, body, err := w.client.Call(ctx, answerLimit, http.MethodPost, "/completion", req)
	if err == nil && status == http.StatusInternalServerError && strings.Contains(string(body), "UTF-8") &&
		req["grammar"] == nil {
		// A model of random weights answers bytes that are no text, which some tags
		// cannot put into JSON. Letters they can.
		w.Note("this server answers 500 for text that is no UTF-8: such a request was sent again with a grammar of letters")
		req["grammar"] = "root ::= [a-z ]+"
		return w.ask(ctx, req)
	}
	switch {
	case err != nil:
		return a, fmt.Errorf("POST /completion: %w", err)
	case status != http.StatusOK:
		return a, fmt.Errorf("POST /completion gave %d with %s", status, llamaserver.Quote(body))
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, errors.New("POST /completion gave what is no answer: " + llamaserver.Quote(body))
	}
	w.Tokens.Add(int64(a.Timings.PromptN + a.Timings.PredictedN))
	w.Requests.Add(1)
	return a, nil
}

// judge judges memory over the load: what the start and the first requests take
// is no growth.
func (w *work) judge(s memory.Series) []memory.Verdict {
	if w.rec.from == 0 {
		return nil
	}
	i := slices.IndexFunc(s.Points, func(p memory.Point) bool { return p.Requests >= w.rec.from })
	if i < 0 {
		return nil
	}
	s.Points, s.Notes = s.Points[i:], nil
	return memory.Judge(s, memory.JudgeOptions{Unit: memory.Request})
}
