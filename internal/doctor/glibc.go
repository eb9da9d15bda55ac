package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// system says which C library the result will ask for at most, and whether this machine
// has it: of a build with this machine's tools, where it has them, and in each of the buildenvs that
// fit. root is that of Options.Root, or empty.
func (r *Report) system(ctx context.Context, o Options, rec spec.Recipe, root string, fit []buildenv.Decl) error {
	if rec.OS != "linux" || rec.Verify.Machine == "" {
		return nil
	}
	libs, err := binary.SystemLibraries(ctx, o.Environ)
	if err != nil {
		return err
	}
	mine, err := libs.Glibc(rec.Verify.Machine)
	if err != nil {
		return err
	}
	older := func(d buildenv.Decl) bool {
		return d.Floor() != "" && mine != "" && !binary.Less(mine, d.Floor()) && (o.Root == nil || d.Name != o.Root.Name)
	}
	way := ""
	if i := slices.IndexFunc(fit, older); i >= 0 {
		way = fmt.Sprintf("--env %s makes it for glibc %s", fit[i].Name, fit[i].Floor())
	}
	limit := rec.Verify.GlibcMax
	switch {
	case o.Root != nil:
		has, err := o.floor(root, rec.Verify.Machine)
		if err != nil {
			return err
		}
		r.floor("", o.Root.Name, orLimit(limit, has), mine, way)
	case slices.ContainsFunc(r.Findings, Finding.isTool) || r.Buildenv != "":
		// The tools are not here, so that this machine's glibc says nothing.
	case limit != "":
		r.ok("glibc", "The result will need glibc %s or older, or the build ends; this machine's is %s.", limit, mine)
	case mine == "":
		r.unknown("glibc", "", "Which glibc the result will need is not known: this machine's was not found.")
	default:
		r.ok("glibc", "The result will need no newer glibc than this machine's, %s.", mine)
	}
	for _, d := range fit {
		r.floor("Built with --env "+d.Name+", the", d.Name, orLimit(limit, d.Floor()), mine, way)
	}
	return nil
}

// orLimit is what a recipe holds every result to, where it does.
func orLimit(limit, floor string) string {
	if limit != "" {
		return limit
	}
	return floor
}

// floor says which glibc a result of a buildenv may need, and whether this machine has that. The
// sentence begins with begin, or with The.
func (r *Report) floor(begin, name, floor, mine, way string) {
	if begin == "" {
		begin = "The"
	}
	switch {
	case floor == "":
		r.unknown("glibc", "", "%s result may need a glibc that is not known: %s was not found.", begin, name+"'s glibc")
	case mine != "" && binary.Less(mine, floor):
		if way == "" {
			way = "for a system as old as this one build where the tools are installed, without --env"
		}
		r.without("glibc", way, "%s result may need glibc up to %s, %s's, and this machine has %s: it may not start here.",
			begin, floor, name, mine)
	default:
		r.ok("glibc", "%s result will need no newer glibc than %s's, %s.", begin, name, floor)
	}
}
