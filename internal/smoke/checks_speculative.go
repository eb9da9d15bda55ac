package smoke

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/gguf"
)

// The ways to speculate.
const (
	draftModel = "model" // a second model drafts: here the same one
	draftNgram = "ngram" // the text so far drafts
)

// speculativeCheck: with a draft of either kind the server gives the text that
// it gives without, and really drafts.
func speculativeCheck(a *args) step {
	draft, n := a.text("draft", draftModel), a.number("n_predict", 96, 8)
	prompt := a.text("prompt", strings.Repeat("once more and ", 20))
	cfg := a.config()
	if draft != draftModel && draft != draftNgram {
		a.bad("draft", "model or ngram")
	}
	return func(ctx context.Context, s *session) (outcome, error) {
		c, err := cfg(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		help, err := s.help(ctx, "llama-server")
		if err != nil {
			return outcome{}, err
		}
		flags, err := draftFlags(help, draft, c.model)
		if err != nil {
			return outcome{}, err
		}
		plain, err := s.need(ctx, c)
		if err != nil {
			return outcome{}, err
		}
		// The draft knows no grammar, so nothing of it would be accepted.
		want, err := plain.greedyTokens(ctx, prompt, n, 0, false)
		grammar := errors.Is(err, errNoUTF8)
		if grammar {
			want, err = plain.greedyTokens(ctx, prompt, n, 0, true)
		}
		if err != nil {
			return outcome{}, err
		}
		with := c
		with.args = append(c.args[:len(c.args):len(c.args)], flags...)
		srv, err := s.need(ctx, with)
		if err != nil {
			return outcome{}, err
		}
		got, err := srv.greedyTokens(ctx, prompt, n, draftMax-1, grammar)
		if err != nil {
			return outcome{}, err
		}
		drafted, accepted := got.Timings.Drafted, got.Timings.Accepted
		if accepted > drafted {
			return outcome{}, srv.fault("of %d drafted tokens the server accepted %d", drafted, accepted)
		}
		out := outcome{
			detail:  fmt.Sprintf("the same tokens with a draft (%s)", draft),
			figures: map[string]any{"tokens": len(got.Tokens), "drafted": drafted, "accepted": accepted},
		}
		if at := firstDifference(want.Tokens, got.Tokens); at < len(got.Tokens) {
			drafting := srv.namedFault(FaultTokens, "with a draft (%s), token %d of the greedy ones is %d, without %d", draft,
				at+1, got.Tokens[at], want.Tokens[at])
			if plain, err = s.need(ctx, c); err != nil {
				return outcome{}, err
			}
			gap, chosen, err := plain.gap(ctx, prompt, want.Tokens[:at], want.Tokens[at], got.Tokens[at])
			if err != nil {
				return outcome{}, err
			}
			out.figures["tokens"], out.figures["gap"] = at, gap
			out.detail = fmt.Sprintf("the same %d tokens with a draft (%s), up to two that are as likely as one another", at,
				draft)
			if math.Abs(gap) > tie {
				// Some kernels of a processor give a batch other figures than a single token.
				alike := s.stockDrafts(ctx, with, prompt, n, grammar, got.Tokens)
				why := "as the stock build does with the same draft"
				switch {
				case ctx.Err() != nil:
					return outcome{}, context.Cause(ctx)
				case !alike && !chosen:
					return outcome{}, drafting
				case !alike:
					why = "which the server without a draft chooses too when it is given what came before at once"
				}
				out.detail = fmt.Sprintf("the same %d tokens with a draft (%s), and then %d for %d, %s", at, draft, got.Tokens[at],
					want.Tokens[at], why)
			}
		}
		if accepted == 0 {
			return outcome{}, fmt.Errorf("of %d drafted tokens none was accepted with %s, so nothing was tried", drafted,
				strings.Join(flags, " "))
		}
		return out, nil
	}
}

// draftMax is how many tokens are drafted at once. b8390 counts the last draft
// as a whole and answers only its first token: an answer can be so much shorter.
const draftMax = 8

// tie is how far apart the logarithms of two tokens' probabilities may be when
// a batch of several tokens, which a draft is checked in, chooses the other one:
// sums are then made in another order.
const tie = 0.01

// firstDifference is where two lists part.
func firstDifference(a, b []int) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// greedyTokens asks for n greedy tokens, of which so many may be missing, and
// nothing of their probabilities.
func (srv *server) greedyTokens(ctx context.Context, prompt any, n, missing int, grammar bool) (answer, error) {
	req := map[string]any{
		"prompt": prompt, "n_predict": n, "temperature": 0, "seed": 1, "ignore_eos": true,
		"cache_prompt": false, "return_tokens": true,
	}
	if grammar {
		req["grammar"] = letters
	}
	return srv.askGreedy(ctx, req, n, missing)
}

// stockDrafts reports whether the stock build, where there is one to compare with, gives these
// tokens with the same draft.
func (s *session) stockDrafts(ctx context.Context, with config, prompt string, n int, grammar bool, tokens []int) bool {
	if s.o.Stock == "" || s.o.Same != "" {
		return false
	}
	s.side = s.stock()
	defer func() { s.side = s.patched() }()
	defer s.stop(ctx)
	srv, err := s.need(ctx, with)
	if err != nil {
		return false
	}
	got, err := srv.greedyTokens(ctx, prompt, n, draftMax-1, grammar)
	return err == nil && slices.Equal(got.Tokens, tokens)
}

// gap is by how much one token is likelier than another, as the difference of the logarithms of their
// probabilities, after a prompt and some tokens more, all of which the server is given at once; chosen tells whether
// the other is the likeliest of all there.
func (srv *server) gap(ctx context.Context, prompt string, more []int, a, b int) (by float64, chosen bool, err error) {
	tokens := append(append([]int{gguf.BeginID}, gguf.Encode(prompt)...), more...)
	got, err := srv.greedy(ctx, tokens, 1, false)
	if err != nil {
		return 0, false, err
	}
	log, most := map[int]float64{}, math.Inf(-1)
	for _, t := range got.Probabilities[0].Top {
		log[t.ID] = *t.LogProb
		most = max(most, *t.LogProb)
	}
	return log[a] - log[b], log[b] == most, nil
}

// draftFlags are the server's options for speculation: their names changed
// (b8390: --draft-max; b10573: --spec-draft-n-max), so --help decides.
func draftFlags(help, draft, model string) ([]string, error) {
	pick := func(value string, names ...string) []string {
		for _, name := range names {
			if hasOption(help, name) {
				return []string{name, value}
			}
		}
		return nil
	}
	var must, may []string
	if draft == draftModel {
		must = pick(model, "--spec-draft-model", "--model-draft")
		may = append(pick(strconv.Itoa(draftMax), "--spec-draft-n-max", "--draft-max"),
			pick("0", "--spec-draft-p-min", "--draft-p-min")...)
		// b9842 has the option, and drafts nothing without it.
		if strings.Contains(help, "draft-simple") {
			may = append(may, pick("draft-simple", "--spec-type")...)
		}
	} else {
		must = pick("ngram-simple", "--spec-type")
		may = append(pick("4", "--spec-ngram-simple-size-n", "--spec-ngram-size-n"),
			pick(strconv.Itoa(draftMax), "--spec-ngram-simple-size-m", "--spec-ngram-size-m")...)
	}
	if must == nil || draft == draftNgram && !strings.Contains(help, "ngram-simple") {
		return nil, errors.New("this server has no option for speculation by " + draft)
	}
	return append(must, may...), nil
}

// hasOption tells whether --help names an option, and not only a longer one.
func hasOption(help, name string) bool {
	for _, f := range strings.FieldsFunc(help, func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) {
		if f == name {
			return true
		}
	}
	return false
}
