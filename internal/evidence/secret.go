package evidence

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// hidden stands for the value of a secret.
const hidden = "(hidden)"

// minSecret is the length from which a secret's value is looked for in all texts:
// a shorter one would take words that have nothing to do with it.
const minSecret = 6

var (
	// The variables that change what the programs do. Others are the caller's own.
	tellingRE = regexp.MustCompile(`^(CUDA_.*|GGML_.*|LLAMA_ARG_.*|HIP_.*|ROCR_.*|OMP_.*|LLPATCH_SIM_.*|LD_LIBRARY_PATH|LD_PRELOAD)$`)
	secretRE  = regexp.MustCompile(`(?i)KEY|TOKEN|SECRET|PASSWORD`)
	// A variable or a flag, before its =.
	secretNameRE = regexp.MustCompile(`(?i)^[\w-]*(KEY|TOKEN|SECRET|PASSWORD)[\w-]*$`)
	// The flags of llama.cpp that take a secret.
	secretFlagRE = regexp.MustCompile(`^(--api-key|--hf-token|-hft)(=|$)`)
	// A secret in the text of a plan; tokens is the plan's own key.
	assignedRE = regexp.MustCompile(`(?i)([\w-]*(?:KEY|TOKEN|SECRET|PASSWORD)[\w-]*)(["']?\s*=\s*)("(?:[^"\\\n]|\\.)*"|'[^'\n]*')`)
)

// secrets are the values that no record may have, the longest first.
func secrets(p *Plan, vars map[string]string, env []string) []string {
	var out []string
	add := func(s string) {
		if len(s) >= minSecret && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	all := func(m map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if secretRE.MatchString(k) {
				add(m[k])
			}
		}
	}
	flags := func(words []string) {
		for i, w := range words {
			name, v, ok := strings.Cut(w, "=")
			switch {
			case ok && secretNameRE.MatchString(name):
				add(v)
			case !ok && secretFlagRE.MatchString(w) && i+1 < len(words):
				add(words[i+1])
			}
		}
	}
	all(vars)
	for _, b := range p.Builds {
		all(b.Env)
	}
	for _, r := range p.Runs {
		all(r.Env)
		for _, b := range slices.Sorted(maps.Keys(r.BuildEnv)) {
			all(r.BuildEnv[b])
		}
		flags(r.Args)
		flags(r.Under)
	}
	for _, e := range env {
		if k, v, _ := strings.Cut(e, "="); tellingRE.MatchString(k) && secretRE.MatchString(k) {
			add(v)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// plan hides what the text of a plan tells.
func (h *hider) plan(text string) string {
	return h.text(assignedRE.ReplaceAllStringFunc(text, func(s string) string {
		m := assignedRE.FindStringSubmatch(s)
		if m[1] == "tokens" {
			return s
		}
		return m[1] + m[2] + `"` + hidden + `"`
	}))
}

// lines hides in lines of output.
func (h *hider) lines(in []string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, h.text(s))
	}
	return out
}

// argv hides in the words of a command line.
func (h *hider) argv(in []string) []string {
	out := make([]string, 0, len(in))
	for i, s := range in {
		name, _, joined := strings.Cut(s, "=")
		switch {
		case joined && secretNameRE.MatchString(name):
			s = name + "=" + hidden // as --hf-token=…, env HF_TOKEN=…
		case i > 0 && secretFlagRE.MatchString(in[i-1]) && !strings.Contains(in[i-1], "="):
			s = hidden
		}
		out = append(out, h.text(s))
	}
	return out
}

func (h *hider) env(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		if out[k] = h.text(v); secretRE.MatchString(k) {
			out[k] = hidden
		}
	}
	return out
}
