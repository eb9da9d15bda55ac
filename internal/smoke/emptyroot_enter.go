package smoke

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/run"
)

// way is a program that makes a folder the root of another program.
type way struct {
	name string
	bare bool                       // there is no /proc in it
	argv func(root string) []string // what stands before the program
}

// ways are tried in this order. bubblewrap and unshare need no rights where the kernel
// gives user namespaces to everybody, chroot needs root's. Without /proc the loader
// cannot tell the folder of a program that the kernel starts, and so not what $ORIGIN
// is: there the loader itself is started.
var ways = []way{
	{"bwrap", false, func(root string) []string {
		return []string{
			"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", root, "/", "--proc", "/proc", "--dev",
			"/dev", "--chdir", inside, "--",
		}
	}},
	{"unshare", false, func(root string) []string {
		return []string{
			"unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
			"--root=" + root, "--wd=" + inside,
		}
	}},
	{"unshare without /proc", true, func(root string) []string {
		return []string{"unshare", "--user", "--map-root-user", "--root=" + root, "--wd=" + inside}
	}},
	{"chroot without /proc", true, func(root string) []string { return []string{"chroot", root} }},
}

// enter finds a way into the root: one in which the loader itself runs there.
func (r *emptyRoot) enter(ctx context.Context, ways []way) error {
	var tried []string
	for _, w := range ways {
		argv := w.argv(r.dir)
		if _, err := run.LookPath(argv[0], toolPath); err != nil {
			tried = append(tried, w.name+" is not installed")
			continue
		}
		r.way = w
		out, err := r.run(ctx, "enter", r.loader, "--verify", path.Join(inside, r.program))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			return nil
		}
		tried = append(tried, fmt.Sprintf("%s: %s", w.name, firstLine(strings.TrimSpace(out.all()+"\n"+err.Error()))))
	}
	return &absent{"no empty root can be made here: " + strings.Join(tried, "; ")}
}

// toolPath is where the programs of the ways lie.
const toolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// run runs a program in the root.
func (r *emptyRoot) run(ctx context.Context, name string, argv ...string) (*output, error) {
	o := &output{log: filepath.Join(r.s.o.Work, "empty-root-"+name+".log")}
	err := run.Run(ctx, run.Cmd{
		Argv: append(r.way.argv(r.dir), argv...), Env: []string{"PATH=" + toolPath, "LANG=C", "HOME=/tmp"},
		Dir: r.dir, Log: o.log, Stdout: &o.stdout, Stderr: &o.stderr, Timeout: r.s.answer(), Grace: time.Second,
		Hold: r.s.o.Hold,
	})
	return o, err
}

// loads asks the loader whether a file of the bundle finds all that it needs, in the
// versions that it needs (ld.so(8), --list).
func (r *emptyRoot) loads(ctx context.Context, f *binary.File) error {
	out, err := r.run(ctx, f.Name, r.loader, "--list", path.Join(inside, f.Name))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	if r.notSeen(out) {
		return nil
	}
	return out.fault("in an empty root the loader does not load %s", lastLines(out.all(), 1)[0])
}

// notSeen tells whether what the loader misses is what this machine lacks, too.
func (r *emptyRoot) notSeen(out *output) bool {
	return slices.ContainsFunc(r.unseen, func(lib string) bool {
		return strings.Contains(out.all(), ": error while loading shared libraries: "+lib+": ")
	})
}

// starts runs a program of the bundle as far as its version.
func (r *emptyRoot) starts(ctx context.Context, name string) error {
	if _, err := os.Stat(filepath.Join(r.dir, inside, name)); err != nil {
		return fmt.Errorf("%s is not in the build: %w", name, err)
	}
	argv := []string{path.Join(inside, name), "--version"}
	if r.way.bare {
		argv = append([]string{r.loader}, argv...)
	}
	out, err := r.run(ctx, name, argv...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && r.notSeen(out) {
		return nil
	}
	if err != nil {
		return out.fault("in an empty root %s --version: %s", name, firstLine(err.Error()))
	}
	if w := r.s.o.Want; w.Build != 0 {
		if got, ok := parseVersion(out.all()); !ok || got != w {
			return out.fault("in an empty root %s --version does not say build %d, commit %s", name, w.Build, w.Commit)
		}
	}
	return nil
}

func (r *emptyRoot) detail() string {
	return fmt.Sprintf("by %s, with nothing but the bundle and %s", r.way.name, strings.Join(r.system, ", "))
}
