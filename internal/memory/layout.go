package memory

import (
	"fmt"
	"math"

	"github.com/llpatch/llpatch/internal/gguf"
)

// DryRun is the trust of a part that a tag's own llama.cpp laid out, without its weights and
// without a card.
const DryRun Trust = "dry run"

// Place is what a model takes at one place, in bytes.
type Place struct {
	Weights int64 `json:"weights"`
	Context int64 `json:"context"` // the cache, and the state of recurrent layers
	Compute int64 `json:"compute"`
}

// Layout is how a tag's llama.cpp lays a model out.
type Layout struct {
	Cells int // n_ctx: the context over all slots, as llama.cpp rounds it
	Card  Place
	Host  Place
	// what the attention of a prompt takes from the pool beside the buffers, in the largest
	// layer: f16 copies of K and of V, in bytes for so many cells
	ScratchK, ScratchV, ScratchCells int64
}

// Lay computes what a model needs from what lay, which lays it out with a context of so many
// tokens, says. The pool's scratch and the driver are added as Forecast does.
func Lay(h *gguf.Header, o NeedOptions, lay func(ctx int) (Layout, error)) (Need, error) {
	o, err := o.filled()
	if err != nil {
		return Need{}, err
	}
	if len(h.Tensors) == 0 {
		// llama.cpp makes tensors of its own for a vocabulary alone, and they are not the model's.
		with := lay
		lay = func(ctx int) (Layout, error) {
			l, err := with(ctx)
			l.Card.Weights, l.Host.Weights = 0, 0
			return l, err
		}
	}
	is, err := lay(o.Ctx)
	if err != nil {
		return Need{}, err
	}
	n := laid(o, is)
	// Half of the context tells what comes with a token.
	if half := o.Ctx / 2; half >= 256*max(o.Parallel, 1) {
		less, err := lay(half)
		if err != nil {
			return Need{}, err
		}
		if cells := float64(is.Cells - less.Cells); cells > 0 {
			before := laid(o, less)
			for i, p := range n.Parts {
				for _, q := range before.Parts {
					if p.Name == q.Name {
						n.Parts[i].PerToken = max(0, float64(p.Bytes-q.Bytes)/cells)
						n.PerToken += n.Parts[i].PerToken
					}
				}
			}
		}
	}
	if o.Card > 0 {
		fits := n.Total <= o.Card
		n.Fits = &fits
		if n.Largest, err = largestLaid(o, is, lay); err != nil {
			return Need{}, err
		}
		n.RunsOut = runsOutLaid(o, is, n)
	}
	n.Notes = append(n.Notes, notes(h, o)...)
	return n, nil
}

// laid are the parts of a layout.
func laid(o NeedOptions, is Layout) Need {
	var n Need
	add := func(p Part) {
		if p.Bytes > 0 {
			n.Parts = append(n.Parts, p)
			n.Total = plus(n.Total, p.Bytes)
			if p.When == "start" {
				n.AtStart = plus(n.AtStart, p.Bytes)
			}
		}
	}
	add(Part{
		Name: "weights", Bytes: is.Card.Weights, When: "start", Trust: DryRun,
		Why: "the tensors that llama.cpp puts on the card",
	})
	add(Part{
		Name: "KV cache", Bytes: is.Card.Context, When: "start", Trust: DryRun,
		Why: fmt.Sprintf("K %s, V %s, and the state of recurrent layers", o.KeyType, o.ValueType),
	})
	add(Part{
		Name: "attention scratch", Bytes: laidScratch(o, is, is.Cells), When: "prefill", Trust: Formula,
		Why: "what the pool holds for the attention of a prompt, beside the buffers",
	})
	add(Part{
		Name: "compute buffer", Bytes: is.Card.Compute, When: "start", Trust: DryRun,
		Why: "the scheduler's buffer for one ubatch",
	})
	add(driver())
	for _, p := range []Part{
		{Name: "weights", Bytes: is.Host.Weights},
		{Name: "KV cache", Bytes: is.Host.Context},
		{Name: "compute buffer", Bytes: is.Host.Compute},
	} {
		if p.Bytes > 0 {
			p.When, p.Trust, p.Why = "start", DryRun, "in the host's memory"
			n.Host = append(n.Host, p)
		}
	}
	return n
}

// laidScratch is what the pool holds after a prompt of so many tokens.
func laidScratch(o NeedOptions, is Layout, tokens int) int64 {
	if is.ScratchCells < 1 {
		return 0
	}
	k, v := is.ScratchK/is.ScratchCells, is.ScratchV/is.ScratchCells
	tokens = min(tokens, int(min(is.ScratchCells, math.MaxInt32)))
	if o.Legacy {
		return legacyWaste(tokens, o.UBatch, k, v)
	}
	return times(k+v, pad256(int64(tokens)))
}

// largestLaid is the largest context, in steps of 256, that fits the card.
func largestLaid(o NeedOptions, is Layout, lay func(int) (Layout, error)) (int, error) {
	lo, hi := 0, MaxCtx/256/4
	if n := laid(o, is); n.Total <= o.Card {
		lo = o.Ctx / 256
	} else {
		hi = (o.Ctx - 1) / 256
	}
	for lo < hi {
		mid := (lo + hi + 1) / 2
		at, err := lay(mid * 256)
		if err != nil {
			return 0, err
		}
		if laid(o, at).Total <= o.Card {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo * 256, nil
}

// runsOutLaid is runsOut for a layout.
func runsOutLaid(o NeedOptions, is Layout, whole Need) int {
	if whole.AtStart > o.Card || whole.Total <= o.Card {
		return 0
	}
	lo, hi := 0, o.Ctx
	for lo < hi {
		mid := (lo + hi) / 2
		if plus(whole.AtStart, laidScratch(o, is, max(1, mid))) > o.Card {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
