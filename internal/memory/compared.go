package memory

import (
	"fmt"
	"slices"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/gguf"
)

// compared are the architectures whose weights and cache the formula has right at b8833 and at v0.5.0, beside the dry
// run of a model as upstream's test of all architectures makes it (TestArchs of internal/dryrun;
// docs/evidence/2026-12-01-dry-run.txt). Left out are those whose answer that model cannot show, since it hangs on the
// number of layers or on a key that the model does not have: exaone4, glm-dsa, llama4, phi3, smallthinker, t5; and
// chameleon, which upstream calls half-implemented.
var compared = []string{
	"apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bloom", "chatglm", "codeshell",
	"cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2", "dots1", "ernie4_5", "ernie4_5-moe", "exaone",
	"falcon", "gemma", "glm4", "glm4moe", "gptneox", "granite", "granitemoe", "grok", "grovemoe", "hunyuan-dense",
	"hunyuan-moe", "internlm2", "jais", "jais2", "llama", "llama-embed", "maincoder", "minicpm", "minicpm3",
	"minimax-m2", "mistral3", "mistral4", "nemotron", "olmo", "olmoe", "openelm", "orion", "paddleocr",
	"pangu-embedded", "phi2", "phimoe", "plamo", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe",
	"qwen3vl", "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm", "starcoder2", "xverse",
}

// Compared reports whether the formula is known to be right for a model: it is so for its
// architecture, and the model has no layers that predict further tokens, which some tags load
// and some leave out.
func Compared(h *gguf.Header) bool {
	next := h.Ints(h.Arch + ".nextn_predict_layers")
	return slices.Contains(compared, h.Arch) && (len(next) == 0 || next[0] == 0)
}

// Unproven is a model for which there is no formula that is known to be right.
type Unproven struct {
	Arch string // general.architecture of the file
}

// Error says why there is no figure.
func (e *Unproven) Error() string {
	return fmt.Sprintf("for %s no formula is known to be right, and a guess would be wrong", e.Arch)
}

// ExitCode is exit.NotRun.
func (e *Unproven) ExitCode() int { return exit.NotRun }

// Hint names the way that is right for any architecture.
func (e *Unproven) Hint() string {
	return "--tag TAG, such as --tag b8833, lets that tag's llama.cpp lay the model out, without weights and without a card"
}

// Plain is what the formula says of a model's weights and cache on the card, in bytes, whether or not it is known to
// be right: for comparing.
func Plain(h *gguf.Header, o NeedOptions) (inWeights, inCache int64) {
	return weights(h, o).Bytes, cache(h, o).Bytes
}

// Companion says what a file is that goes with a model of text and has no context of its
// own, such as "a LoRA adapter"; "" for a model.
func Companion(h *gguf.Header) string {
	switch {
	case h.Text("general.type") == "adapter":
		return "a LoRA adapter"
	case h.Text("general.type") == "mmproj" || h.Arch == "clip":
		return "an image or sound encoder"
	}
	return ""
}

// companion is what a file takes that goes with a model: all of its weights, where the model's are.
func companion(h *gguf.Header, o NeedOptions, kind string) Need {
	p := Part{Name: "weights", When: "start", Trust: Measured, Why: "all tensors of the file"}
	for _, t := range h.Tensors {
		p.Bytes = plus(p.Bytes, int64(t.Bytes))
	}
	n := Need{Parts: []Part{p}, Total: p.Bytes, AtStart: p.Bytes, Notes: []string{
		"the file is " + kind + ": these are its weights, which come to what the model itself takes; what it computes with " +
			"is not in the forecast",
	}}
	if o.Card > 0 {
		fits := n.Total <= o.Card
		n.Fits = &fits
	}
	return n
}
