package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/llamaserver"
)

// tokenProbs is what the server says of one generated token: its own and the
// others' probabilities before any sampler, so the logits less one number.
type tokenProbs struct {
	ID  int        `json:"id"`
	Top []tokenLog `json:"top_logprobs"`
}

type tokenLog struct {
	ID      int      `json:"id"`
	LogProb *float64 `json:"logprob"` // nil: it is no number
}

// FaultTokens is the fault of same-tokens: stock and patched differ.
const FaultTokens = "tokens-differ"

// Prompts of same-tokens: one token, a line, and one that needs more than one
// batch of upstream's default 512.
var tokenPrompts = []string{"a", "The quick brown fox jumps over the lazy dog.", promptText(700)}

// sameTokensCheck: the patched build chooses the same tokens as the stock one,
// without a grammar, and gives every token of the vocabulary the same
// probability at every step, but for tolerance (0).
func sameTokensCheck(a *args) step {
	n, tolerance := a.number("n_predict", 24, 1), a.fraction("tolerance", 0)
	cfg := a.config()
	return func(ctx context.Context, s *session) (outcome, error) {
		if s.o.placeOf(s.current) == placeSim {
			return outcome{}, errors.New("the simulated device computes no values, so equal tokens would say nothing there")
		}
		if s.o.Same != "" {
			return outcome{detail: "same binaries: " + s.o.Same}, nil
		}
		if s.o.Stock == "" {
			return outcome{}, errors.New("no stock build was given to compare with")
		}
		c, err := cfg(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		stock, barred, err := s.greedyStock(ctx, c, n)
		if err != nil {
			return outcome{}, err
		}
		srv, err := s.need(ctx, c)
		if err != nil {
			return outcome{}, err
		}
		values, largest := 0, 0.0
		for i, p := range tokenPrompts {
			got, err := srv.greedy(ctx, p, n, barred)
			if err != nil {
				return outcome{}, err
			}
			d, seen, where := compareTokens(stock[i], got, tolerance)
			if where != "" {
				f := srv.namedFault(FaultTokens, "prompt %d of %d tokens: %s", i+1, len(gguf.Encode(p))+1, where)
				return outcome{}, f
			}
			values, largest = values+seen, max(largest, d)
		}
		detail := "stock and patched give the same tokens and the same logits"
		if largest > 0 {
			detail = fmt.Sprintf("stock and patched give the same tokens, and logits that differ by %.2g at most", largest)
		}
		if barred {
			detail += "; byte tokens were barred, since this server answers 500 for text that is no UTF-8"
		}
		return outcome{detail: detail, figures: map[string]any{
			"prompts": len(tokenPrompts), "tokens": n * len(tokenPrompts), "logits": values,
		}}, nil
	}
}

// greedyStock asks the stock build, and makes sure that it agrees with itself:
// else a difference would say nothing. Whatever is wrong there is no fault of
// the patched build's.
func (s *session) greedyStock(ctx context.Context, c config, n int) (all []answer, barred bool, err error) {
	s.side = s.stock()
	defer func() { s.side = s.patched() }()
	defer s.stop(ctx)
	fail := func(err error) ([]answer, bool, error) {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		return nil, false, fmt.Errorf("the stock build cannot be compared with: %s", firstLine(err.Error()))
	}
	srv, err := s.need(ctx, c)
	if err != nil {
		return fail(err)
	}
	for i := 0; i < len(tokenPrompts); i++ {
		first, err := srv.greedy(ctx, tokenPrompts[i], n, barred)
		if errors.Is(err, errNoUTF8) && !barred {
			// The same for all prompts, from the first on.
			barred, all, i = true, nil, -1
			continue
		}
		if err != nil {
			return fail(err)
		}
		again, err := srv.greedy(ctx, tokenPrompts[i], n, barred)
		if err != nil {
			return fail(err)
		}
		if _, _, where := compareTokens(first, again, 0); where != "" {
			return fail(fmt.Errorf("it does not agree with itself: prompt %d, asked twice: %s",
				i+1, strings.NewReplacer("stock", "the first answer", "patched", "the second").Replace(where)))
		}
		all = append(all, first)
	}
	return all, barred, nil
}

// errNoUTF8 is the answer 500 that some tags give where a generated text is no
// UTF-8: nlohmann's type_error.316.
var errNoUTF8 = errors.New("the server answers 500 for text that is no UTF-8")

// greedy asks for n greedy tokens with the probabilities of the whole
// vocabulary, and no grammar. bar keeps the tokens that are single bytes from
// being chosen; their probabilities are told all the same.
func (srv *server) greedy(ctx context.Context, prompt any, n int, bar bool) (answer, error) {
	req := map[string]any{
		"prompt": prompt, "n_predict": n, "temperature": 0, "seed": 1, "ignore_eos": true,
		"cache_prompt": false, "return_tokens": true, "n_probs": gguf.VocabSize(),
	}
	if bar {
		var bias [][]any
		first := gguf.Encode("\x00")[0]
		for b := range 256 {
			bias = append(bias, []any{first + b, false})
		}
		req["logit_bias"] = bias
	}
	got, err := srv.askGreedy(ctx, req, n, 0)
	if err != nil {
		return got, err
	}
	// A token that ends in the middle of a character is held back, and its
	// probabilities are not told.
	if len(got.Probabilities) == 0 {
		return got, errors.New("this server tells no probabilities, so there is nothing to compare")
	}
	for i, p := range got.Probabilities {
		if len(p.Top) != gguf.VocabSize() {
			return got, srv.fault("asked for the probabilities of %d tokens, step %d has %d", gguf.VocabSize(), i+1, len(p.Top))
		}
		for _, t := range p.Top {
			if t.LogProb == nil {
				return got, srv.fault("step %d: the probability of token %d is no number", i+1, t.ID)
			}
		}
	}
	return got, nil
}

// askGreedy posts a completion without a grammar; errNoUTF8 is wrapped where the
// server cannot say what it has generated. So many of the n tokens may be
// missing at the end.
func (srv *server) askGreedy(ctx context.Context, req map[string]any, n, missing int) (answer, error) {
	var got answer
	status, b, err := srv.call(ctx, http.MethodPost, "/completion", req)
	switch {
	case ctx.Err() != nil:
		return got, context.Cause(ctx)
	case err != nil:
		return got, srv.fault("POST /completion without a grammar: %v", err)
	case status == http.StatusInternalServerError && strings.Contains(string(b), "UTF-8"):
		return got, fmt.Errorf("%w: %s", errNoUTF8, llamaserver.Quote(b))
	case status != http.StatusOK:
		return got, srv.fault("POST /completion without a grammar gave %d with %s", status, llamaserver.Quote(b))
	}
	if err := json.Unmarshal(b, &got); err != nil {
		return got, srv.fault("POST /completion gave what is no answer (%v): %s", err, llamaserver.Quote(b))
	}
	if len(got.Tokens) > n || len(got.Tokens) < n-missing || got.Predicted != n {
		return got, srv.fault("asked for %d tokens, the answer has %d and counts %d", n, len(got.Tokens), got.Predicted)
	}
	return got, nil
}

// compareTokens returns the largest difference, how many values were compared,
// and where the two differ by more than tolerance, or "".
func compareTokens(stock, patched answer, tolerance float64) (largest float64, seen int, where string) {
	for i, p := range stock.Probabilities {
		if i >= len(patched.Probabilities) {
			break
		}
		q := patched.Probabilities[i]
		is := make(map[int]float64, len(q.Top))
		for _, t := range q.Top {
			is[t.ID] = *t.LogProb
		}
		for _, t := range p.Top {
			v, ok := is[t.ID]
			if !ok {
				return largest, seen, fmt.Sprintf("step %d: patched tells nothing of token %d", i+1, t.ID)
			}
			seen++
			d := math.Abs(v - *t.LogProb)
			if d > tolerance || math.IsNaN(d) {
				return d, seen, fmt.Sprintf("step %d: stock gives token %d the logarithm of probability %v, patched %v", i+1, t.ID,
					*t.LogProb, v)
			}
			largest = max(largest, d)
		}
	}
	for i := range stock.Tokens {
		if stock.Tokens[i] != patched.Tokens[i] {
			return largest, seen, fmt.Sprintf("step %d: stock chooses token %d, patched %d", i+1, stock.Tokens[i],
				patched.Tokens[i])
		}
	}
	if len(stock.Probabilities) != len(patched.Probabilities) {
		return largest, seen, fmt.Sprintf("stock tells probabilities of %d steps, patched of %d", len(stock.Probabilities),
			len(patched.Probabilities))
	}
	return largest, seen, ""
}

// promptText returns a text of n tokens with the <s> before it.
func promptText(n int) string { return gguf.Prompt(n-1, 1) }
