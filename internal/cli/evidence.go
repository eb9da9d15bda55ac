package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/evidence"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/spec"
)

func (a *app) evidenceCmd() *cobra.Command {
	c := &cobra.Command{Use: "evidence", Short: "Run builds side by side, and show what came out"}
	c.AddCommand(a.evidenceRunCmd(), a.evidenceShowCmd())
	return c
}

func (a *app) evidenceRunCmd() *cobra.Command {
	var o evidence.Options
	var device string
	var vars, only []string
	c := &cobra.Command{
		Use: "run PLAN.toml -o FILE.json", Short: "Run what a plan says with each build and record it",
		Long: `Runs what a plan says with each of its builds, in pairs of alternating order and
under the memory sampler, and writes every run to FILE.json as it ends: what was
started, how it ended, its memory, speed and tokens, the raw samples, and the
hashes of the binaries. A table is printed at the end. Exit code 0: every aim of
the plan was reached; 6: one was missed; 7: something could not be run or told.`,
		Example: "  llpatch evidence run pool.toml -o pool.json --var BUILDS=/opt --var MODELS=.",
		Args:    args("PLAN.toml"),
		RunE: func(c *cobra.Command, argv []string) error {
			if o.Out == "" {
				return usage("-o FILE.json is missing: the file for the record")
			}
			if _, err := os.Lstat(o.Out); err == nil {
				return usage("%s is there already, and no record is overwritten: name another file", o.Out)
			}
			if o.Every < memory.MinEvery || o.Every > memory.MaxEvery {
				return usage("--every %v: it must be %v to %v", o.Every, memory.MinEvery, memory.MaxEvery)
			}
			o.Vars = map[string]string{}
			for _, v := range vars {
				key, value, ok := strings.Cut(v, "=")
				if !ok || key == "" {
					return usage("--var %s: write it as KEY=VALUE", v)
				}
				o.Vars[key] = value
			}
			o.Env, o.Log, o.Progress, o.Version = os.Environ(), a.log, a.progress.update, version()
			o.Command = append([]string{"llpatch"}, os.Args[1:]...)
			var err error
			if o.State, _ = strings.CutPrefix(device, "sim:"); o.State == device {
				o.State = ""
				if o.Probe, o.Source, err = a.chooseProbe(c.Context(), device, o.Env); err != nil {
					return usage("%w", err)
				}
			}
			o.Named = device != "auto" && device != "none"
			if o.Plan, err = evidence.ReadPlan(argv[0], o.Vars); err != nil {
				if _, ok := errors.AsType[*spec.Error](err); ok {
					return err
				}
				return usage("%w", err) // it could not be read at all
			}
			if err := o.Plan.Only(only); err != nil {
				return usage("%w", err)
			}
			return a.evidence(c, o, argv[0])
		},
	}
	f := c.Flags()
	f.StringVarP(&o.Out, "output", "o", "", "file for the record")
	f.StringArrayVar(&vars, "var", nil, "KEY=VALUE: what {KEY} in the plan stands for")
	f.StringSliceVar(&only, "only", nil, "names of the runs to do; the others are left out")
	f.DurationVar(&o.Every, "every", memory.MinEvery, "time between two looks at memory, 20ms to 1s")
	f.StringVar(&device, "vram", "auto", "where VRAM is read: auto, nvidia-smi, amdgpu, amd-smi, rocm-smi, none, or "+
		"sim:FILE (a simulated device's state)")
	return c
}

func (a *app) evidenceShowCmd() *cobra.Command {
	var chart, name, figure string
	c := &cobra.Command{
		Use: "show FILE.json", Short: "Print a record's table or a figure, or draw a run's memory", Args: args("FILE.json"),
		RunE: func(_ *cobra.Command, argv []string) error {
			if name != "" && chart == "" {
				return usage("--run names what --chart FILE.svg draws, and there is no --chart")
			}
			if figure != "" {
				s, err := evidence.ReadSource(argv[0])
				if err != nil {
					return usage("%s: %w", argv[0], err)
				}
				f, err := s.Figure(figure)
				if err != nil {
					return usage("%s: %w", argv[0], err)
				}
				return a.print(f, func() string { return f.String() + "\n" })
			}
			res, err := evidence.ReadRecord(argv[0])
			if err != nil {
				return usage("%w", err)
			}
			if chart != "" {
				if filepath.Ext(chart) != ".svg" {
					return usage("--chart %s: it writes an SVG file; call it NAME.svg", chart)
				}
				svg, err := res.Chart(name)
				if err != nil {
					return usage("%s: %w", argv[0], err)
				}
				if err := atomicfile.WriteFile(chart, []byte(svg), 0o644); err != nil {
					return err
				}
			}
			return a.print(res, res.Markdown)
		},
	}
	exclusive(c, "figure chart")
	c.Flags().StringVar(&chart, "chart", "", "draw one run's memory, all builds on one chart, into this `FILE.svg`")
	c.Flags().StringVar(&figure, "figure", "",
		"print one figure as a page may write it: `KEY` is RUN/BUILD/MEASURE, such as speed/ours/pp-ratio")
	c.Flags().StringVar(&name, "run", "", "`NAME` of the run to draw (default: the record's first)")
	return c
}

// evidence runs a plan, and shows what came out also where that is an error.
func (a *app) evidence(c *cobra.Command, o evidence.Options, plan string) error {
	name := strings.TrimSuffix(filepath.Base(plan), filepath.Ext(plan))
	parent := filepath.Join(a.out, "evidence")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(parent, name+"-"+time.Now().Format("20060102-150405-"))
	if err != nil {
		return err
	}
	if o.Work, err = filepath.Abs(work); err != nil {
		return err
	}
	a.interrupted = fmt.Sprintf("%s has the runs that ended; --only NAME, with another file, does the rest", o.Out)
	res, rerr := evidence.Record(c.Context(), o)
	if res == nil {
		_ = os.Remove(work) // goes only where it has no log
		return rerr
	}
	return errors.Join(a.print(res, res.Markdown), rerr)
}
