package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/leak"
	"github.com/llpatch/llpatch/internal/spec"
)

// completions lets a shell complete the arguments that a command's usage names, and
// the flags that take one of a few words.
func (a *app) completions(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.completions(sub)
	}
	if words := strings.Fields(c.Use); len(words) > 1 && c.ValidArgsFunction == nil {
		c.ValidArgsFunction = func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given)+1 >= len(words) {
				return nil, cobra.ShellCompDirectiveDefault
			}
			names, known := a.named(strings.Trim(words[len(given)+1], "[]"))
			if !known || strings.Contains(c.Use, "FILE") {
				return names, cobra.ShellCompDirectiveDefault
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
	}
	var presets []string
	for _, p := range gguf.Presets() {
		presets = append(presets, p[0]+"\t"+p[1])
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		words := map[string][]string{
			"bundle": {spec.Thin, spec.Full}, "flash-attn": {"on", "off", "auto"},
			"os": {spec.Win7, spec.Win7VxKex}, "preset": presets, "upstream": {spec.LlamaCpp, spec.IkLlamaCpp},
			"with":     leak.Tools(),
			"workload": {"prefill", "requests", "none"}, "vram": {
				"auto", "nvidia-smi", "amdgpu", "amd-smi", "rocm-smi", "none",
				"sim:",
			},
		}[f.Name]
		value, _ := pflag.UnquoteUsage(f)
		if value != "FIX" && value != "BUILDENV" && words == nil {
			return
		}
		// The error says that the flag has one already.
		_ = c.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			if names, known := a.named(value); known {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		})
	})
}

// named are the names that stand for a word of a command's usage, such as TARGET,
// where the declarations have any.
func (a *app) named(word string) (names []string, known bool) {
	repo, _, err := a.declarations()
	if err != nil {
		return nil, false
	}
	switch {
	case word == "TARGET":
		return slices.Sorted(maps.Keys(repo.Recipes)), true
	case word == "TAG":
		return slices.Sorted(maps.Keys(repo.Lock[spec.LlamaCpp])), true
	case word == "FIX":
		for _, f := range repo.Fixes {
			names = append(names, f.ID)
		}
		return names, true
	case word == "NAME" || word == "BUILDENV":
		return slices.Sorted(maps.Keys(repo.Buildenvs)), true
	}
	return nil, false
}
