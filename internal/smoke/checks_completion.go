package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/llamaserver"
)

// letters is the grammar of completions: without one, a model of random weights
// may answer bytes that are no UTF-8, and the server then answers 500.
const letters = "root ::= [a-z ]+"

var onlyLetters = regexp.MustCompile(`^[a-z ]+$`)

// answer is a completion, or a piece of one.
type answer struct {
	Content   *string         `json:"content"`
	Tokens    []int           `json:"tokens"`
	Stop      bool            `json:"stop"`
	Predicted int             `json:"tokens_predicted"`
	Evaluated int             `json:"tokens_evaluated"`
	Error     json.RawMessage `json:"error"`
	Timings   struct {
		Prompt             int     `json:"prompt_n"` // evaluated now, not taken from the cache
		PromptPerSecond    float64 `json:"prompt_per_second"`
		PredictedPerSecond float64 `json:"predicted_per_second"`
		Drafted            int     `json:"draft_n"`
		Accepted           int     `json:"draft_n_accepted"`
	} `json:"timings"`
	// Progress comes in a stream that asked for it, while a prompt is evaluated.
	Progress *struct {
		Total     int `json:"total"`
		Processed int `json:"processed"`
	} `json:"prompt_progress"`
	Probabilities []tokenProbs `json:"completion_probabilities"`
}

func completionRequest(prompt string, n int, stream bool) map[string]any {
	return map[string]any{
		"prompt": prompt, "n_predict": n, "temperature": 0, "seed": 1, "grammar": letters,
		"cache_prompt": false, "return_tokens": true, "stream": stream,
	}
}

// completionCheck: a greedy completion has the length asked for, keeps to its
// grammar, is the same twice, and the same again as a stream.
func completionCheck(a *args) step {
	n, prompt := a.number("n_predict", 48, 1), a.text("prompt", "The quick brown fox jumps over the lazy dog.")
	return onServer(a, func(ctx context.Context, srv *server) (outcome, error) {
		return srv.completions(ctx, prompt, n)
	})
}

func (srv *server) completions(ctx context.Context, prompt string, n int) (outcome, error) {
	first, err := srv.complete(ctx, prompt, n)
	if err != nil {
		return outcome{}, err
	}
	second, err := srv.complete(ctx, prompt, n)
	if err != nil {
		return outcome{}, err
	}
	if *first.Content != *second.Content || !slices.Equal(first.Tokens, second.Tokens) {
		return outcome{}, srv.fault("the same greedy completion twice gave %q and %q", *first.Content, *second.Content)
	}
	text, tokens, chunks, err := srv.stream(ctx, prompt, n)
	if err != nil {
		return outcome{}, err
	}
	if text != *first.Content || len(tokens) > 0 && !slices.Equal(tokens, first.Tokens) {
		return outcome{}, srv.fault("streamed, the completion is %q, and in one piece %q", text, *first.Content)
	}
	return outcome{
		detail: "the same tokens twice and streamed",
		figures: map[string]any{
			"tokens": n, "chunks": chunks,
			"prompt_tokens_per_second": second.Timings.PromptPerSecond,
			"tokens_per_second":        second.Timings.PredictedPerSecond,
		},
	}, nil
}

// complete asks for a completion in one piece.
func (srv *server) complete(ctx context.Context, prompt string, n int) (answer, error) {
	return srv.completeWith(ctx, completionRequest(prompt, n, false), prompt, n)
}

// completeWith is complete for a request of the caller's.
func (srv *server) completeWith(ctx context.Context, req map[string]any, prompt string, n int) (answer, error) {
	var got answer
	if err := srv.ask(ctx, "/completion", req, &got); err != nil {
		return got, err
	}
	switch {
	case got.Content == nil:
		return got, srv.fault("POST /completion gave an answer without content")
	case !got.Stop:
		return got, srv.fault("POST /completion gave an answer that says it goes on")
	case !onlyLetters.MatchString(*got.Content):
		return got, srv.fault("the completion %q does not keep to its grammar %s", *got.Content, letters)
	case got.Predicted != n || len(*got.Content) != n:
		return got, srv.fault("asked for %d tokens, the completion has %d, of %d characters", n, got.Predicted,
			len(*got.Content))
	// The prompt is one token a character, and <s>.
	case got.Evaluated != len(gguf.Encode(prompt))+1:
		return got, srv.fault("the prompt has %d tokens, the server counted %d", len(gguf.Encode(prompt))+1, got.Evaluated)
	case len(got.Tokens) > 0 && !spells(got.Tokens, *got.Content):
		return got, srv.fault("the tokens %v are not those of the completion's text %q", got.Tokens, *got.Content)
	}
	return got, nil
}

// stream asks for a completion in chunks and puts it together.
func (srv *server) stream(ctx context.Context, prompt string,
	n int,
) (text string, tokens []int, chunks int, err error) {
	var got strings.Builder
	_, chunks, err = srv.chunks(ctx, srv.s.answer(), completionRequest(prompt, n, true), func(a *answer) {
		got.WriteString(*a.Content)
		tokens = append(tokens, a.Tokens...)
	})
	return got.String(), tokens, chunks, err
}

// chunks asks for a completion as a stream, passes on each chunk with content,
// and returns the last one and how many there were.
func (srv *server) chunks(ctx context.Context, within time.Duration, body any,
	each func(*answer),
) (last answer, chunks int, err error) {
	limit, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	res, err := srv.client.Request(limit, http.MethodPost, "/completion", body)
	if err != nil {
		if ctx.Err() != nil {
			return last, 0, context.Cause(ctx)
		}
		return last, 0, srv.fault("POST /completion as a stream: %v", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // what came is shown
		return last, 0, srv.fault("POST /completion as a stream gave %d with %s", res.StatusCode, llamaserver.Quote(b))
	}
	err = llamaserver.Events(res.Body, func(data []byte) error {
		if last.Stop {
			return errors.New("a chunk came after the final one")
		}
		last = answer{}
		if err := json.Unmarshal(data, &last); err != nil {
			return fmt.Errorf("chunk %d is %s: %w", chunks+1, llamaserver.Quote(data), err)
		}
		if last.Error != nil || last.Content == nil {
			return fmt.Errorf("chunk %d is %s", chunks+1, llamaserver.Quote(data))
		}
		chunks++
		each(&last)
		return nil
	})
	if ctx.Err() != nil {
		return last, chunks, context.Cause(ctx)
	}
	if err == nil && !last.Stop {
		err = errors.New("it ended without a final chunk")
	}
	if err != nil {
		return last, chunks, srv.fault("the stream of a completion, after %d chunks: %v", chunks, err)
	}
	return last, chunks, nil
}

// spells says whether tokens are those of a text. A character may be its byte's
// token as well as its own: where the logits are equal, as on a simulated device,
// the byte comes first.
func spells(tokens []int, text string) bool {
	got, ok := gguf.Decode(tokens)
	return ok && got == text
}
