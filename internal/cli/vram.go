package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/dryrun"
	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/spec"
)

func (a *app) vramCmd() *cobra.Command {
	var o memory.NeedOptions
	var kv, value, flash, tagName, build string
	var card cardSize
	c := &cobra.Command{
		Use: "vram MODEL", Short: "Forecast the device memory that a model needs",
		Long: `Says what a model needs of one GPU at a context, part by part, and how far to
trust each part. With --tag that tag's own llama.cpp lays it out, whatever its
architecture, without weights and without a card; without, a formula serves the
architectures that it is known to be right for.

  llpatch vram model.gguf --ctx 32768 --tag b8833 --json
  llpatch vram model.gguf --ctx 32768 --kv-type q8_0 --no-vmm --card 12288`,
		Args: args("MODEL"),
		RunE: func(c *cobra.Command, argv []string) error {
			var err error
			if o.KeyType, err = memory.ParseCacheType(kv); err != nil {
				return usage("--kv-type: %w", err)
			}
			o.ValueType = o.KeyType
			if value != "" {
				if o.ValueType, err = memory.ParseCacheType(value); err != nil {
					return usage("--kv-type-v: %w", err)
				}
			}
			switch flash {
			case "on":
				o.Flash = true
			case "auto":
			case "off":
				o.NoFlash = true
			default:
				return usage("--flash-attn %s: it is on, off or auto", flash)
			}
			for _, n := range []struct {
				flag            string
				is, least, most int64
			}{
				{"ctx", int64(o.Ctx), 1, memory.MaxCtx},
				{"ub", int64(o.UBatch), 1, memory.MaxCtx},
				{"parallel", int64(o.Parallel), 1, memory.MaxSlots},
				{"ngl", int64(o.GPULayers), -1, math.MaxInt32},
			} {
				if c.Flags().Changed(n.flag) && (n.is < n.least || n.is > n.most) {
					return usage("--%s %d: it must be from %d to %d", n.flag, n.is, n.least, n.most)
				}
			}
			o.Card = int64(card)
			h, err := gguf.ReadFile(argv[0])
			if err != nil {
				return usage("%w", err)
			}
			o.Ctx = cmp.Or(o.Ctx, h.Context)
			dry := tagName != "" || build != ""
			if o.Ctx == 0 && memory.Companion(&h) == "" && (dry || memory.Compared(&h)) {
				return usage("%s does not say for how many tokens it was trained: give --ctx", argv[0])
			}
			if dry && memory.Companion(&h) == "" {
				n, err := a.dryRun(c.Context(), tagName, build, argv[0], &h, o)
				if err != nil {
					return err
				}
				return a.print(n, func() string { return vramText(&h, o, n) })
			}
			n, err := memory.Forecast(&h, o)
			if _, ok := errors.AsType[*memory.Unproven](err); ok {
				return fmt.Errorf("%s: %w", argv[0], err)
			}
			if err != nil {
				return usage("%s: %w", argv[0], err)
			}
			return a.print(n, func() string { return vramText(&h, o, n) })
		},
	}
	f := c.Flags()
	f.StringVar(&tagName, "tag", "", "let this `TAG`'s llama.cpp lay the model out; its libllama is compiled the first time")
	f.StringVar(&build, "build", "", "let the llama.cpp that was built in this `DIR` lay it out")
	a.exactSourceFlags(c)
	exclusive(c, "tag ik", "build ik", "tag build", "build source", "build locked", "build offline")
	f.IntVarP(&o.Ctx, "ctx", "c", 0, "context in tokens, over all slots (default: what the model was trained for)")
	f.StringVar(&kv, "kv-type", "f16", "type of the KV cache, as of -ctk and -ctv")
	f.StringVar(&value, "kv-type-v", "", "type of V, where it is another")
	f.IntVar(&o.UBatch, "ub", 512, "tokens of a ubatch")
	f.IntVar(&o.GPULayers, "ngl", -1, "layers on the card; -1: all")
	f.IntVar(&o.Parallel, "parallel", 1, "slots")
	f.StringVar(&flash, "flash-attn", "auto", "on, off or auto (taken as on)")
	f.BoolVar(&o.Legacy, "no-vmm", false, "a build with GGML_CUDA_NO_VMM, or a system such as Windows 7: the legacy pool")
	f.BoolVar(&o.IK, "ik", false, "ik_llama.cpp with -mla 3 -fa")
	f.Var(&card, "card", "the card's free memory, in MiB or as 24G: tells what fits")
	return c
}

// dryRun asks the llama.cpp of a tag or of a build what a model needs.
func (a *app) dryRun(
	ctx context.Context, tagName, build, model string, h *gguf.Header, o memory.NeedOptions,
) (n memory.Need, err error) {
	a.interrupted = goesOn
	p, err := a.dryRunProgram(ctx, tagName, build)
	if err != nil {
		return n, err
	}
	m, err := dryrun.Open(model, h)
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return memory.Lay(h, o, func(tokens int) (memory.Layout, error) { return p.Ask(ctx, m, o, tokens) })
}

func (a *app) dryRunProgram(ctx context.Context, tagName, build string) (p dryrun.Program, err error) {
	if build != "" {
		cache, err := cacheDir()
		if err != nil {
			return p, err
		}
		return dryrun.BuildWith(ctx, dryrun.Options{Cache: cache, Logger: a.log, Progress: a.progress.update}, build)
	}
	t, e, err := a.begin(tagName)
	if err != nil {
		return p, err
	}
	tree, err := e.Fetch(ctx, spec.LlamaCpp, t)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	o := dryrun.Options{Cache: e.Cache, Logger: a.log, Progress: e.Progress}
	return dryrun.Build(ctx, o, t.String(), tree)
}

// cardSize is a flag: a card's memory in bytes.
type cardSize int64

func (c *cardSize) String() string { return strconv.FormatInt(int64(*c)>>20, 10) }

// Type is what help shows as the flag's value.
func (c *cardSize) Type() string { return "SIZE" }

// maxCard is more than a card has, and far from what would overflow.
const maxCard = 1 << 50

// Set reads MiB, or a number with M, MiB, G or GiB behind it.
func (c *cardSize) Set(text string) error {
	number, unit := text, ""
	if i := strings.IndexFunc(text, unicode.IsLetter); i >= 0 {
		number, unit = text[:i], text[i:]
	}
	scale := map[string]float64{
		"": 1 << 20, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30,
		"gib": 1 << 30,
	}[strings.ToLower(unit)]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || scale == 0 || !(n*scale >= 1<<20 && n*scale <= maxCard) {
		return errors.New("write the card's memory in MiB, as 24576, or in GiB, as 24G; 1 MiB is the least")
	}
	*c = cardSize(n * scale)
	return nil
}

func vramText(h *gguf.Header, o memory.NeedOptions, n memory.Need) string {
	var b strings.Builder
	if memory.Companion(h) == "" {
		fmt.Fprintf(&b, "%s %s, %d layers, %d tokens of context\n", h.Arch, h.Name, h.Layers, o.Ctx)
	}
	rows := [][]string{{"PART", "MIB", "PER TOKEN", "TAKEN", "TRUST", "WHY"}}
	per := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f B", v)
	}
	for _, p := range n.Parts {
		rows = append(rows, []string{p.Name, mibText(p.Bytes), per(p.PerToken), p.When, string(p.Trust), p.Why})
	}
	for _, p := range n.Host {
		rows = append(rows, []string{"host: " + p.Name, mibText(p.Bytes), per(p.PerToken), p.When, string(p.Trust), p.Why})
	}
	rows = append(rows, []string{"total", mibText(n.Total), per(n.PerToken), mibText(n.AtStart) + " at start", "", ""})
	b.WriteString(table(rows...))
	if n.Fits != nil {
		fits := "it fits"
		switch {
		case *n.Fits:
		case n.RunsOut > 0:
			fits = fmt.Sprintf("it starts, and runs out at about token %d of a prompt", n.RunsOut)
		default:
			fits = "it does not start"
		}
		fmt.Fprintf(&b, "card of %d MiB: %s; the largest context that fits is %d tokens\n", o.Card>>20, fits, n.Largest)
	}
	for _, note := range n.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

func mibText(b int64) string { return fmt.Sprintf("%.1f", float64(b)/(1<<20)) }
