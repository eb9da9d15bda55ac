//go:build real

package dryrun

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

var (
	treeDir     = flag.String("tree", "", "llama.cpp's sources, to compare over all of its architectures")
	programFile = flag.String("program", "", "a dry run that was built from them, with -headers")
	headerDir   = flag.String("headers", "", "what testdata/archs.cpp made")
)

// made builds the dry run of -tree, and the headers of all architectures.
func made(t *testing.T) (p Program, headers string) {
	t.Helper()
	source, err := filepath.Abs(*treeDir)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	tools, err := findTools()
	if err != nil {
		t.Fatal(err)
	}
	b := builder{name: *treeDir, dir: t.TempDir(), more: []string{"-DARCHS=" + ours}}
	b.source = func(context.Context) (string, error) { return source, nil }
	if p.Path, err = b.make(t.Context(), tools); err != nil {
		t.Fatal(err)
	}
	if err := b.step(t.Context(), []string{tools.ninja, "-C", filepath.Dir(p.Path), "archs"}); err != nil {
		t.Fatal(err)
	}
	headers = t.TempDir()
	var out bytes.Buffer
	err = run.Run(t.Context(), run.Cmd{
		Argv: []string{filepath.Join(filepath.Dir(p.Path), "archs"), headers}, Stdout: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &out)
	return p, headers
}

// comparedArch is what one architecture came to.
type comparedArch struct {
	answers bool // the dry run answers for a card, at each context
	real    bool // on the processor, the dry run and a real load take the same
	formula bool // the formula's weights and cache are those of the dry run
	why     string
}

// compareArch lays out a model in three contexts, and compares.
func compareArch(t *testing.T, p Program, path string) (c comparedArch) {
	h, err := gguf.ReadFile(path)
	if err != nil {
		return comparedArch{why: err.Error()}
	}
	m, err := Open(path, &h)
	if err != nil {
		return comparedArch{why: err.Error()}
	}
	defer func() { _ = m.Close() }() // a temporary folder
	c = comparedArch{answers: true, real: true, formula: true}
	for _, ctx := range []int{256, 1024, 4096, 131072} {
		o := memory.NeedOptions{Ctx: ctx, UBatch: 64, KeyType: gguf.F16, ValueType: gguf.F16, GPULayers: 0}
		if ctx <= 4096 {
			dry, err := p.ask(t.Context(), m, o, ctx, "card=0")
			really, rerr := p.ask(t.Context(), m, o, ctx, "card=0", "real=1")
			if err != nil || rerr != nil || dry != really {
				c.real = false
				c.why = fmt.Sprintf("%s; at %d: %v, %v, %+v, really %+v", c.why, ctx, err, rerr, dry, really)
			}
		}
		o.GPULayers = -1
		card, err := p.Ask(t.Context(), m, o, ctx)
		if err != nil {
			c.answers, c.formula = false, false
			c.why += "; " + err.Error()
			return c
		}
		weights, cache := memory.Plain(&h, o)
		// A buffer pads each tensor to 128 bytes.
		most := weights + 128*int64(len(h.Tensors))
		if cache != card.Card.Context || card.Card.Weights < weights || card.Card.Weights > most {
			c.formula = false
			c.why = fmt.Sprintf("%s; at %d: weights %d, by the dry run %d, cache %d, by the dry run %d", c.why, ctx, weights,
				card.Card.Weights, cache, card.Card.Context)
		}
	}
	return c
}

// TestArchs compares over every architecture of upstream's tests/test-llama-archs.cpp.
func TestArchs(t *testing.T) {
	p, headers := Program{Path: *programFile}, *headerDir
	switch {
	case *treeDir != "":
		p, headers = made(t)
	case headers == "":
		t.Skip("no -tree=DIR")
	}
	files, err := filepath.Glob(filepath.Join(headers, "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatal("no headers", err)
	}
	archs := map[string]comparedArch{}
	for _, f := range files {
		c := compareArch(t, p, f)
		h, err := gguf.ReadFile(f)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		t.Logf("%-24s %-20s answers %-5v real %-5v formula %-5v %s", strings.TrimSuffix(filepath.Base(f), ".gguf"), h.Arch,
			c.answers, c.real, c.formula, c.why)
		if was, ok := archs[h.Arch]; ok { // with experts and without
			c = comparedArch{answers: c.answers && was.answers, real: c.real && was.real, formula: c.formula && was.formula}
		}
		archs[h.Arch] = c
	}
	var answers, real, formula int
	var right []string
	for _, arch := range slices.Sorted(maps.Keys(archs)) {
		c := archs[arch]
		if c.answers {
			answers++
			if !c.real {
				t.Errorf("%s: the dry run and a real load on the processor differ", arch)
			}
			if h := (gguf.Header{Arch: arch}); memory.Compared(&h) && !c.formula {
				t.Errorf("%s: vram tells a figure by the formula, and it is wrong", arch)
			}
		}
		if c.real {
			real++
		}
		if c.formula {
			formula++
			right = append(right, arch)
		}
	}
	t.Logf("%d architectures, %d answered, %d as a real load, the formula %d: %v", len(archs), answers, real, formula, right)
}
