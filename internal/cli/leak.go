package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/leak"
	"github.com/llpatch/llpatch/internal/memory"
)

func (a *app) leakCmd() *cobra.Command {
	var o leak.Options
	var page, device, host string
	c := &cobra.Command{
		Use: "leak [flags] -- CMD...", Short: "Run a program and judge whether its memory grows",
		Long: `Runs any program under a memory sampler. A llama server gets a workload: prefill
(a prompt that grows to --tokens, twice) or requests. Exit code 0: memory is
flat, bounded, or what the context needs; 6: it grows; 7: it could not be told.

  llpatch leak -- llama-server -m model.gguf -c 16384 --cache-ram 0
  llpatch leak --workload requests --with valgrind -- llama-server -m model.gguf
  llpatch leak --for 1m -- ./any-program`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, argv []string) error {
			if len(argv) == 0 || c.ArgsLenAtDash() != 0 || argv[0] == "" {
				return usage("write the program after --: llpatch leak -- CMD")
			}
			for _, w := range o.With {
				if !slices.Contains(leak.Tools(), w) {
					return usage("--with %s: there are %s", w, strings.Join(leak.Tools(), ", "))
				}
			}
			if o.Every < memory.MinEvery || o.Every > memory.MaxEvery {
				return usage("--every %v: it must be %v to %v", o.Every, memory.MinEvery, memory.MaxEvery)
			}
			if o.Requests < 1 || o.Tokens < 0 || o.Tokens == 0 && c.Flags().Changed("tokens") || o.Clients < 1 || o.For <= 0 ||
				o.Ready <= 0 {
				return usage("--requests, --tokens, --clients, --for and --ready must be more than nothing")
			}
			o.Argv, o.Env, o.Log, o.Status = argv, os.Environ(), a.log, a.status
			var err error
			if o.Probe, o.Source, err = a.chooseProbe(c.Context(), device, o.Env); err != nil {
				return usage("%w", err)
			}
			if host != "" {
				if len(o.With) > 0 {
					return usage("--with runs CMD under a tool, and --ram reads a program elsewhere: one of them")
				}
				if o.Remote, o.RemoteName, err = memory.ParseRemote(host, o.Env); err != nil {
					return usage("--ram %w", err)
				}
			}
			o.Named = device != "auto" && device != "none"
			if device == "auto" && o.Probe == nil {
				o.NoCard = "there is no nvidia-smi, amd-smi or rocm-smi on the PATH, and no amdgpu card"
			}
			if page != "" {
				if err := canReplace(page); err != nil { // before hours of measuring
					return fmt.Errorf("--html: %w", err)
				}
			}
			return a.leak(c, o, page)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Workload, "workload", "auto",
		"prefill, requests, none, or a shell command that is one request (LLPATCH_URL is the server)")
	f.StringSliceVar(&o.With, "with", nil, "run it once more under: "+strings.Join(leak.Tools(), ", "))
	f.IntVar(&o.Requests, "requests", 200, "how many requests")
	f.IntVar(&o.Tokens, "tokens", 0, "tokens that a prefill grows to (default: what a slot holds, at most 8192)")
	f.IntVar(&o.Clients, "clients", 1, "requests at the same time")
	f.DurationVar(&o.For, "for", 10*time.Minute, "limit of the workload, or of a program that does not end")
	f.DurationVar(&o.Ready, "ready", 5*time.Minute, "limit until a server is ready")
	f.DurationVar(&o.Every, "every", memory.DefaultEvery, "time between two looks at memory, 20ms to 1s")
	f.StringVar(&device, "vram", "auto", "where VRAM is read: auto, nvidia-smi, amdgpu, amd-smi, rocm-smi, none, or "+
		"sim:FILE (a simulated device's state)")
	f.StringVar(&host, "ram", "", "read host memory of ssh:HOST:PROCESS, a process of a Windows machine that CMD "+
		"starts, not of CMD")
	f.StringVar(&page, "html", "", "write a page with charts to this file")
	return c
}

// chooseProbe returns what reads VRAM. Of itself that is each card of the machine,
// or those that CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES leave to the program:
// what others do on the rest is not its memory.
func (a *app) chooseProbe(ctx context.Context, name string, env []string) (memory.Probe, string, error) {
	if file, ok := strings.CutPrefix(name, "sim:"); ok && file != "" {
		return memory.Simulated(file), "simulated device", nil
	}
	switch name {
	case "auto":
		p, name := memory.Detect(env)
		if p != nil && memory.CardsHidden(env) {
			c, err := memory.ChooseCards(ctx, env, "")
			if err != nil {
				a.log.Warn("all cards of the machine are watched: which are meant is not clear", "cause", err)
				return p, name, nil
			}
			return c.Probe, c.Source, nil
		}
		return p, name, nil
	case "none":
		return nil, "", nil
	case "nvidia-smi":
		return memory.NvidiaSMI(env), name, nil
	case "amdgpu":
		return memory.AMDSysfs("/sys"), name, nil
	case "amd-smi":
		return memory.AMDSMI(env), name, nil
	case "rocm-smi":
		return memory.ROCmSMI(env), name, nil
	}
	return nil, "", fmt.Errorf("--vram %s: there are auto, nvidia-smi, amdgpu, amd-smi, rocm-smi, none and sim:FILE", name)
}

// status shows what a run that may take hours is at.
func (a *app) status(line string) {
	every := lineEvery
	if a.verbose {
		every = tellEvery
	}
	a.progress.status("leak", line, every)
}

// leak runs it, and shows what was found also where that is an error.
func (a *app) leak(c *cobra.Command, o leak.Options, page string) error {
	work, done, err := leak.Folder(filepath.Join(a.out, "leak"), o.Argv[0])
	if err != nil {
		return err
	}
	defer done()
	o.Work = work
	if a.verbose {
		o.Stdout = a.progress
	}
	res, lerr := leak.Run(c.Context(), o)
	if res == nil || len(res.Verdicts) == 0 {
		return lerr
	}
	if page != "" {
		b, err := res.HTML()
		if err == nil {
			err = atomicfile.WriteFile(page, b, 0o644)
		}
		if err != nil { // what was found is told all the same
			lerr = errors.Join(lerr, fmt.Errorf("--html: %w", err))
		}
	}
	return errors.Join(lerr, a.print(res, res.Text))
}

// canReplace reports why a file could not be written, and leaves nothing.
func canReplace(name string) error {
	st, err := os.Stat(name)
	switch {
	case err == nil && st.IsDir():
		return usage("%s is a folder", name)
	case err == nil && !st.Mode().IsRegular():
		return usage("%s is no regular file", name)
	case !isDir(filepath.Dir(name)):
		return usage("%s: there is no folder %s", name, filepath.Dir(name))
	}
	return canWrite(name)
}
