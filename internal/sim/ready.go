package sim

import "context"

// Lacks returns what a build of the simulation would miss on this machine, each a
// *MissingTool or why it cannot be told; nil where all is there. headers is the folder
// of the CUDA headers, hip that of the HIP headers; empty: they are not looked for.
func Lacks(ctx context.Context, headers, hip, clang string) []error {
	var lacks []error
	if _, err := findTools(ctx, clang); err != nil {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			lacks = append(lacks, many.Unwrap()...)
		} else {
			lacks = append(lacks, err)
		}
	}
	if headers != "" {
		if _, err := cudartVersion(headers); err != nil {
			lacks = append(lacks, err)
		}
	}
	if hip != "" {
		if err := hipHeaders(hip); err != nil {
			lacks = append(lacks, err)
		}
	}
	return lacks
}
