package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/gguf"
)

// written is what llpatch model says of a model.
type written struct {
	Path  string     `json:"path"`
	Model gguf.Model `json:"model"`
	gguf.Facts
	SHA256  string `json:"sha256"`
	Context int    `json:"n_ctx"`
}

// prompted is what it says of a prompt.
type prompted struct {
	Path   string `json:"path"`
	Tokens int    `json:"tokens"` // without the <s> in front
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Seed   uint64 `json:"seed"`
}

// modelFlags are the numbers of a model as the command line gives them; those that
// it does not give come from the preset.
type modelFlags struct {
	preset, typ string
	seed        uint64
	prompt      int
	numbers     []*modelNumber
}

type modelNumber struct {
	flag, about string
	field       func(*gguf.Model) *int
	value       int
}

func newModelFlags(c *cobra.Command) *modelFlags {
	m := &modelFlags{numbers: []*modelNumber{
		{flag: "layers", about: "layers", field: func(m *gguf.Model) *int { return &m.Layers }},
		{flag: "embd", about: "width of the embedding", field: func(m *gguf.Model) *int { return &m.Embd }},
		{flag: "heads", about: "attention heads", field: func(m *gguf.Model) *int { return &m.Heads }},
		{flag: "kv-heads", about: "heads of K and V: fewer than --heads is GQA", field: func(m *gguf.Model) *int {
			return &m.KVHeads
		}},
		{flag: "head-dim", about: "elements of a head (0: embd / heads)", field: func(m *gguf.Model) *int {
			return &m.HeadDim
		}},
		{flag: "ff", about: "width of the feed-forward layer, or of each expert", field: func(m *gguf.Model) *int {
			return &m.FF
		}},
		{flag: "ctx", about: "tokens the model says it was trained for", field: func(m *gguf.Model) *int {
			return &m.Context
		}},
		{flag: "experts", about: "experts (0: a dense model)", field: func(m *gguf.Model) *int { return &m.Experts }},
		{flag: "experts-used", about: "experts that work on each token", field: func(m *gguf.Model) *int {
			return &m.ExpertsUsed
		}},
		{flag: "experts-shared", about: "experts for every token (MLA only)", field: func(m *gguf.Model) *int {
			return &m.ExpertsShared
		}},
		{flag: "dense-lead", about: "layers without experts at the start (MLA only)", field: func(m *gguf.Model) *int {
			return &m.DenseLead
		}},
		{
			flag: "kv-rank", about: "width of the compressed K and V: a model with MLA (0: none)",
			field: func(m *gguf.Model) *int { return &m.KVRank },
		},
		{flag: "q-rank", about: "width of the compressed Q (MLA only; 0: not compressed)", field: func(m *gguf.Model) *int {
			return &m.QRank
		}},
		{flag: "rope-dim", about: "elements of a head that rope turns (MLA only)", field: func(m *gguf.Model) *int {
			return &m.RopeDim
		}},
		{flag: "value-dim", about: "elements of a head of V (MLA only)", field: func(m *gguf.Model) *int {
			return &m.ValueDim
		}},
	}}
	var presets []string
	for _, p := range gguf.Presets() {
		presets = append(presets, p[0])
	}
	f := c.Flags()
	f.StringVar(&m.preset, "preset", "tiny", "the shape to start from: "+strings.Join(presets, ", "))
	f.StringVar(&m.typ, "type", "f16", "how the matrices are stored: f16, q8_0 or q4_0 (norms are F32)")
	f.Uint64Var(&m.seed, "seed", 0, "seed of the weights, or of the prompt")
	f.IntVar(&m.prompt, "prompt", 0, "write no model, but a text of exactly `N` tokens (the BOS not counted)")
	for _, n := range m.numbers {
		f.IntVar(&n.value, n.flag, 0, n.about)
	}
	return m
}

// model returns the model that the flags name.
func (m *modelFlags) model(c *cobra.Command) (gguf.Model, error) {
	model, err := gguf.Preset(m.preset)
	if err != nil {
		return model, err
	}
	if model.Type, err = gguf.ParseType(m.typ); err != nil {
		return model, usage("%w", err)
	}
	model.Seed = m.seed
	for _, n := range m.numbers {
		if c.Flags().Changed(n.flag) {
			*n.field(&model) = n.value
		}
	}
	if err := model.Validate(); err != nil {
		return model, err
	}
	if model.HeadDim == 0 {
		model.HeadDim = model.Embd / model.Heads
	}
	return model, nil
}

func (a *app) modelCmd() *cobra.Command {
	var out string
	var force bool
	c := &cobra.Command{
		Use: "model -o FILE", Short: "Write a seeded model, or a prompt of an exact length", Args: args(),
	}
	m := newModelFlags(c)
	var b strings.Builder
	for _, p := range gguf.Presets() {
		fmt.Fprintf(&b, "  %-8s  %s\n", p[0], p[1])
	}
	c.Long = `llpatch model writes a GGUF that llama.cpp loads, with random weights and a
vocabulary of single bytes: the same bytes for the same flags on any machine.
Start from a preset and change any number:

` + b.String() + `
  llpatch model -o m.gguf --preset gqa --type q8_0 --layers 8 --ctx 131072
  llpatch model -o p.txt --prompt 65536`
	c.Flags().StringVarP(&out, "output", "o", "", "file to write")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it is there")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if out == "" {
			return usage("-o FILE is missing")
		}
		if err := writable(out, force); err != nil {
			return err
		}
		if c.Flags().Changed("prompt") {
			return a.writePrompt(c, m, out)
		}
		model, err := m.model(c)
		if err != nil {
			return err
		}
		info, err := gguf.WriteFile(c.Context(), out, model, a.progress.update)
		if err != nil {
			return err
		}
		facts, err := model.Facts()
		if err != nil {
			return err
		}
		w := written{Path: out, Model: model, Facts: facts, SHA256: info.SHA256, Context: model.Context}
		return a.print(w, w.text)
	}
	return c
}

// writable refuses what must not be overwritten.
func writable(out string, force bool) error {
	switch st, err := os.Lstat(out); {
	case errors.Is(err, fs.ErrNotExist):
		if !isDir(filepath.Dir(out)) {
			return usage("-o %s: there is no folder %s", out, filepath.Dir(out))
		}
		return nil
	case err != nil:
		return fmt.Errorf("-o: %w", err)
	case st.IsDir():
		return usage("-o %s is a folder", out)
	case !st.Mode().IsRegular() && st.Mode()&fs.ModeSymlink == 0:
		return usage("-o %s is no regular file", out)
	case !force:
		return usage("-o %s is there already; --force replaces it", out)
	}
	return nil
}

func (w written) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  sha256   %s\n  bytes    %d\n  tensors  %d, %s\n  params   %d\n  context  %d\n  cache    %d "+
		"bytes a token in F16",
		w.Path, w.SHA256, w.Bytes, w.Tensors, w.Model.Type, w.Params, w.Context, w.KVF16)
	if w.KVQ8 > 0 {
		fmt.Fprintf(&b, ", %d in Q8_0", w.KVQ8)
	}
	b.WriteByte('\n')
	return b.String()
}

// maxPrompt keeps a prompt, which is held in memory, from taking the machine's.
const maxPrompt = 16 << 20

func (a *app) writePrompt(c *cobra.Command, m *modelFlags, out string) error {
	if m.prompt < 1 || m.prompt > maxPrompt {
		return usage("--prompt %d: it must be from 1 to %d", m.prompt, maxPrompt)
	}
	for _, n := range append([]*modelNumber{{flag: "preset"}, {flag: "type"}}, m.numbers...) {
		if c.Flags().Changed(n.flag) {
			return usage("--prompt writes no model: --%s has no meaning", n.flag)
		}
	}
	text := []byte(gguf.Prompt(m.prompt, m.seed))
	if err := atomicfile.WriteFile(out, text, 0o644); err != nil {
		return fmt.Errorf("write prompt: %w", err)
	}
	sum := sha256.Sum256(text)
	p := prompted{Path: out, Tokens: m.prompt, Bytes: len(text), SHA256: hex.EncodeToString(sum[:]), Seed: m.seed}
	return a.print(p, func() string {
		return fmt.Sprintf("%s\n  tokens   %d, and the BOS\n  sha256   %s\n", p.Path, p.Tokens, p.SHA256)
	})
}
