package memory

import (
	"fmt"
	"slices"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/gguf"
)

// compared are the architectures whose layers are alike, each with a cache of every cell:
// llama and deepseek2 by what an H200 was seen to take
// (docs/evidence/2026-12-01-h200-v0.5.0-cuda13.txt), the others by llama.cpp's source. Others
// have layers without a cache, windows, shared layers, or tensors that lie elsewhere, by rules
// that stand in that source alone.
var compared = []string{"deepseek2", "llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe"}

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

// Hint names the program that knows.
func (e *Unproven) Hint() string {
	return "llama-server tells what it takes when it starts, in the lines with \"buffer size\" (-lv 4, or -v for older tags): " +
		"try it with your -c and -ngl"
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
