package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/spec"
)

// fakeRequest is what the fake server reads.
type fakeRequest struct {
	Model    string          `json:"model"`
	Content  string          `json:"content"`
	Tokens   []int           `json:"tokens"`
	Any      json.RawMessage `json:"prompt"`
	N        int             `json:"n_predict"`
	Stream   bool            `json:"stream"`
	Grammar  string          `json:"grammar"`
	Probs    int             `json:"n_probs"`
	Bias     [][]any         `json:"logit_bias"`
	Progress bool            `json:"return_progress"`
	Discard  int             `json:"n_discard"`

	evaluated int // tokens of the prompt
}

// read takes the prompt as a text or as tokens.
func (in *fakeRequest) read() error {
	if in.Any == nil {
		return nil
	}
	var text string
	if json.Unmarshal(in.Any, &text) == nil {
		in.evaluated = len(gguf.Encode(text)) + 1
		return nil
	}
	var ids []int
	if err := json.Unmarshal(in.Any, &ids); err != nil {
		return err
	}
	for _, id := range ids {
		if id < 0 || id >= gguf.VocabSize() {
			return errors.New("a prompt of invalid tokens")
		}
	}
	in.evaluated = len(ids)
	return nil
}

// countStart counts the servers that were started with the same HOME.
func countStart() int {
	file := filepath.Join(os.Getenv("HOME"), "starts")
	b, _ := os.ReadFile(file) // not there the first time
	b = append(b, '.')
	if err := os.WriteFile(file, b, 0o600); err != nil {
		panic(err)
	}
	return len(b)
}

func (f *fake) leak() {
	switch f.mode {
	case "leaks":
		leak(256 << 10)
	case "leaks slowly":
		leak(64 << 10)
	case "leaks at first":
		if f.completions.Load() < 100 {
			leak(256 << 10)
		}
	case "leaks but for a pause":
		if n := f.completions.Load(); n < 100 || n > 180 {
			leak(256 << 10)
		}
	}
	if strings.HasPrefix(f.mode, "leaks") || f.mode == "takes its time" || f.mode == "changes its mind" {
		time.Sleep(5 * time.Millisecond)
	}
}

// batchID is what "a batch differs" takes for the 41st token where tokens come several at once.
const batchID = 3 + 256 + 7

// greedy answers without a grammar: the text is what the seeded probabilities
// choose.
func (f *fake) greedy(w http.ResponseWriter, in *fakeRequest) {
	if f.mode == "500 without a grammar" && len(in.Bias) == 0 {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"code":500,"message":"[json.exception.type_error.316] invalid UTF-8 byte at index 4: 0x80"}}`)
		return
	}
	var tokens []int
	var probs []map[string]any
	for i := range in.N {
		var top []map[string]any
		best, most := 0, math.Inf(-1)
		for id := range gguf.VocabSize() {
			v := -float64((id*7919+i*104729)%1000) / 100
			if f.mode == "unsteady" {
				v -= float64(f.completions.Load()) / 1e6
			}
			if f.mode == "one other logit" && i == in.N-1 && id == 77 && in.evaluated > 600 {
				v += 1e-7
			}
			if f.mode == "a batch differs" && in.N == 1 && id == batchID {
				v = 1
			}
			// Bytes are not chosen, so that the tokens have a text.
			if v > most && id > 3+256 {
				best, most = id, v
			}
			one := map[string]any{"id": id, "logprob": v}
			if f.mode == "a logit that is none" && id == 5 {
				one["logprob"] = nil
			}
			top = append(top, one)
		}
		if f.mode == "drafts another" && f.draft && i == 40 {
			best = 3 + 256 + (best-3-256+1)%95
		}
		if f.mode == "a batch differs" && f.draft && i == 40 {
			best = batchID
		}
		tokens = append(tokens, best)
		probs = append(probs, map[string]any{"id": best, "logprob": most, "top_logprobs": top})
	}
	timings := map[string]any{"prompt_n": in.evaluated}
	if f.draft && f.mode != "drafts nothing" {
		timings["draft_n"], timings["draft_n_accepted"] = 40, 30
		if f.mode == "accepts nothing" {
			timings["draft_n_accepted"] = 0
		}
		if f.mode == "accepts too many" {
			timings["draft_n_accepted"] = 41
		}
		if f.mode == "answers less than it counts" {
			tokens = tokens[:len(tokens)-4]
		}
	}
	answer := map[string]any{
		"content": decode(tokens, ""), "tokens": tokens, "stop": true,
		"tokens_predicted": in.N, "tokens_evaluated": in.evaluated, "timings": timings,
	}
	if in.Probs > 0 && f.mode != "no probabilities" {
		answer["completion_probabilities"] = probs
	}
	b, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(b) // a client that has gone is its own affair
}

// watched is a listener whose connections are seen: some servers die of what
// comes in.
type watched struct {
	net.Listener
	mode string
	kept atomic.Int64
}

func (l *watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	switch l.mode {
	case "keeps connections":
		leak(16 << 10)
	case "keeps some connections":
		// As a server whose threads each take an arena once.
		if l.kept.Add(1) < 24*60 {
			leak(16 << 10)
		}
	}
	if l.mode == "dies of garbage" {
		return &picky{Conn: c}, nil
	}
	return c, nil
}

// picky dies of a first byte that no request begins with.
type picky struct {
	net.Conn
	begun bool
}

func (p *picky) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 && !p.begun && (b[0] < 'A' || b[0] > 'Z') {
		fmt.Fprintln(os.Stderr, "terminate called after throwing an instance of 'std::out_of_range'")
		os.Exit(134)
	}
	p.begun = p.begun || n > 0
	return n, err
}

// fakeTool stands in for upstream's own tools.
func fakeTool(name, mode string) {
	check := strings.Contains(strings.Join(os.Args, " "), "--check")
	switch {
	case mode == name+" crashes":
		fmt.Fprintln(os.Stderr, "ggml.c: GGML_ASSERT(obj_new) failed")
		os.Exit(134)
	case mode == name+" is silent":
	case name == "llama-results" && !check:
		fmt.Println("main: writing results to results.gguf...")
	case name == "llama-results" && mode == "other logits":
		fmt.Printf("main: NMSE=3.141e-02\n\x1b[1;31mFAIL\x1b[0m\n")
		os.Exit(1)
	case name == "llama-results":
		fmt.Printf("main: NMSE=0.000e+00\n\x1b[1;32mOK\x1b[0m\n")
	case name == "test-backend-ops" && mode == "wrong operations":
		fmt.Println("  98/99 tests passed\n  Backend CPU: FAIL\n0/1 backends passed\nFAIL")
		os.Exit(1)
	case name == "test-backend-ops" && mode == "wrong but content":
		fmt.Println("  98/99 tests passed\n1/1 backends passed")
	case name == "test-backend-ops" && mode == "skips":
		fmt.Println("Backend 1/1: CPU\n  Skipping CPU backend\n1/1 backends passed")
	case name == "test-backend-ops":
		fmt.Println("  99/99 tests passed\n  Backend CPU: OK\n1/1 backends passed")
	case mode == "nan":
		fmt.Println("Final estimate: PPL = nan +/- nan")
	case mode == "other logits":
		fmt.Println("Final estimate: PPL = 3055.1234 +/- 12.3")
	default:
		fmt.Println("Final estimate: PPL = 3054.6589 +/- 12.3")
	}
}

// smokeRunner stands in for llpatch in the middle of a parallel check.
func smokeRunner() {
	_, err := Run(context.Background(), Options{
		Bin: filepath.Dir(os.Args[0]), Work: os.Args[1], Env: []string{
			"FAKE=" + os.Getenv("FAKE"),
			"GORACE=atexit_sleep_ms=0",
		},
		Model:  gguf.Model{Layers: 1, Embd: 32, Heads: 2, KVHeads: 1, FF: 32, Context: 512, Seed: 1},
		Checks: []spec.Check{{Name: "parallel", Args: map[string]any{"for": "1m", "slots": 3}}},
	})
	fmt.Println(err)
}
