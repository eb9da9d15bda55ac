package sim

import (
	"context"
	"errors"
)

// Lacks returns what a build of the simulation would miss on this machine, each a
// *MissingTool or why it cannot be told; nil where all is there. Of o it reads Headers
// and HIP (empty: those headers are not looked for), Clang and Windows.
func Lacks(ctx context.Context, o Options) []error {
	var lacks []error
	t, err := findTools(ctx, o.Clang)
	var many interface{ Unwrap() []error }
	switch {
	case errors.As(err, &many):
		lacks = append(lacks, many.Unwrap()...)
	case err != nil:
		lacks = append(lacks, err)
	}
	if o.Windows {
		if err := t.forWindows(ctx, ""); err != nil {
			lacks = append(lacks, err)
		}
	}
	if o.Headers != "" {
		if _, err := cudartVersion(o.Headers); err != nil {
			lacks = append(lacks, err)
		}
	}
	if o.HIP != "" {
		if err := hipHeaders(o.HIP); err != nil {
			lacks = append(lacks, err)
		}
	}
	return lacks
}
