package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/spec"
)

// upstreamFlag is --upstream: one of the upstreams that there are. Any other
// would get into file names and into recipes/tags.lock.
type upstreamFlag struct{ name *string }

func addUpstream(c *cobra.Command, name *string, usage string) {
	*name = spec.LlamaCpp
	c.Flags().Var(upstreamFlag{name}, "upstream", usage)
}

// String returns the upstream.
func (f upstreamFlag) String() string {
	if f.name == nil { // as the flag package makes one to learn the default
		return ""
	}
	return *f.name
}

// Type names what the flag takes in the help.
func (f upstreamFlag) Type() string { return "string" }

// Set takes the name of an upstream.
func (f upstreamFlag) Set(s string) error {
	there := []string{spec.LlamaCpp, spec.IkLlamaCpp}
	if !slices.Contains(there, s) {
		return fmt.Errorf("there are %s", strings.Join(there, ", "))
	}
	*f.name = s
	return nil
}
