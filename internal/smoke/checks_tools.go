package smoke

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/llamaserver"
)

// benchCheck: llama-bench measures prompt and generation on the model, and was
// built as the rest.
func benchCheck(a *args) step {
	typ, prompt, gen := a.modelType(), a.number("n_prompt", 64, 1), a.number("n_gen", 16, 1)
	return func(ctx context.Context, s *session) (outcome, error) {
		model, err := s.model(ctx, typ, 0)
		if err != nil {
			return outcome{}, err
		}
		out, err := s.output(ctx, "llama-bench", "-m", model, "-o", "jsonl", "-ngl", s.layers(),
			"-p", strconv.Itoa(prompt), "-n", strconv.Itoa(gen), "-r", "1", "-t", strconv.Itoa(threads()))
		if err != nil {
			return outcome{}, err
		}
		figures := map[string]any{}
		for line := range strings.Lines(out.stdout.String()) {
			var row struct {
				Build  int     `json:"build_number"`
				Commit string  `json:"build_commit"`
				Prompt int     `json:"n_prompt"`
				Gen    int     `json:"n_gen"`
				Speed  float64 `json:"avg_ts"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				return outcome{}, out.fault("llama-bench -o jsonl printed %s: %v", llamaserver.Quote([]byte(line)), err)
			}
			if w := s.o.Want; w.Build != 0 && (row.Build != w.Build || row.Commit != w.Commit) {
				return outcome{}, out.fault("llama-bench says build %d, commit %s; it was built as build %d, commit %s", row.Build,
					row.Commit, w.Build, w.Commit)
			}
			if !(row.Speed > 0) || math.IsInf(row.Speed, 0) {
				return outcome{}, out.fault("llama-bench measured %v tokens per second", row.Speed)
			}
			switch {
			case row.Prompt == prompt && row.Gen == 0:
				figures["prompt_tokens_per_second"] = row.Speed
			case row.Gen == gen && row.Prompt == 0:
				figures["tokens_per_second"] = row.Speed
			}
		}
		if len(figures) != 2 {
			return outcome{}, out.fault("llama-bench measured %d of 2 tests: -p %d and -n %d", len(figures), prompt, gen)
		}
		return outcome{detail: "both tests ran", figures: figures}, nil
	}
}

// word is the grammar for llama-cli, which trims blanks off an answer.
const word = "root ::= [a-z]+"

var onlyWord = regexp.MustCompile(`^[a-z]+$`)

// cliCheck: llama-cli answers one message and ends.
func cliCheck(a *args) step {
	typ, n := a.modelType(), a.number("n_predict", 16, 1)
	return func(ctx context.Context, s *session) (outcome, error) {
		model, err := s.model(ctx, typ, 0)
		if err != nil {
			return outcome{}, err
		}
		out, err := s.output(ctx, "llama-cli", "-m", model, "-p", "hello", "-n", strconv.Itoa(n), "-c", "512",
			"-t", strconv.Itoa(threads()), "-ngl", s.layers(), "--temp", "0", "--grammar", word, "--single-turn", "--simple-io")
		if err != nil {
			return outcome{}, err
		}
		// The answer is the line with just the letters asked for; around it
		// stand a banner and the message itself.
		for line := range strings.Lines(out.stdout.String()) {
			line = strings.Trim(line, "\r\n")
			if len(line) == n && onlyWord.MatchString(line) {
				return outcome{detail: "answered and ended", figures: map[string]any{"tokens": n}}, nil
			}
		}
		return outcome{}, out.fault("llama-cli ended well, but printed no answer of %d characters in %s", n, word)
	}
}

// quantizeCheck: llama-quantize makes a Q8_0 model of the F16 one, of the size
// that it must have, and the server answers with it.
func quantizeCheck(a *args) step {
	n := a.number("n_predict", 16, 1)
	return func(ctx context.Context, s *session) (outcome, error) {
		model, err := s.model(ctx, gguf.F16, 0)
		if err != nil {
			return outcome{}, err
		}
		path := filepath.Join(s.o.Work, "model-quantized.gguf")
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return outcome{}, err
		}
		out, err := s.output(ctx, "llama-quantize", model, path, "q8_0", strconv.Itoa(threads()))
		if err != nil {
			return outcome{}, err
		}
		was, err := os.Stat(model)
		if err != nil {
			return outcome{}, err
		}
		is, err := os.Stat(path)
		if err != nil {
			return outcome{}, out.fault("llama-quantize ended well, but wrote nothing: %v", err)
		}
		// Q8_0 has 8.5 bits a weight and F16 16; the head and the norms stay.
		if is.Size() < was.Size()/2 || is.Size() > was.Size()*6/10 {
			return outcome{}, out.fault("llama-quantize made %d bytes of %d", is.Size(), was.Size())
		}
		srv, err := s.need(ctx, config{model: path})
		if err != nil {
			return outcome{}, fmt.Errorf("the quantised model: %w", err)
		}
		if _, err := srv.completions(ctx, "quantised", n); err != nil {
			return outcome{}, fmt.Errorf("the quantised model: %w", err)
		}
		return outcome{
			detail:  "quantised, loaded and used",
			figures: map[string]any{"bytes": is.Size(), "of_bytes": was.Size()},
		}, nil
	}
}
