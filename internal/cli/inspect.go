package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

func (a *app) targetsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "targets", Short: "List what can be built", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			repo, _, err := a.declarations()
			if err != nil {
				return err
			}
			list := []spec.Recipe{}
			rows := [][]string{{"TARGET", "UPSTREAM", "BUILDS", "WHAT"}}
			for _, name := range slices.Sorted(maps.Keys(repo.Recipes)) {
				r := repo.Recipes[name]
				list = append(list, r)
				rows = append(rows, []string{r.Name, r.Upstream, r.Range.String(), r.Summary})
			}
			return a.print(list, func() string { return table(rows...) })
		},
	}
}

// inspected is a file and what llpatch makes of it.
type inspected struct {
	*binary.File
	Exported []string        `json:"exported,omitempty"`
	Verdict  *binary.Verdict `json:"verdict,omitempty"`
	GPUs     []binary.GPU    `json:"gpus,omitempty"` // AMD processors that run it
	// ggml's backends for other devices than the processor that it loads or needs, by name
	Backends []string `json:"backends_beside,omitempty"`
	// those that lie there and are not loaded
	Idle     []binary.Backend `json:"backends_idle,omitempty"`
	found    []binary.Backend // what Backends names
	backend  bool             // it is one itself
	RunsOn   []string         `json:"runs_on,omitempty"`  // in words, a line each
	Security *spec.Known      `json:"security,omitempty"` // defects of the build that it says it is
	unsure   bool             // it is llama.cpp's, and does not say which build

	Signature *binary.Signature `json:"signature,omitempty"` // of a Windows file
}

func (a *app) inspectCmd() *cobra.Command {
	var exports, compare bool
	var system string
	c := &cobra.Command{
		Use: "inspect FILE...", Short: "Show what a binary holds and needs, and where it runs",
		Example: "  llpatch inspect libggml-cuda.so\n  llpatch inspect --compare one/b8833/linux-cpu/stage " +
			"two/b8833/linux-cpu/stage",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, files []string) error {
			if compare {
				if err := args("A", "B")(c, files); err != nil {
					return err
				}
				return a.compare(c.Context(), files[0], files[1])
			}
			if len(files) == 0 {
				return args("FILE")(c, files)
			}
			if system != "" {
				return a.inspectFor(c.Context(), system, files)
			}
			var list []inspected
			var fault error
			for _, name := range files {
				i, err := inspectFile(c.Context(), name, exports)
				if err == nil {
					err = a.known(c.Context(), &i, name)
				}
				if err != nil {
					fault = err
					break
				}
				list = append(list, i)
			}
			if len(list) == 0 {
				return fault
			}
			// What is known of the files before it is told all the same.
			return errors.Join(fault, a.print(list, func() string {
				var b strings.Builder
				for _, i := range list {
					i.text(&b)
				}
				return b.String()
			}))
		},
	}
	exclusive(c, "compare os", "compare exports")
	c.Flags().BoolVar(&exports, "exports", false, "name every symbol that others can use")
	c.Flags().BoolVar(&compare, "compare", false,
		"say in which sections two files, or the files of two folders, differ, and why; 5 where they do")
	c.Flags().StringVar(&system, "os", "", "say what Windows programs and libraries, or folders of them, lack on this "+
		"system: win7 or win7-vxkex")
	return c
}

func inspectFile(ctx context.Context, name string, exports bool) (inspected, error) {
	f, err := binary.InspectContext(ctx, name)
	if errors.Is(err, fs.ErrPermission) || ctx.Err() != nil {
		return inspected{}, err
	}
	if err != nil { // it is not there, or not what can be inspected
		return inspected{}, &usageError{err, bundleHelp(name)}
	}
	i := inspected{File: f, Verdict: binary.Judge(f), GPUs: binary.GPUs(f)}
	if exports {
		i.Exported = binary.Names(f.Exports())
	}
	if err := i.backends(ctx, name); err != nil {
		return inspected{}, err
	}
	i.RunsOn = i.runsOn()
	if i.PE != nil && i.PE.Signed {
		if i.Signature, err = binary.ReadSignature(ctx, name); err != nil {
			if ctx.Err() != nil {
				return inspected{}, err
			}
			i.Signature = &binary.Signature{Fault: "cannot be read: " + err.Error()}
		}
	}
	return i, nil
}

// backends notes ggml's backends for other devices that the file finds, and those that lie where it
// looks and are not loaded. What a backend itself has beside it is none of its own.
func (i *inspected) backends(ctx context.Context, name string) error {
	if _, i.backend = binary.BackendOf(name, i.File); i.backend {
		return nil
	}
	list, err := binary.Backends(ctx, binary.BackendFolders(filepath.Dir(name))...)
	if err != nil {
		return err
	}
	needed, err := needs(ctx, i.File, filepath.Dir(name))
	if err != nil {
		return err
	}
	for _, b := range list {
		file := filepath.Base(b.File)
		switch {
		case file == i.Name || !b.Device():
		case b.Why != "" && !needed[file]:
			i.Idle = append(i.Idle, b)
		case !slices.Contains(i.Backends, file):
			i.found = append(i.found, b)
			i.Backends = append(i.Backends, file)
		}
	}
	return nil
}

// needs are the names of what a file needs of its folder, and what that needs.
func needs(ctx context.Context, f *binary.File, dir string) (map[string]bool, error) {
	names := map[string]bool{}
	queue := slices.Clone(f.Needed)
	for k := 0; k < len(queue); k++ {
		if names[queue[k]] || filepath.Base(queue[k]) != queue[k] {
			continue
		}
		g, err := binary.InspectContext(ctx, filepath.Join(dir, queue[k]))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			names[queue[k]] = true
			queue = append(queue, g.Needed...)
		}
	}
	return names, nil
}

// inspectDefects is how many open defects inspect lists of a file; --json has all of them.
const inspectDefects = 8

// known judges the build that a program or library says it is, itself or by a library beside it
// that it loads, with the fixes that a BUILD_INFO.json beside it names.
func (a *app) known(ctx context.Context, i *inspected, name string) error {
	llama, dir := i.Llama, filepath.Dir(name)
	libs := slices.Clone(i.Needed)
	if llama != nil { // libllama itself: the library with the number needs it, and not the other way round
		libs = append(libs, "libllama-common.so", "libllama-common.so.0")
	}
	for _, lib := range libs {
		file, sure := filepath.Join(dir, filepath.Base(lib)), llama != nil && llama.Build != 0
		if sure || !strings.HasPrefix(lib, "libllama") {
			continue
		}
		if f, err := binary.InspectContext(ctx, file); err == nil {
			llama = cmp.Or(f.Llama, llama)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if llama == nil {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(dir, bundle.InfoFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	repo, _, err := a.declarations()
	if err != nil {
		return err
	}
	id, ok := bundle.Identify(data, llama)
	if i.unsure = !ok; ok {
		i.Security = id.Known(repo.Advisories)
	}
	return nil
}

// bundleHelp is the hint for what inspect does not take by itself: of programs for
// Windows a folder with --os, else a folder or an archive by doctor.
func bundleHelp(name string) string {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return missing(name)
	}
	_, part := bundle.PartOf(name)
	entries, err := os.ReadDir(name)
	if err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.EqualFold(filepath.Ext(e.Name()), ".exe") || strings.EqualFold(filepath.Ext(e.Name()), ".dll")
	}) {
		return "see llpatch inspect --os win7 " + name + ", which looks into a folder for Windows"
	}
	if isDir(name) || part || strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz") {
		return "see llpatch doctor " + name + ", which looks into a bundle"
	}
	return ""
}

// text writes what a person wants to see of a file, a line a fact. Names in it are whose the file is.
func (i inspected) text(b *strings.Builder) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(b, "  %-8s %s\n", what, patch.Printable(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintln(b, patch.Printable(i.Name))
	line("machine", "%s", i.Machine)
	for _, f := range []struct{ what, value string }{
		{"needs", strings.Join(i.Needed, " ")},
		{"runpath", strings.Join(i.RunPath, ":")},
		{"build id", i.BuildID},
	} {
		if f.value != "" && i.PE == nil {
			line(f.what, "%s", f.value)
		}
	}
	for _, family := range slices.Sorted(maps.Keys(i.Versions)) {
		by := ""
		if names := i.VersionsBy[family]; len(names) > 0 {
			by = " for " + strings.Join(names, " ")
		}
		line("at least", "%s %s%s", family, i.Versions[family], by)
	}
	if i.Interp != "" {
		line("loader", "%s", i.Interp)
	}
	if i.Security != nil {
		for _, l := range i.Security.Lines(inspectDefects) {
			line("", "%s", l)
		}
	} else if i.unsure {
		line("", "Security: not known: it does not say which build of llama.cpp it is.")
	}
	line("exports", "%d symbols", i.ExportCount)
	for _, name := range i.Exported {
		line("", "%s", name)
	}
	if i.Host != "" {
		line("is for", "%s, which loads it and gives it its own functions", hosts[i.Host])
	}
	switch m, w := i.MachO, i.Wasm; {
	case m != nil:
		since := ""
		if m.Since != "" {
			since = " " + m.Since + " or later"
		}
		line("is for", "%s%s on %s: a %s", m.System, since, strings.Join(m.Archs, " and "), m.Kind)
	case w != nil:
		line("is for", "%s: a %s with addresses of %d bits", w.For, w.Kind, w.Bits)
	}
	for _, b := range i.Idle {
		line("unused", "%s: %s", filepath.Base(b.File), b.Why)
	}
	if i.PE != nil {
		i.windows(line)
		return
	}
	i.hip(line)
	i.cuda(line)
}

// hosts are the programs that File.Host means.
var hosts = map[string]string{"node": "Node", "python": "Python"}

// cuda writes the lines about NVIDIA device code.
func (i inspected) cuda(line func(what, format string, args ...any)) {
	c := i.CUDA
	if c != nil {
		runtime := cmp.Or(c.Runtime, "unknown")
		switch {
		case c.Static:
			runtime += ", linked in"
		case c.Runtime == "" && i.PE == nil: // a DLL's linked-in runtime may leave no trace
			runtime = "none"
		}
		line("cuda", "%d fatbins, runtime %s, device code by CUDA %s", c.Fatbins, runtime,
			cmp.Or(strings.Join(c.Toolkits, " and "), "unknown"))
		for _, code := range c.Code {
			line("", "%-12s %d x %s, %s, %d KiB", code.Arch, code.Entries, strings.TrimSpace(code.Kind+" "+code.ISA),
				strings.Join(code.Compression, " and "), (code.Bytes+1023)>>10)
		}
		if c.Unlinked {
			line("", "an object file: it is to be linked")
		}
		for _, fault := range c.Faults {
			line("fault", "%s", fault)
		}
	}
	i.where(line)
	if i.Verdict == nil {
		return
	}
	for _, d := range []struct {
		what   string
		driver *binary.Driver
	}{{"driver", i.Verdict.Driver}, {"PTX", i.Verdict.JIT}} {
		if d.driver == nil {
			continue
		}
		line(d.what, "%s: %s", d.driver, d.driver.Why)
	}
	for _, note := range i.Verdict.Notes {
		line("note", "%s", note)
	}
}

// where writes where the file's code runs.
func (i inspected) where(line func(what, format string, args ...any)) {
	what := "runs on"
	for _, l := range i.RunsOn {
		line(what, "%s", l)
		what = ""
	}
}

// through says what the file computes with by what it needs and exports, a line each; of CUDA and
// HIP the device code tells more.
func (i inspected) through() (out []string) {
	for _, kind := range i.Uses {
		if u, ok := binary.UseOf(kind); ok && kind != "cuda" && kind != "hip" {
			out = append(out, u.On)
		}
	}
	return out
}

// beside names the backends that the file loads, with what those run on where their names do not
// tell it.
func (i inspected) beside() string {
	var names []string
	for _, b := range i.found {
		name := filepath.Base(b.File)
		if u, ok := binary.UseOf(b.Kind); ok && b.Kind != "cuda" && b.Kind != "hip" {
			name += " (" + u.On + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// runsOn says where the file's code runs: each card that it has code for, or why
// it runs on none. It is empty for CUDA's own runtime.
func (i inspected) runsOn() []string {
	c, v := i.CUDA, i.Verdict
	switch {
	case v != nil:
	case i.HIP != nil:
		return i.onAMD()
	case len(i.through()) > 0 && (c == nil || c.Fatbins == 0):
		if i.backend {
			return i.through()
		}
		return append([]string{"the processor"}, i.through()...)
	case c != nil && c.Fatbins > 0:
		return []string{"no card: its device code holds no kernel"}
	case c != nil && !strings.HasPrefix(i.SOName, "libcudart."):
		return []string{"no card: it uses the CUDA runtime and holds no device code"}
	case i.Wasm != nil:
		return []string{}
	case len(i.Backends) > 0:
		return []string{fmt.Sprintf("the processor, and what %s beside it holds code for", i.beside())}
	case len(i.Uses) > 0:
		return []string{"no card: it uses " + strings.Join(i.Uses, " and ") + " and holds no device code"}
	case c == nil:
		return []string{"the processor alone: no device code in it, no library of a ggml device backend beside it"}
	default:
		return []string{}
	}
	var out []string
	for _, card := range v.Cards {
		out = append(out, card.String())
	}
	if v.Newer {
		out = append(out, "newer cards too (PTX)")
	} else {
		out = append(out, "no card newer than those: not every fatbin has PTX for them")
	}
	if len(v.Other) > 0 {
		out = append(out, fmt.Sprintf("also holds %s, for which llpatch knows no card", strings.Join(v.Other, " ")))
	}
	return out
}
