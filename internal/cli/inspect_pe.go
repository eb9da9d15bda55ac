package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// windows writes the lines about a Windows program or library.
func (i inspected) windows(line func(what, format string, args ...any)) {
	p := i.PE
	line("windows", "%s, %d bits, subsystem %s %s", p.Kind, p.Bits, p.Subsystem, p.SubsystemVersion)
	line("flags", "%s", strings.Join(p.Characteristics, " "))
	for _, d := range p.Imports {
		what := ""
		if d.Delayed {
			what = ", delay-loaded"
		}
		line("imports", "%d functions of %s%s", len(d.Functions), d.DLL, what)
	}
	if len(p.Bound) > 0 {
		line("bound", "to the addresses of %s", strings.Join(p.Bound, " "))
	}
	for _, f := range p.Forwards {
		line("forwards", "%s to %s", f.Name, f.To)
	}
	if p.Managed {
		line("holds", ".NET code, whose needs llpatch does not read")
	}
	switch c := i.CUDA; {
	case c != nil && (c.Fatbins > 0 || len(c.Faults) > 0):
		i.cuda(line)
	case c != nil:
		line("cuda", "runtime %s, no device code", c.Runtime)
	default:
		i.where(line)
	}
	switch s := i.Signature; {
	case s == nil:
		line("signed", "no")
	case s.Fault != "":
		line("signed", "wrongly: %s", s.Fault)
	default:
		line("signed", "by %s, issued by %s, until %s; whether to trust that is not looked at", s.Signer, s.Issuer,
			s.Until.UTC().Format(time.DateOnly))
	}
	line("lacks", "--os %s tells what, on Windows 7", spec.Win7)
}

// inspectFor says what Windows files lack on a system.
func (a *app) inspectFor(ctx context.Context, system string, paths []string) error {
	if !slices.Contains([]string{spec.Win7, spec.Win7VxKex}, system) {
		return usage("--os %s: it is %s or %s", system, spec.Win7, spec.Win7VxKex)
	}
	files, err := binary.GatherPE(ctx, paths)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		err = usage("%w", err) // a file is not there, or not what can be inspected
	}
	if len(files) == 0 {
		return err
	}
	w := binary.JudgeWindows7(files, system)
	if perr := a.print(w, func() string { return windowsText(w) }); perr != nil {
		return perr
	}
	if err == nil && w.Faulty() {
		return &binary.Lacking{Windows7: w}
	}
	return err
}

// windowsText writes a line a file, what is missing, and where every DLL comes from.
func windowsText(w *binary.Windows7) string {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(patch.Printable(fmt.Sprintf(format, args...)) + "\n") }
	for _, f := range w.Files {
		line("%s", f.File)
		for _, s := range slices.Sorted(maps.Keys(f.Standings)) {
			line("  %-8s %d functions", s, f.Standings[s])
		}
		for _, fault := range f.Faults {
			line("  fault    %s", fault)
		}
		for _, i := range f.Imports {
			switch i.Standing {
			case binary.ByVxKex, binary.ByUpdate, binary.Unknown:
				// Of the C runtime the update is the news, not each of its functions.
				if i.Standing == binary.ByUpdate && i.Why != "" {
					continue
				}
				line("    %-8s %s", i.Standing,
					strings.TrimRight(fmt.Sprintf("%s!%s %s %s", i.DLL, i.Function, i.By, i.Why), " "))
			}
		}
	}
	rows := [][]string{{"DLL", "FROM", "", "NEEDED BY"}}
	for _, d := range w.DLLs {
		rows = append(rows, []string{d.DLL, string(d.Standing), strings.TrimSpace(d.By + " " + d.Why), some(d.NeededBy)})
	}
	b.WriteString("\n" + table(rows...))
	for _, same := range w.Copies {
		line("copies: %s; the loader takes the one beside the program", strings.Join(same, ", "))
	}
	for _, i := range w.Missing {
		line("missing: %s: %s", some(i.NeededBy), w.Fault(i))
	}
	if len(w.Updates) > 0 {
		line("updates: %s", strings.Join(w.Updates, " "))
	}
	if !w.Faulty() {
		line("nothing is missing on %s", w.OS)
	}
	return b.String()
}

// some names three of a list.
func some(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
