package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// checker checks a plan, fills in what it leaves open, and puts the variables in.
// It collects every fault, so that one run shows all there is to mend.
type checker struct {
	name string
	data []byte
	plan *Plan
	vars map[string]string
	errs []error
}

func (c *checker) fail(key, format string, args ...any) {
	c.errs = append(c.errs, spec.ErrorIn(c.name, c.data, key, format, args...))
}

// refuse is fail where something is wrong.
func (c *checker) refuse(wrong bool, key, format string, args ...any) {
	if wrong {
		c.fail(key, format, args...)
	}
}

var nameRE = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// maxPairs and maxRequests keep a slip of the finger from running for weeks.
const (
	maxPairs    = 1000
	maxRequests = 1_000_000
	maxTokens   = 1 << 22
)

func (c *checker) check() {
	p := c.plan
	c.refuse(strings.TrimSpace(p.What) == "", "what",
		"what is missing or empty: say in a line what the plan is to show")
	p.Tag, p.Commit, p.Tree = c.expand("tag", p.Tag), c.expand("commit", p.Commit), c.expand("tree", p.Tree)
	c.refuse(len(p.Builds) == 0, "build", "there is no [[build]]")
	seen := map[string]bool{All: true, "build": true}
	for i := range p.Builds {
		b, at := &p.Builds[i], fmt.Sprintf("build[%d]", i)
		c.takeName(at, b.Name, seen)
		before := len(c.errs)
		if b.Dir = c.expand(at+".dir", b.Dir); b.Dir == "" && len(c.errs) == before {
			c.fail(at+".dir", "dir is missing or empty: the folder with the programs")
			continue
		}
		if abs, err := filepath.Abs(b.Dir); err == nil {
			b.Dir = abs
		}
	}
	for _, b := range p.Builds {
		c.vars[b.Name] = b.Dir
	}
	for i := range p.Builds {
		c.expandMap(fmt.Sprintf("build[%d].env", i), p.Builds[i].Env)
		if list := p.Builds[i].Patches; list != nil {
			for j := range *list {
				(*list)[j] = c.expand(fmt.Sprintf("build[%d].patches", i), (*list)[j])
			}
		}
	}
	p.Baseline = cmp.Or(p.Baseline, "stock")
	c.refuse(!c.known(p.Baseline), "baseline", "baseline is %q; there is no [[build]] of that name", p.Baseline)
	c.refuse(len(p.Runs) == 0, "run", "there is no [[run]]")
	runs := map[string]bool{}
	for i := range p.Runs {
		r, at := &p.Runs[i], fmt.Sprintf("run[%d]", i)
		c.takeName(at, r.Name, runs)
		c.run(at, r)
	}
}

// takeName checks the name of what stands at a key, and takes it.
func (c *checker) takeName(at, name string, taken map[string]bool) {
	switch {
	case !nameRE.MatchString(name):
		c.fail(at+".name", "name is %q; it must be letters, digits, dots, hyphens", name)
	case taken[name]:
		c.fail(at+".name", "name %q is taken", name)
	}
	taken[name] = true
}

func (c *checker) known(build string) bool {
	return slices.ContainsFunc(c.plan.Builds, func(b Build) bool { return b.Name == build })
}

func (c *checker) run(at string, r *PlanRun) {
	c.refuse(r.Program == "" || strings.ContainsAny(r.Program, `/\`), at+".program",
		"program is %q; it must be the name of a file in the builds' folders", r.Program)
	for i := range r.Args {
		r.Args[i] = c.expand(at+".args", r.Args[i])
	}
	for i := range r.Under {
		r.Under[i] = c.expand(at+".under", r.Under[i])
	}
	c.expandMap(at+".env", r.Env)
	for _, b := range slices.Sorted(maps.Keys(r.BuildEnv)) {
		c.refuse(!c.known(b), at+".build-env."+b, "there is no build %q", b)
		c.expandMap(at+".build-env."+b, r.BuildEnv[b])
	}
	for i, b := range r.Builds {
		switch {
		case !c.known(b):
			c.fail(at+".builds", "there is no build %q", b)
		case slices.Contains(r.Builds[:i], b):
			c.fail(at+".builds", "build %q is there twice", b)
		}
	}
	if len(r.Builds) == 0 {
		for _, b := range c.plan.Builds {
			r.Builds = append(r.Builds, b.Name)
		}
	}
	c.refuse(r.Pairs < 0 || r.Pairs > maxPairs, at+".pairs", "pairs is %d; it must be 1 to %d", r.Pairs, maxPairs)
	r.Pairs = max(r.Pairs, 1)
	r.limit = c.duration(at+".timeout", r.Timeout, defaultTimeout)
	r.keep = c.patterns(at+".keep", r.Keep)
	switch {
	case r.Program == llamaServer && r.Server == nil:
		c.fail(at, "a llama-server needs a [run.server] that says what it is asked")
	case r.Program != llamaServer && r.Server != nil:
		c.fail(at+".server", "only llama-server is asked; program is %q", r.Program)
	case r.Server != nil:
		c.server(at+".server", r.Server)
	}
	for _, b := range slices.Sorted(maps.Keys(r.Aim)) {
		key := at + ".aim." + b
		c.refuse(b != All && !slices.Contains(r.Builds, b), key, "%q is neither %q nor a build of this run", b, All)
		a := r.Aim[b]
		c.aim(key, r, &a)
		r.Aim[b] = a
	}
}

func (c *checker) server(at string, s *Server) {
	s.First, s.Clients, s.Predict = cmp.Or(s.First, 8), cmp.Or(s.Clients, 1), cmp.Or(s.Predict, 32)
	if len(s.Prompt) == 0 {
		s.Prompt = []int{32, 256}
	}
	if len(s.Prompt) != 2 || s.Prompt[0] < 1 || s.Prompt[1] < s.Prompt[0] || s.Prompt[1] > maxTokens {
		c.fail(at+".prompt", "prompt is %v; it must be the least and the most tokens, as [32, 256]", s.Prompt)
		s.Prompt = []int{1, 1}
	}
	for _, n := range []struct {
		key         string
		value, most int
	}{
		{"first", s.First, maxRequests},
		{"clients", s.Clients, 1000},
		{"requests", s.Requests, maxRequests},
		{"predict", s.Predict, maxTokens},
		{"prefills", s.Prefills.Count, maxRequests},
		{"prefills", s.Prefills.Tokens, maxTokens},
	} {
		c.refuse(n.value < 0 || n.value > n.most, at+"."+n.key,
			"%s is %d; it must be at most %d", n.key, n.value, n.most)
	}
	c.refuse((s.Prefills.Count > 0) != (s.Prefills.Tokens > 0), at+".prefills", "prefills needs both count and tokens")
	s.ready = c.duration(at+".ready", s.Ready, defaultReady)
}

func (c *checker) aim(at string, r *PlanRun, a *Aim) {
	switch v := a.RC.(type) {
	case nil, int64:
	case string:
		c.refuse(v != "nonzero" && v != "any", at+".rc", `rc is %q; it must be a number, "nonzero" or "any"`, v)
	default:
		c.fail(at+".rc", `rc is %v; it must be a number, "nonzero" or "any"`, v)
	}
	for _, w := range []struct{ key, value, word string }{
		{"tokens", a.Tokens, "equal"}, {"kept", a.Kept, "equal"}, {"rss", a.RSS, "flat"}, {"vram", a.VRAM, "flat"},
	} {
		c.refuse(w.value != "" && w.value != w.word, at+"."+w.key, "%s is %q; it can be %q", w.key, w.value, w.word)
	}
	for _, least := range []struct {
		key   string
		value *float64
	}{{"pp-ratio-min", a.PP}, {"tg-ratio-min", a.TG}} {
		if v := least.value; v != nil && (!(*v >= 0) || math.IsInf(*v, 0)) {
			c.fail(at+"."+least.key, "%s is %g; it must be a ratio, as 0.95", least.key, *v)
		}
	}
	compared := a.Tokens != "" || a.Kept != "" || a.PP != nil || a.TG != nil
	c.refuse(compared && !slices.Contains(r.Builds, c.plan.Baseline), at,
		"the baseline %q does not take part in this run, so nothing can be compared with it", c.plan.Baseline)
	c.refuse(r.Server == nil && (a.Tokens != "" || a.RSS != "" || a.VRAM != ""), at,
		"tokens, rss and vram are judged for a llama-server only; program is %q", r.Program)
	c.refuse(r.Program != llamaBench && r.Program != llamaServer && (a.PP != nil || a.TG != nil), at,
		"speed is known of llama-bench and llama-server only; program is %q", r.Program)
	c.refuse(a.Kept != "" && len(r.Keep) == 0, at+".kept",
		"kept needs keep: regular expressions of the lines to compare")
	a.has, a.lacks = c.patterns(at+".has", a.Has), c.patterns(at+".lacks", a.Lacks)
}

func (c *checker) patterns(at string, list []string) []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, s := range list {
		re, err := regexp.Compile(s)
		if err != nil {
			c.fail(at, "%q is no regular expression: %v", s, err)
			continue
		}
		out = append(out, re)
	}
	return out
}

func (c *checker) duration(at, s string, otherwise time.Duration) time.Duration {
	if s == "" {
		return otherwise
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		c.fail(at, "%q is no length of time; write it as 90s or 20m", s)
		return otherwise
	}
	return d
}

var varRE = regexp.MustCompile(`\{([A-Za-z][A-Za-z0-9._-]*)\}`)

// expand puts in the variables: those of --var, and each build's folder under its
// name. {build} is the folder of the build that runs, and stays until then.
func (c *checker) expand(at, s string) string {
	return varRE.ReplaceAllStringFunc(s, func(m string) string {
		key := m[1 : len(m)-1]
		if key == "build" {
			return m
		}
		v, ok := c.vars[key]
		c.refuse(!ok, at, "{%s} has no value: give it with --var %s=VALUE", key, key)
		return v
	})
}

func (c *checker) expandMap(at string, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		c.refuse(k == "" || strings.ContainsAny(k, "=\x00"), at, "%q is no name of a variable", k)
		m[k] = c.expand(at+"."+k, m[k])
	}
}
