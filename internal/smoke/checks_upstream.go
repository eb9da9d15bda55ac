package smoke

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// built says plainly that a tool of upstream's is not among the programs.
func (s *session) built(name string) error {
	_, err := s.program(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not built by this recipe (in the %s build)", name, s.side.name)
	}
	return err
}

var nmse = regexp.MustCompile(`NMSE=([0-9.e+-]+|-?nan|-?inf)`)

// resultsCheck: llama-results of the patched build finds the logits that the
// one of the stock build wrote, within upstream's tolerance.
func resultsCheck(a *args) step {
	typ, n := a.modelType(), a.number("tokens", 512, 4)
	return func(ctx context.Context, s *session) (outcome, error) {
		if s.o.placeOf(s.current) == placeSim {
			return outcome{}, errors.New("the simulated device computes no values, so equal logits would say nothing there")
		}
		if err := s.built("llama-results"); err != nil {
			return outcome{}, err
		}
		if s.o.Same != "" {
			return outcome{detail: "same binaries: " + s.o.Same}, nil
		}
		if s.o.Stock == "" {
			return outcome{}, errors.New("no stock build was given to compare with")
		}
		// It reserves too little for a number of tokens that is no multiple of
		// 4, and aborts (tools/results/results.cpp, seen at b8390).
		n := n - n%4
		model, err := s.model(ctx, typ, n)
		if err != nil {
			return outcome{}, err
		}
		file := filepath.Join(s.o.Work, "results.gguf")
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return outcome{}, err
		}
		argv := []string{
			"-m", model, "--output", file, "--prompt", promptText(n), "-c", strconv.Itoa(n), "-b", strconv.Itoa(n),
			"-ngl", s.layers(), "-t", strconv.Itoa(threads()),
		}
		s.side = s.stock()
		err = s.built("llama-results")
		if err == nil {
			_, err = s.output(ctx, "llama-results", argv...)
		}
		s.side = s.patched()
		if ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		if err != nil {
			return outcome{}, fmt.Errorf("the stock build cannot be compared with: %s", firstLine(err.Error()))
		}
		out, err := s.output(ctx, "llama-results", append(argv, "--check")...)
		if f, ok := errors.AsType[*fault](err); ok {
			if m := nmse.FindStringSubmatch(strings.Join(f.tail, "\n")); m != nil {
				f.name, f.msg = FaultTokens, "llama-results --check: the logits differ from stock's by an NMSE of "+m[1]
			}
		}
		if err != nil {
			return outcome{}, err
		}
		m := nmse.FindStringSubmatch(out.all())
		if m == nil {
			return outcome{}, out.fault("llama-results --check ended well, but names no NMSE")
		}
		return outcome{detail: "llama-results --check: NMSE " + m[1], figures: map[string]any{"tokens": n}}, nil
	}
}

var (
	testsPassed    = regexp.MustCompile(`(?m)^\s*(\d+)/(\d+) tests passed`)
	backendsPassed = regexp.MustCompile(`(?m)^(\d+)/(\d+) backends passed`)
)

// backendOpsCheck: test-backend-ops finds every operation of a backend right.
// By itself it skips the CPU backend, which it compares with.
func backendOpsCheck(a *args) step {
	ops, backend := a.text("ops", ""), a.text("backend", "")
	limit := a.duration("within", 30*time.Minute)
	return func(ctx context.Context, s *session) (outcome, error) {
		if err := s.built("test-backend-ops"); err != nil {
			return outcome{}, err
		}
		if s.o.placeOf(s.current) == placeSim {
			return outcome{}, errors.New("the simulated device computes no values, so every operation would be wrong there")
		}
		argv := []string{"test"}
		if ops != "" {
			argv = append(argv, "-o", ops)
		}
		switch {
		case backend != "":
			argv = append(argv, "-b", backend)
		case s.o.deviceOf(s.current) == spec.Host:
			argv = append(argv, "-b", "CPU")
		}
		out, err := s.outputWithin(ctx, limit, "test-backend-ops", argv...)
		if err != nil {
			return outcome{}, err
		}
		total := 0
		for _, m := range testsPassed.FindAllStringSubmatch(out.all(), -1) {
			n, err1 := strconv.Atoi(m[1])
			of, err2 := strconv.Atoi(m[2])
			if err := errors.Join(err1, err2); err != nil || n != of {
				return outcome{}, out.fault("test-backend-ops ended well, but says %q", strings.TrimSpace(m[0]))
			}
			total += n
		}
		m := backendsPassed.FindStringSubmatch(out.all())
		if m == nil {
			return outcome{}, out.fault("test-backend-ops ended well, but does not say how many backends passed")
		}
		if total == 0 {
			return outcome{}, fmt.Errorf("test-backend-ops %s ran no test: it says %q", strings.Join(argv, " "), m[0])
		}
		return outcome{detail: fmt.Sprintf("%d operations, %s", total, m[0]), figures: map[string]any{"tests": total}}, nil
	}
}

var perplexity = regexp.MustCompile(`Final estimate: PPL = (\S+)`)

// perplexityCheck: llama-perplexity gives a number for a seeded text, and the
// stock build, where there is one, the same.
func perplexityCheck(a *args) step {
	typ, tokens, ctxSize := a.modelType(), a.number("tokens", 2048, 64), a.number("context", 512, 16)
	return func(ctx context.Context, s *session) (outcome, error) {
		if err := s.built("llama-perplexity"); err != nil {
			return outcome{}, err
		}
		if s.o.placeOf(s.current) == placeSim {
			return outcome{}, errors.New("the simulated device computes no values, so a perplexity would say nothing there")
		}
		model, err := s.model(ctx, typ, ctxSize)
		if err != nil {
			return outcome{}, err
		}
		text := filepath.Join(s.o.Work, "perplexity.txt")
		if err := os.WriteFile(text, []byte(promptText(max(tokens, 2*ctxSize)+1)), 0o644); err != nil {
			return outcome{}, err
		}
		measure := func() (*output, string, error) {
			out, err := s.output(ctx, "llama-perplexity", "-m", model, "-f", text, "-c", strconv.Itoa(ctxSize),
				"-ngl", s.layers(), "-t", strconv.Itoa(threads()))
			if err != nil {
				return nil, "", err
			}
			m := perplexity.FindStringSubmatch(out.all())
			if m == nil {
				return out, "", out.fault("llama-perplexity ended well, but names no final estimate")
			}
			return out, m[1], nil
		}
		out, got, err := measure()
		if err != nil {
			return outcome{}, err
		}
		v, err := strconv.ParseFloat(got, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 1 {
			return outcome{}, out.fault("llama-perplexity says %s, which no text can have", got)
		}
		detail := "perplexity " + got
		if s.o.Stock != "" && s.o.Same == "" {
			s.side = s.stock()
			err := s.built("llama-perplexity")
			stock := ""
			if err == nil {
				_, stock, err = measure()
			}
			s.side = s.patched()
			switch {
			case ctx.Err() != nil:
				return outcome{}, context.Cause(ctx)
			case err != nil:
				return outcome{}, fmt.Errorf("the stock build cannot be compared with: %s", firstLine(err.Error()))
			case stock != got:
				f := out.fault("llama-perplexity says %s, that of the stock build %s", got, stock)
				f.name = FaultTokens
				return outcome{}, f
			}
			detail += ", as stock"
		}
		return outcome{detail: detail, figures: map[string]any{"perplexity": v}}, nil
	}
}
