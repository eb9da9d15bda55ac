//go:build real

package cli_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/cli"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
)

var (
	vramTags   = flag.String("vram-tags", "", "tags whose dry run TestDryRun builds and asks, such as \"b8390 v0.5.0\"")
	vramBuild  = flag.String("vram-build", "", "a folder that llama.cpp was built in, for TestDryRunBuild")
	vramSource = flag.String("vram-source", "", "where they come from, as of --source")
)

// shape is what a model's metadata say of it, without a tensor: llama.cpp makes those that the architecture asks for.
type shape struct {
	name string
	arch string
	keys map[string]any // below the architecture, unless they begin with "tokenizer."
	args string         // of vram
	mib  float64        // of the cache, that llama.cpp is known to give it, and of the state of recurrent layers
}

func (s shape) write(t *testing.T) string {
	t.Helper()
	keys := map[string]any{
		"vocab_size": 128, "context_length": 262144, "attention.layer_norm_epsilon": float32(1e-5), "embedding_length": 1024,
		"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000), "feed_forward_length": 512,
	}
	for k, v := range s.keys {
		keys[k] = v
	}
	meta := []gguf.Entry{{Key: "general.architecture", Value: s.arch}, {Key: "tokenizer.ggml.model", Value: "no_vocab"}}
	for k, v := range keys {
		if !strings.HasPrefix(k, "tokenizer.") {
			k = s.arch + "." + k
		}
		meta = append(meta, gguf.Entry{Key: k, Value: v})
	}
	return writeHeader(t, nil, meta...)
}

// each is a list of n numbers: one for the last of every so many layers, other for the rest.
func each(n, period, one, other int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = other
		if i%period == period-1 {
			list[i] = one
		}
	}
	return list
}

// linear are the layers of qwen3-next and qwen3.5 without a cache: their state is (conv_kernel-1)·(inner_size +
// 2·group_count·state_size) + state_size·inner_size floats each.
func linear(heads, kv, rank, inner int, more map[string]any) map[string]any {
	keys := map[string]any{
		"attention.head_count": heads, "attention.head_count_kv": kv, "attention.key_length": 256,
		"attention.value_length": 256, "full_attention_interval": 4, "ssm.conv_kernel": 4, "ssm.state_size": 128,
		"ssm.group_count": 16, "ssm.time_step_rank": rank, "ssm.inner_size": inner, "rope.dimension_count": 64,
	}
	for k, v := range more {
		keys[k] = v
	}
	return keys
}

// gemma4 is the 26B: 5 of 30 layers see all, with 2 heads of 512; the others have 8 of 256.
var gemma4 = map[string]any{
	"block_count": 30, "attention.head_count": 16, "attention.head_count_kv": each(30, 6, 2, 8),
	"attention.key_length": 512, "attention.value_length": 512, "attention.key_length_swa": 256,
	"attention.value_length_swa": 256, "attention.sliding_window": 1024, "attention.shared_kv_layers": 0,
	"embedding_length_per_layer_input": 0, "rope.freq_base_swa": float32(10000), "rope.dimension_count": 512,
	"rope.dimension_count_swa": 256, "expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 64,
	"attention.sliding_window_pattern": func() []bool {
		list := make([]bool, 30)
		for i := range list {
			list[i] = i%6 != 5
		}
		return list
	}(),
}

// shapes are models that people asked about, as wide as the real ones where the cache is concerned. A formula for
// one kind of layer told up to five times the right figure of each.
var shapes = []shape{
	{"qwen35", "qwen35", linear(24, 4, 48, 6144, map[string]any{
		"block_count": 64, "rope.dimension_sections": []int{11, 11, 10, 0},
	}), "--ctx 262144", 16384 + 149.625},
	{"qwen3next", "qwen3next", linear(16, 2, 32, 4096, map[string]any{
		"block_count": 48, "expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 64,
		"expert_shared_feed_forward_length": 64,
	}), "--ctx 262144", 6144 + 75.375},
	{"gemma4 at 4,096", "gemma4", gemma4, "--ctx 4096", 380},
	{"gemma4 at 32,768", "gemma4", gemma4, "--ctx 32768", 940},
	{"gemma4 at 131,072", "gemma4", gemma4, "--ctx 131072", 2860},
	{"bert", "bert", map[string]any{
		"block_count": 24, "attention.head_count": 16, "context_length": 8192, "attention.causal": false, "pooling_type": 2,
		"tokenizer.ggml.token_type_count": 2,
	}, "--ctx 8192", 0},
	{"gemma3 27B", "gemma3", map[string]any{
		"block_count": 62, "attention.head_count": 32, "attention.head_count_kv": 16, "attention.key_length": 128,
		"attention.value_length": 128, "attention.sliding_window": 1024,
	}, "--ctx 85000 --kv-type q8_0", 3869.625},
	{"gpt-oss 20B", "gpt-oss", map[string]any{
		"block_count": 24, "attention.head_count": 64, "attention.head_count_kv": 8, "attention.key_length": 64,
		"attention.value_length": 64, "attention.sliding_window": 128, "expert_count": 8, "expert_used_count": 2,
		"expert_feed_forward_length": 64,
	}, "--ctx 131072", 3090},
	{"llama4", "llama4", map[string]any{
		"block_count": 48, "attention.head_count": 40, "attention.head_count_kv": 8, "attention.key_length": 128,
		"attention.value_length": 128, "rope.dimension_count": 128, "expert_count": 16, "expert_used_count": 1,
		"expert_feed_forward_length": 64, "interleave_moe_layer_step": 1,
	}, "--ctx 131072", 7368},
}

// askShapes asks for every shape, with such arguments; the llama.cpp that is asked does not know the architecture
// lacks.
func askShapes(t *testing.T, lacks string, args ...string) {
	t.Helper()
	for _, s := range shapes {
		var out, errs bytes.Buffer
		argv := append([]string{"-C", "../..", "vram", s.write(t), "--json"}, args...)
		code := cli.Run(t.Context(), append(argv, strings.Fields(s.args)...), &out, &errs)
		if s.arch == lacks {
			if code != exit.NotRun || !strings.Contains(errs.String(), "unknown model architecture") || out.Len() > 0 {
				t.Errorf("%s: %d\n%s%s", s.name, code, &out, &errs)
			}
			continue
		}
		var n memory.Need
		if err := json.Unmarshal(out.Bytes(), &n); code != exit.OK || err != nil {
			t.Errorf("%s: %d, %v\n%s", s.name, code, err, &errs)
			continue
		}
		var cache float64
		for _, p := range n.Parts {
			if p.Name == "KV cache" {
				cache = float64(p.Bytes) / (1 << 20)
			}
		}
		if cache != s.mib {
			t.Errorf("%s: %.3f MiB of cache, want %.3f", s.name, cache, s.mib)
		}
	}
}

// TestDryRunBuild asks a build that is there already.
func TestDryRunBuild(t *testing.T) {
	if *vramBuild == "" {
		t.Skip("no -vram-build=DIR: only TestReal asks, the build that it makes")
	}
	t.Setenv("LLPATCH_CACHE", t.TempDir())
	askShapes(t, "", "--build", *vramBuild)
}

// TestDryRun builds the dry run of -vram-tags, and asks it for shapes whose cache is known; the second call builds
// nothing and needs no network.
func TestDryRun(t *testing.T) {
	if *vramTags == "" {
		t.Skip("no -vram-tags")
	}
	if os.Getenv("LLPATCH_CACHE") == "" {
		t.Setenv("LLPATCH_CACHE", t.TempDir())
	}
	for _, name := range strings.Fields(*vramTags) {
		model := filepath.Join(t.TempDir(), "m.gguf")
		m, err := gguf.Preset("moe")
		if err != nil {
			t.Fatal(err)
		}
		m.Layers = 2
		if _, err := gguf.WriteFile(t.Context(), model, m, nil); err != nil {
			t.Fatal(err)
		}
		args := []string{"-C", "../..", "vram", model, "--tag", name, "--locked"}
		began := time.Now()
		var out, errs bytes.Buffer
		first := args
		if *vramSource != "" {
			first = append(first, "--source", *vramSource)
		}
		if code := cli.Run(t.Context(), first, &out, &errs); code != exit.OK {
			t.Fatalf("%s: %d\n%s", name, code, &errs)
		}
		took := time.Since(began).Round(time.Second)
		began = time.Now()
		var again bytes.Buffer
		errs.Reset()
		code := cli.Run(t.Context(), append(args, "--offline"), &again, &errs)
		if code != exit.OK || again.String() != out.String() || strings.Contains(errs.String(), "building") {
			t.Errorf("%s, again: %d\n%s%s", name, code, &again, &errs)
		}
		t.Logf("%s: built in %v, again in %v\n%s", name, took, time.Since(began).Round(time.Millisecond), &out)
		lacks := ""
		if name == "b8390" {
			lacks = "gemma4"
		}
		askShapes(t, lacks, "--tag", name, "--locked", "--offline")
	}
}
