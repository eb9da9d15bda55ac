package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/spec"
)

// Malformed is the proof of a cure: without it a malformed input is not refused. It wants
// MalformedProgram with the address sanitizer and the library's own checks of indexes.
const Malformed = "malformed"

// The faults that a malformed input shows.
const (
	FaultMemory = "memory" // memory is touched that is not the program's own, by the word of the sanitizer or the library
	FaultDies   = "dies"   // the program ends in the middle of what it does
)

// malformedInput is one input, and what a program without the cure does with it. Each is
// small: a field that is empty, a bound that is crossed by one, an index below the first.
type malformedInput struct {
	cures string // id of the advisory
	name  string // besides it, where the advisory has several
	fault string
	model string // one of gguf.MalformedNames; empty: a good model
	lora  bool   // with an adapter that is none
	args  []string
	ask   []map[string]any // of /completion, one after the other
}

// shiftArgs make a context that is soon full.
var shiftArgs = []string{"-c", "256", "--context-shift"}

// malformedInputs are all of them.
var malformedInputs = []malformedInput{
	{cures: "gguf-empty-key", fault: FaultDies, model: "empty key"},
	{cures: "gguf-zero-dimension", fault: FaultDies, model: "dimension of 0"},
	{cures: "gguf-zero-dimension", name: "the alignment", fault: FaultDies, model: "alignment of another type"},
	{cures: "layer-count", fault: FaultMemory, model: "one block too many"},
	{cures: "wavtokenizer-blocks", fault: FaultMemory, model: "one vocoder block too many"},
	{cures: "special-token-ids", fault: FaultMemory, model: "special token after the last"},
	{cures: "plamo2-vocab-write", fault: FaultMemory, model: "byte token of -1"},
	{cures: "charsmap-bounds", fault: FaultMemory, model: "charsmap of 3 bytes"},
	{cures: "vocab-grammar-checks", fault: FaultMemory, model: "token with a NUL at its end"},
	{cures: "adapter-load-double-reset", fault: FaultMemory, lora: true},
	{cures: "negative-n-discard", fault: FaultMemory, args: shiftArgs, ask: []map[string]any{full(-1)}},
	{cures: "large-n-discard", fault: FaultDies, args: shiftArgs, ask: []map[string]any{full(256)}},
	{cures: "ngram-map-abort", fault: FaultDies, args: []string{"--spec-type", "ngram-map-k"}, ask: []map[string]any{
		{"prompt": strings.Repeat("ab", 150), "n_predict": 4}, {"prompt": strings.Repeat("ab", 75), "n_predict": 4},
	}},
}

// full asks for more tokens than a context of 256 has room for, and says how many may go then.
func full(discard int) map[string]any {
	return map[string]any{
		"prompt": strings.Repeat("a", 200), "n_predict": 100, "n_discard": discard, "ignore_eos": true,
		"cache_prompt": false,
	}
}

func (in malformedInput) id() string {
	if in.name == "" {
		return in.cures
	}
	return in.cures + ", " + in.name
}

// program is the smallest that meets the defect: one that loads a model, where that is enough.
func (in malformedInput) program() string {
	if in.model != "" {
		return "llama-simple"
	}
	return "llama-server"
}

// MalformedProgram is the program that a check of MalformedChecks runs.
func MalformedProgram(c spec.Check) string {
	for _, in := range malformedInputs {
		if in.id() == c.Args["input"] {
			return in.program()
		}
	}
	return ""
}

// MalformedChecks returns what shows that a fix cures these advisories; none where there is no input for any.
func MalformedChecks(cures []string) []ProofCheck {
	var list []ProofCheck
	for _, in := range malformedInputs {
		if !slices.Contains(cures, in.cures) {
			continue
		}
		one := ProofCheck{Fault: in.fault, Check: spec.Check{
			Name: Malformed, Args: map[string]any{"input": in.id()},
			Env: map[string]string{"ASAN_OPTIONS": "detect_leaks=0:handle_abort=1", "GGML_NO_BACKTRACE": "1"},
		}}
		if len(list) > 0 {
			one.Case = cmp.Or(in.name, in.cures)
		}
		list = append(list, one)
	}
	return list
}

// malformedCheck: what is malformed is refused with a message. A server that got it with a request goes on.
func malformedCheck(a *args) step {
	id := a.text("input", "")
	i := slices.IndexFunc(malformedInputs, func(in malformedInput) bool { return in.id() == id })
	if i < 0 {
		var ids []string
		for _, in := range malformedInputs {
			ids = append(ids, in.id())
		}
		a.bad("input", "one of "+strings.Join(ids, "; "))
		return nil
	}
	in := malformedInputs[i]
	return func(ctx context.Context, s *session) (outcome, error) {
		if in.ask != nil {
			return s.requested(ctx, in)
		}
		return s.loads(ctx, in)
	}
}

// loads starts a program with the input, which is to end by itself.
func (s *session) loads(ctx context.Context, in malformedInput) (outcome, error) {
	model := filepath.Join(s.o.Work, "malformed.gguf")
	if in.model == "" {
		var err error
		if model, err = s.model(ctx, gguf.F16, 0); err != nil {
			return outcome{}, err
		}
	} else {
		content, err := gguf.Malformed(in.model)
		if err == nil {
			err = os.WriteFile(model, content, 0o644)
		}
		if err != nil {
			return outcome{}, err
		}
	}
	argv := []string{"-m", model}
	if in.lora {
		argv = append(argv, "--host", "127.0.0.1", "--port", "0")
		lora := filepath.Join(s.o.Work, "lora.gguf")
		if err := os.WriteFile(lora, []byte("no adapter"), 0o644); err != nil {
			return outcome{}, err
		}
		argv = append(argv, "--lora", lora)
	}
	out, err := s.outputWithin(ctx, patience(s.answer()), in.program(), argv...)
	var f *fault
	switch {
	case ctx.Err() != nil:
		return outcome{}, context.Cause(ctx)
	case out == nil:
		return outcome{}, err
	case err == nil:
		return outcome{}, out.fault("it ends as if nothing were wrong")
	case !errors.As(err, &f):
		return outcome{}, err
	case f.late:
		return outcome{}, out.fault("it neither refuses the input nor ends")
	}
	if name, line := touched(out.all(), f.signal); name == FaultMemory || name == FaultDies &&
		(in.fault == FaultDies || !asserted(out.all())) {
		f = out.fault("%s", line)
		f.name = name
		return outcome{}, f
	}
	return outcome{detail: "it ends by itself: " + complaint(out.all())}, nil
}

// requested gives the input to a server that runs, which is to answer, and to go on.
func (s *session) requested(ctx context.Context, in malformedInput) (outcome, error) {
	model, err := s.model(ctx, gguf.F16, 0)
	if err != nil {
		return outcome{}, err
	}
	srv, err := s.need(ctx, config{model: model, typ: gguf.F16, args: in.args})
	if err != nil {
		return outcome{}, err
	}
	var seen []string
	for _, body := range slices.Concat(in.ask, []map[string]any{{"prompt": hostilePrompt, "n_predict": 8}}) {
		status, answer, err := srv.call(ctx, http.MethodPost, "/completion", body)
		switch {
		case ctx.Err() != nil:
			return outcome{}, context.Cause(ctx)
		case err != nil && srv.diesWithin(5*deathPatience): // it is what is looked for, and a busy machine takes long
			return outcome{}, srv.death()
		case err != nil:
			return outcome{}, srv.fault("no answer: %v", err)
		case status >= http.StatusInternalServerError:
			return outcome{}, srv.fault("it answers %d with %s", status, llamaserver.Quote(answer))
		}
		seen = append(seen, fmt.Sprint(status))
	}
	return outcome{detail: "it answers " + strings.Join(seen, ", ") + " and goes on"}, nil
}

// death says how a server ended that was asked something.
func (srv *server) death() error {
	log, err := os.ReadFile(srv.log)
	if err != nil {
		return err
	}
	name, line := touched(string(log), "a signal")
	return srv.namedFault(name, "%s", line)
}

// touched finds in what a program printed whether, and how, it ended in the middle of
// something; signal is what ended it, or empty.
func touched(out, signal string) (name, line string) {
	for l := range strings.Lines(out) {
		l = strings.TrimSpace(l)
		switch {
		case strings.Contains(l, ": Assertion '") && strings.HasSuffix(l, "' failed."):
			return FaultMemory, "the library: " + l[strings.Index(l, "Assertion '"):]
		case strings.Contains(l, "ERROR: AddressSanitizer: ABRT "), strings.Contains(l, "ERROR: AddressSanitizer: FPE "):
			return FaultDies, kind(l)
		case strings.Contains(l, "ERROR: AddressSanitizer: "):
			return FaultMemory, kind(l)
		}
	}
	if signal != "" {
		return FaultDies, "it is ended by " + signal
	}
	return "", ""
}

// kind is what a line of the sanitizer calls the fault, without its addresses.
func kind(line string) string {
	_, what, _ := strings.Cut(line, "ERROR: ")
	return strings.Join(strings.Fields(what)[:2], " ")
}

// asserted reports whether a program ended by an assertion of its own, as some of upstream's cures do.
func asserted(out string) bool { return strings.Contains(out, "GGML_ASSERT(") }

// complaint is the first thing that a program calls an error, or the last that it says.
func complaint(out string) string {
	last := ""
	for l := range strings.Lines(out) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		last = l
		if low := strings.ToLower(l); strings.Contains(low, "error") || strings.Contains(low, "failed") ||
			strings.Contains(l, "GGML_ASSERT(") {
			break
		}
	}
	return last
}
