package evidence

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// Plan says what is run and what must come out. It is read from TOML.
type Plan struct {
	What     string    `toml:"what"`
	Baseline string    `toml:"baseline"` // the build that the others are compared with
	Tag      string    `toml:"tag"`      // of the builds, like the next two
	Commit   string    `toml:"commit"`
	Tree     string    `toml:"tree"`
	Builds   []Build   `toml:"build"`
	Runs     []PlanRun `toml:"run"`

	Text string `toml:"-"` // the file
}

// Build is a folder with the programs of one build.
type Build struct {
	Name string            `toml:"name"`
	Dir  string            `toml:"dir"`
	Env  map[string]string `toml:"env"` // for every run of it
	Note string            `toml:"note"`
	// Patches are files, for a build without a BUILD_INFO.json; nil: not said, empty: it has none.
	Patches *[]string `toml:"patches"`
}

// PlanRun is one program that every build runs, so many times.
type PlanRun struct {
	Name     string                       `toml:"name"`
	Program  string                       `toml:"program"`
	Args     []string                     `toml:"args"`
	Env      map[string]string            `toml:"env"`
	BuildEnv map[string]map[string]string `toml:"build-env"` // by build
	Builds   []string                     `toml:"builds"`    // empty: all
	Pairs    int                          `toml:"pairs"`     // rounds in which each build runs once; 0: 1
	WarmUp   *bool                        `toml:"warm-up"`   // one more round before; nil: where there are several pairs
	Under    []string                     `toml:"under"`     // a program that runs the program
	Timeout  string                       `toml:"timeout"`   // of one run; empty: 10m
	Keep     []string                     `toml:"keep"`      // regular expressions: lines of the output to record
	Server   *Server                      `toml:"server"`    // the work of a llama-server
	Aim      map[string]Aim               `toml:"aim"`       // by build, or "all"

	limit time.Duration
	keep  []*regexp.Regexp
}

// Server is what a llama-server is asked. First come so many requests one after
// another, whose tokens are compared; then the load.
type Server struct {
	First    int            `toml:"first"`    // 0: 8
	Clients  int            `toml:"clients"`  // of the load, each with one request at a time; 0: 1
	Requests int            `toml:"requests"` // of the load
	Prompt   []int          `toml:"prompt"`   // least and most tokens; empty: 32 to 256
	Predict  int            `toml:"predict"`  // tokens of an answer; 0: 32
	Prefills Prefills       `toml:"prefills"`
	Seed     uint64         `toml:"seed"`
	Ready    string         `toml:"ready"`   // limit until it is ready; empty: 5m
	Request  map[string]any `toml:"request"` // more fields of every request

	ready time.Duration
}

// Prefills are long prompts, spread evenly over the load.
type Prefills struct {
	Count  int `toml:"count"`
	Tokens int `toml:"tokens"`
}

// Aim is what must come out of a run for one build, or for all. What it does not
// name is not judged, but for the exit code, which must be 0, and the answers,
// which must all come.
type Aim struct {
	RC       any      `toml:"rc"`                // an exit code, "nonzero" or "any"
	PeakVRAM *int64   `toml:"peak-vram-mib-max"` // in every run
	PeakRSS  *int64   `toml:"peak-rss-mib-max"`
	PP       *float64 `toml:"pp-ratio-min"` // the median of the ratios to the baseline
	TG       *float64 `toml:"tg-ratio-min"`
	Tokens   string   `toml:"tokens"` // "equal": to the baseline's of the same pair
	Kept     string   `toml:"kept"`   // "equal": the kept lines
	RSS      string   `toml:"rss"`    // "flat": what the program allocates on the host
	VRAM     string   `toml:"vram"`   // "flat"
	Has      []string `toml:"has"`    // regular expressions that the output must match
	Lacks    []string `toml:"lacks"`  // and must not match

	has, lacks []*regexp.Regexp
}

// All is the name of an aim that is for every build.
const All = "all"

const (
	defaultTimeout = 10 * time.Minute
	defaultReady   = 5 * time.Minute
	llamaBench     = "llama-bench"
	llamaServer    = "llama-server"
)

// ReadPlan reads a plan from a file. vars are the values of the {KEY}s in it. The
// error joins one *spec.Error a fault.
func ReadPlan(file string, vars map[string]string) (*Plan, error) {
	data, err := readFile(file, maxPlan)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return ParsePlan(file, data, vars)
}

// ParsePlan is ReadPlan for a plan's text; name is for messages.
func ParsePlan(name string, data []byte, vars map[string]string) (*Plan, error) {
	p := &Plan{Text: string(data)}
	if err := spec.Decode(name, data, p); err != nil {
		return nil, err
	}
	c := &checker{name: name, data: data, plan: p, vars: maps.Clone(vars)}
	if c.vars == nil {
		c.vars = map[string]string{}
	}
	c.check()
	if err := errors.Join(c.errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Only keeps the named runs; a name that the plan does not have is an error.
func (p *Plan) Only(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		if !slices.ContainsFunc(p.Runs, func(r PlanRun) bool { return r.Name == n }) {
			var have []string
			for _, r := range p.Runs {
				have = append(have, r.Name)
			}
			return fmt.Errorf("the plan has no run %q; it has %s", n, strings.Join(have, ", "))
		}
	}
	p.Runs = slices.DeleteFunc(p.Runs, func(r PlanRun) bool { return !slices.Contains(names, r.Name) })
	return nil
}

// build returns the build of that name, which the plan has.
func (p *Plan) build(name string) *Build {
	return &p.Builds[slices.IndexFunc(p.Builds, func(b Build) bool { return b.Name == name })]
}

// aim joins what is said for all builds and for one: the one wins.
func (r *PlanRun) aim(build string) Aim {
	a, b := r.Aim[All], r.Aim[build]
	if b.RC != nil {
		a.RC = b.RC
	}
	a.PeakVRAM, a.PeakRSS = either(b.PeakVRAM, a.PeakVRAM), either(b.PeakRSS, a.PeakRSS)
	a.PP, a.TG = either(b.PP, a.PP), either(b.TG, a.TG)
	for _, s := range []struct{ to, from *string }{
		{&a.Tokens, &b.Tokens},
		{&a.Kept, &b.Kept},
		{&a.RSS, &b.RSS},
		{&a.VRAM, &b.VRAM},
	} {
		if *s.from != "" {
			*s.to = *s.from
		}
	}
	a.has, a.lacks = slices.Concat(a.has, b.has), slices.Concat(a.lacks, b.lacks)
	return a
}

func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// warm says whether a round of warming up comes first.
func (r *PlanRun) warm() bool {
	if r.WarmUp != nil {
		return *r.WarmUp
	}
	return r.Pairs > 1
}

// order is the builds of one pair: from pair to pair the other way round, so that
// a drift of the machine's speed cancels.
func (r *PlanRun) order(pair int) []string {
	o := slices.Clone(r.Builds)
	if pair%2 == 0 && pair > 0 {
		slices.Reverse(o)
	}
	return o
}
