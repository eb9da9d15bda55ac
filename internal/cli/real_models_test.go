//go:build real

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
)

var llamaBin = flag.String("llama-bin", "", "a folder with a finished llama.cpp, to load every shape of model")

// TestGivenBuild loads every shape in a build that is there already.
func TestGivenBuild(t *testing.T) {
	if *llamaBin == "" {
		t.Skip("no -llama-bin=DIR: only TestReal loads the models, in the build that it makes")
	}
	loadModels(t, *llamaBin)
	recordEvidence(t, *llamaBin)
}

// loadModels has llama-bench and llama-server load a model of every shape and
// type, and asks the server for greedy completions, which must differ with the
// prompt, for probabilities, which must be numbers, and for the size of its cache,
// which must be what gguf says.
func loadModels(t *testing.T, bin string) {
	t.Helper()
	for _, p := range gguf.Presets() {
		if p[0] == "8b" {
			continue // too large; its shape is gqa's
		}
		for _, typ := range []gguf.Type{gguf.F16, gguf.Q8_0, gguf.Q4_0} {
			t.Run(p[0]+"-"+typ.String(), func(t *testing.T) {
				m, err := gguf.Preset(p[0])
				if err != nil {
					t.Fatal(err)
				}
				m.Type, m.Layers, m.Seed = typ, 2, 5
				path := filepath.Join(t.TempDir(), "m.gguf")
				if _, err := gguf.WriteFile(t.Context(), path, m, nil); err != nil {
					t.Fatal(err)
				}
				bench(t, bin, path, m)
				serve(t, bin, path, m)
			})
		}
	}
}

func bench(t *testing.T, bin, path string, m gguf.Model) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(bin, "llama-bench"), "-m", path, "-p", "32", "-n", "4", "-r", "1",
		"-t", "2", "-o", "json")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("llama-bench: %v", err)
	}
	var runs []struct {
		Params uint64  `json:"model_n_params"`
		Speed  float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &runs); err != nil {
		t.Fatalf("llama-bench wrote %q: %v", out, err)
	}
	facts, err := m.Facts()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Params != facts.Params || r.Speed <= 0 {
			t.Errorf("llama-bench counts %d parameters, want %d; %g tokens a second", r.Params, facts.Params, r.Speed)
		}
	}
	if len(runs) != 2 {
		t.Errorf("%d results", len(runs))
	}
}

var cacheSize = regexp.MustCompile(`llama_kv_cache: size = +([0-9.]+) MiB`)

func serve(t *testing.T, bin, path string, m gguf.Model) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	const ctx = 2048
	name := path + ".log"
	log, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(bin, "llama-server"), "-m", path, "--port", port, "-c", fmt.Sprint(ctx), "-np", "1",
		"-t", "2", "--no-warmup")
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = log.Close()
	})
	ready(t, addr, name)
	answers := map[string]bool{}
	prompts := []string{
		"The quick brown fox", "the quick brown fox", "Once upon a time", gguf.Prompt(500, 1),
		gguf.Prompt(501, 1),
	}
	for _, p := range prompts {
		answers[complete(t, addr, p)] = true
	}
	if len(answers) != len(prompts) {
		t.Errorf("%d prompts have %d answers", len(prompts), len(answers))
	}
	facts, err := m.Facts()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%.2f", float64(facts.KVF16*ctx)/(1<<20))
	if found := cacheSize.FindSubmatch(text); found == nil || string(found[1]) != want {
		t.Errorf("the cache for %d tokens has %q MiB, want %s", ctx, found, want)
	}
}

func ready(t *testing.T, addr, log string) {
	t.Helper()
	for range 600 {
		if resp, err := http.Get("http://" + addr + "/health"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(log)
	t.Fatalf("llama-server is not ready:\n%s", text)
}

// complete returns a greedy completion, of whose tokens every probability is a
// number, and whose prompt the server counts as gguf does.
func complete(t *testing.T, addr, prompt string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 16, "temperature": 0, "n_probs": 3})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/completion", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct {
		Content   string
		Evaluated int `json:"tokens_evaluated"`
		Probs     []struct {
			Top []struct{ Logprob *float64 } `json:"top_logprobs"`
		} `json:"completion_probabilities"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	if want := len(gguf.Encode(prompt)) + 1; got.Evaluated != want {
		t.Errorf("the server counts %d tokens, want %d", got.Evaluated, want)
	}
	if len(got.Probs) == 0 || strings.TrimSpace(got.Content) == "" {
		t.Errorf("no answer: %+v", got)
	}
	for _, p := range got.Probs {
		for _, top := range p.Top {
			// What is no number is null in JSON.
			if top.Logprob == nil || math.IsInf(*top.Logprob, 0) || *top.Logprob > 0 {
				t.Fatalf("a probability that is none: %+v", got.Probs)
			}
		}
	}
	return got.Content
}
