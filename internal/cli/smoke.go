package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/spec"
)

func (a *app) smokeCmd() *cobra.Command {
	var on device
	var headers, hip, clang string
	more, proofs := false, false
	c := a.chainCmd("smoke", "Build a target and run its checks, or its fixes' proofs", toPrograms, nil,
		func(ctx context.Context, j job) error {
			switch {
			case proofs:
				p, err := chain.ProveBuilt(ctx, j.Workspace, j.Prepared)
				return a.proven(p, err)
			case on.simulated():
				s := chain.Simulation{Headers: headers, Clang: clang, More: more}
				if on.name == simHIP {
					s.HIP = cmp.Or(hip, os.Getenv("HIP_HEADERS"))
				}
				return a.prove(ctx, j, s)
			}
			venue, err := on.look(ctx, j) // before what takes long
			if err != nil {
				return err
			}
			report, err := chain.Smoke(ctx, j.Workspace, j.Prepared, venue)
			if report != nil {
				err = errors.Join(a.print(report, report.Markdown), err)
			}
			return err
		})
	c.PreRunE = func(*cobra.Command, []string) error {
		simulated := on.simulated()
		switch err := on.check(); {
		case err != nil:
			return err
		case proofs && on.name != spec.Host:
			return usage("--prove is for the proofs that need no device, and --device %s is for the others; run the one, "+
				"then the other", on.name)
		case proofs && on.card != "":
			return usage("--card is for the checks on a card, and --prove needs none")
		case more && !simulated:
			return usage("--more is for the proofs: give --device sim too")
		case simulated && on.card != "":
			return usage("--card is for the checks on a card, and the proofs run on the simulated device")
		case simulated && cmp.Or(headers, os.Getenv("CUDA_HEADERS")) == "":
			return usage("--device %s needs NVIDIA's CUDA headers: name their folder with --cuda-headers; "+
				"scripts/cuda-headers DIR, of a clone of llpatch, fetches them", on.name)
		case on.name == simHIP && cmp.Or(hip, os.Getenv("HIP_HEADERS")) == "":
			return usage("--device sim-hip needs AMD's HIP headers as well: name their folder with --hip-headers; " +
				"scripts/hip-headers DIR, of a clone of llpatch, fetches them")
		case on.name != simHIP && hip != "":
			return usage("--hip-headers is for --device sim-hip")
		}
		return nil
	}
	c.Long = `Build a target and run its recipe's checks on the real programs.

With --device card the checks run on this machine's GPU, whose memory is read
through nvidia-smi or amdgpu: the GPU that --card names, else the one of
CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES for AMD), else the first.

With --prove each fix of the series whose proof needs no device has to show it:
without the fix the tree has the fault that the fix is for, with it the fault is
gone. Both are built in one folder, as far as the proof wants: what a compiler
or CMake refuses, what would be built, or a program that does not end.

With --device sim the host code of ggml-cuda is compiled from the stock tree and
from the patched one for a simulated CUDA device, and each fix of the series has
to show its proof: the stock build has the fault, the patched one does not. That
tells of memory and graphs, and nothing of values or speed. --more shows how the
pool grows under other settings too: -ub 64, three slots, half of the layers on
the processor, a mixture of experts.

With --device sim-hip the simulated device is a HIP one, a gfx1201 with 16 GiB,
and the same host code is compiled as ggml-hip does; AMD's headers are needed
beside NVIDIA's.`
	c.Example = "  llpatch smoke b8833 linux-cpu\n  llpatch smoke b9842 win7-cpu --prove\n  llpatch smoke b8390 " +
		"linux-cpu --device sim --cuda-headers DIR"
	on.flags(c, spec.Host, spec.Sim, simHIP, spec.Card)
	c.Flags().StringVar(&headers, "cuda-headers", "",
		"NVIDIA's headers for --device sim, as scripts/cuda-headers makes them (default $CUDA_HEADERS)")
	c.Flags().StringVar(&hip, "hip-headers", "",
		"AMD's headers for --device sim-hip, as scripts/hip-headers makes them (default $HIP_HEADERS)")
	c.Flags().BoolVar(&more, "more", false, "with --device sim: the proofs also under other settings")
	c.Flags().BoolVar(&proofs, "prove", false,
		"run the proofs of the fixes that need no device: each fix's tree without it has to show its fault")
	c.Flags().StringVar(&clang, "clang", "", "clang++ for --device sim (default: the newest on the PATH)")
	return c
}

// simHIP is the simulated device under HIP, as --device has it.
const simHIP = "sim-hip"

// device is what --device and --card say: where the checks run.
type device struct {
	name, card string
	known      []string
}

// flags gives a command both flags; known is what --device may be, the first of them unless said.
func (d *device) flags(c *cobra.Command, known ...string) {
	d.known = known
	where := "where the checks run: host or card"
	if slices.Contains(known, spec.Sim) {
		where = "where the checks run: host, card, or sim and sim-hip for the proofs on the simulated device"
	}
	c.Flags().StringVar(&d.name, "device", known[0], where)
	c.Flags().StringVar(&d.card, "card", "",
		"the cards for checks on one: numbers as nvidia-smi (for AMD: HIP) counts them, or ids, with commas between them")
	// it has none yet
	_ = c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

func (d *device) check() error {
	if slices.Contains(d.known, d.name) {
		return nil
	}
	last := len(d.known) - 1
	return usage("--device %s is not known; there are %s and %s", d.name, strings.Join(d.known[:last], ", "),
		d.known[last])
}

func (d *device) simulated() bool { return d.name == spec.Sim || d.name == simHIP }

// look finds what the checks need there.
func (d *device) look(ctx context.Context, j job) (chain.Venue, error) {
	on := chain.Device{Pick: d.card, Environ: os.Environ()}
	if d.name == spec.Card {
		on.Name = d.name
	}
	return on.Look(ctx, j.Workspace, j.Order, j.Site.Toolchain)
}

// prove runs the proofs on the simulated device.
func (a *app) prove(ctx context.Context, j job, s chain.Simulation) error {
	s.Headers = cmp.Or(s.Headers, os.Getenv("CUDA_HEADERS"))
	var err error
	for _, dir := range []*string{&s.Headers, &s.HIP} {
		if *dir == "" {
			continue
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	if err := chain.CanProve(ctx, j.Workspace, j.Prepared, s); err != nil { // before what takes long
		return err
	}
	p, err := chain.Prove(ctx, j.Workspace, j.Prepared, s)
	return a.proven(p, err)
}

// proven prints one line for each proof.
func (a *app) proven(p *chain.Proofs, err error) error {
	if p != nil {
		err = errors.Join(a.print(p, p.Text), err)
	}
	return err
}
