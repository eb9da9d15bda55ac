package build

import (
	"bytes"
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// sourceExts are the files that a build reads only through a compiler, which
// tells Ninja of each. Anything else may be read by CMake or by a script.
var sourceExts = []string{
	".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".inc", ".m", ".mm", ".S",
}

// Reads returns those of the paths below the plan's source that its finished
// build has read, and the object files, as Ninja names them, whose compiler did so,
// sorted: a file that no compiler read left no trace in the programs. A path of a
// kind that others than compilers read counts as read, by none.
func Reads(ctx context.Context, p Plan, o RunOptions, paths []string) (map[string][]string, error) {
	b := &builder{plan: p, o: o}
	out, err := b.ninja(ctx, "-t", "deps")
	if err != nil {
		return nil, err
	}
	read := map[string][]string{}
	object := ""
	for line := range bytes.Lines(out) {
		// A target's own line is not indented; what it needs is, by four blanks.
		name, ok := bytes.CutPrefix(line, []byte("    "))
		if !ok {
			if text, _, ok := bytes.Cut(line, []byte(": #deps")); ok {
				object = string(text)
			}
			continue
		}
		file := filepath.Clean(resolve(p.dir(), string(bytes.TrimRight(name, "\r\n"))))
		read[file] = append(read[file], object)
	}
	// Names that do not lead below the source cannot be told from its files, so
	// that nothing may be concluded from them.
	ours := slices.ContainsFunc(slices.Collect(maps.Keys(read)), func(name string) bool {
		return strings.HasPrefix(name, p.source()+string(filepath.Separator))
	})
	found := map[string][]string{}
	for _, name := range paths {
		by, was := read[filepath.Join(p.source(), filepath.FromSlash(name))]
		switch {
		case !ours || !slices.Contains(sourceExts, path.Ext(name)):
			found[name] = nil
		case was:
			slices.Sort(by)
			found[name] = slices.Compact(by)
		}
	}
	return found, nil
}

func resolve(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
