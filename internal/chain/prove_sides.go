package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// sideNames are the two builds of a proof.
var sideNames = [2]string{"stock", "patched"}

// side is one of them.
type side struct {
	plan build.Plan // with its source
	bin  string     // the folder of its programs
}

// oneLibrary reports whether ggml-cuda is compiled into one library with the rest of ggml, as
// ik_llama.cpp's is: the programs call it by name, and are compiled for that.
func (p Patched) oneLibrary() bool { return p.Recipe.Upstream == spec.IkLlamaCpp }

// sharedPrograms builds the target's programs, of the patched tree, for both sides.
func sharedPrograms(ctx context.Context, e Workspace, p Prepared, folder string,
) (b Built, pair [2]side, err error) {
	if b, err = Build(ctx, e, p); err != nil {
		return Built{}, pair, err // what it took is given back
	}
	staged, err := Stage(ctx, e, b, nil)
	if err != nil {
		return b, pair, err
	}
	bin, err := stage.WithoutCUDA(staged.Top(), b.file(filepath.Join(folder, "bin")))
	if err != nil {
		return b, pair, err
	}
	stock := b.file("stock")
	if _, err := b.writeStock(ctx, stock, b.inStock(e)); err != nil {
		return b, pair, err
	}
	for i, dir := range []string{stock, b.Dir} {
		pair[i] = side{b.Plan, bin}
		pair[i].plan.Source = filepath.Join(dir, "src")
	}
	pair[0].plan.Touched = nil
	return b, pair, nil
}

// ownPrograms builds llama-server once of the stock tree and once of the patched one, in one folder, so that
// the second compiles what differs.
func ownPrograms(ctx context.Context, e Workspace, p Prepared, folder string,
) (b Built, pair [2]side, err error) {
	p.Recipe = beforeDevice(p.Recipe)
	b = Built{Prepared: p}
	if p.Site.Remote != nil {
		return b, pair, &BadOption{"--on", errors.New("the proofs on the simulated device build on this machine")}
	}
	if err := checkRoom(p.Patched); err != nil {
		return b, pair, err
	}
	if b.claim, err = claim(ctx, e, p.Patched); err != nil {
		return b, pair, err
	}
	if err := os.MkdirAll(p.file("logs"), 0o755); err != nil {
		return b, pair, err
	}
	stock, err := p.unpatched(p.inStock(e))
	if err != nil {
		return b, pair, err
	}
	for i, tree := range []*source.Tree{stock, p.Result.Tree} {
		if pair[i].bin, pair[i].plan, err = b.laidPrograms(ctx, e, tree, folder+"-programs",
			filepath.Join(folder, sideNames[i])); err != nil {
			return b, pair, fmt.Errorf("programs for the simulated device, %s: %w", sideNames[i], err)
		}
		pair[i].plan.Source = filepath.Join([]string{p.file("stock"), p.Dir}[i], "src")
		if _, err := tree.CheckoutOwn(ctx, pair[i].plan.Source, p.excluded()); err != nil {
			return b, pair, err
		}
	}
	pair[1].plan.Touched = p.Result.Changed()
	return b, pair, nil
}

// laidPrograms builds the programs of a tree in a folder and lays them out in another, called as
// name, unless they lie there.
func (b Built) laidPrograms(ctx context.Context, e Workspace, tree *source.Tree, folder,
	name string,
) (bin string, plan build.Plan, err error) {
	bin = b.file(name + "-bin")
	in, err := e.inputFor(b.Prepared, tree, b.file(folder))
	if err != nil {
		return bin, plan, err
	}
	if plan, err = build.NewPlan(in); err != nil {
		return bin, plan, e.placed(err)
	}
	key, err := digest(tree.ID(), plan.Digest)
	if err != nil {
		return bin, plan, err
	}
	type laid struct {
		Entries map[string]string `json:"entries"`
	}
	_, err = Memo(bin+".json", key, func(r laid) bool {
		have, err := inventory(bin)
		return err == nil && maps.Equal(have, r.Entries)
	}, func() (r laid, err error) {
		if _, err := tree.CheckoutOwn(ctx, in.Source, b.excluded()); err != nil {
			return r, err
		}
		art, err := build.Run(ctx, plan, b.run(e, folder+".log"))
		if err != nil {
			return r, err
		}
		if _, err := stage.Lay(art, bin, b.Recipe, ""); err != nil {
			return r, err
		}
		r.Entries, err = inventory(bin)
		return r, err
	})
	return bin, plan, err
}

// beforeDevice is a recipe of ik_llama.cpp for programs that the simulated device's backend is loaded
// before: compiled as with CUDA, linked without it, and not optimized.
func beforeDevice(rec spec.Recipe) spec.Recipe {
	rec.CMake = atOnce(rec)
	maps.DeleteFunc(rec.CMake, func(name string, _ any) bool { return strings.HasPrefix(name, "GGML_CUDA") })
	for _, name := range []string{"CMAKE_C_FLAGS_RELEASE", "CMAKE_CXX_FLAGS_RELEASE"} {
		rec.CMake[name] = fmt.Sprint(rec.CMake[name], " -DGGML_USE_CUDA")
	}
	rec.CMake["CMAKE_EXE_LINKER_FLAGS_RELEASE"] = "-Wl,--unresolved-symbols=ignore-in-shared-libs"
	rec.CMake["GGML_IQK_FLASH_ATTENTION"] = false // the processor's kernels are minutes of compiling
	rec.CMakeFor, rec.Backends, rec.Verify.CUDA = nil, []string{"cpu"}, nil
	rec.Programs, rec.Bundle = []string{"llama-server"}, spec.Bundle{}
	return rec
}
