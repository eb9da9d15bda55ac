package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Objects configures the build folder as Run does and compiles the objects of some of
// the plan's sources, named by their paths in the tree, and nothing else; of none it
// only configures. Errors are those of Run. It works on this machine alone.
func Objects(ctx context.Context, p Plan, o RunOptions, sources []string) error {
	if p.Remote != nil {
		return errors.New("single objects are not compiled on another machine")
	}
	p.Steps = slices.Clone(p.Steps)
	compile := &p.Steps[1]
	compile.Argv = slices.Clone(compile.Argv[:len(compile.Argv)-len(p.Programs)])
	for _, name := range sources {
		// Ninja's own way to name what is made of a file.
		compile.Argv = append(compile.Argv, filepath.Join(p.source(), filepath.FromSlash(name))+"^")
	}
	b := newBuilder(p, o)
	targets, _, err := b.configured(ctx)
	if err == nil && len(sources) > 0 {
		_, err = b.compile(ctx, targets)
	}
	return b.fault(err)
}

var (
	objectLineRE = regexp.MustCompile(`^build \S*CMakeFiles/([^/\s]+)\.dir/`)
	flagsLineRE  = regexp.MustCompile(`^  FLAGS = (.*)`)
)

// Flags returns the compiler's options in a configured build folder, for each CMake
// target all that its files are compiled with, sorted.
func (p Plan) Flags() (map[string][]string, error) {
	text, err := os.ReadFile(filepath.Join(p.Dir, "build.ninja"))
	if err != nil {
		return nil, fmt.Errorf("options of the compiler: %w", err)
	}
	flags := map[string][]string{}
	target := ""
	for line := range strings.Lines(string(text)) {
		if m := objectLineRE.FindStringSubmatch(line); m != nil {
			target = m[1]
		} else if m := flagsLineRE.FindStringSubmatch(line); m != nil && target != "" {
			flags[target] = append(flags[target], strings.Fields(m[1])...)
		} else if line == "\n" {
			target = ""
		}
	}
	for target, all := range flags {
		slices.Sort(all)
		flags[target] = slices.Compact(all)
	}
	return flags, nil
}
