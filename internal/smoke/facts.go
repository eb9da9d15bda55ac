package smoke

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
)

// tally is how many checks had which verdict.
func (r *Report) tally() string {
	t := fmt.Sprintf("%d checks: %d passed, %d failed, %d could not run", len(r.Checks), r.count(Passed), r.count(Wrong), r.count(NotJudged))
	if n := r.count(Absent); n > 0 {
		t += fmt.Sprintf(", %d not run (no card here)", n)
	}
	return t + "."
}

// moreThanAsked explains counts that a reader of the recipe would not expect.
const moreThanAsked = "A check that watches memory goes on, past the requests, rounds or repeats that the recipe asks for, until there are looks enough for memory to be judged; where host memory grows, or nobody can tell what it did, all is done once more, for longer."

// seen is what a check has to say, with its figures.
func (c *Result) seen() string {
	parts := []string{}
	if c.Detail != "" {
		parts = append(parts, c.Detail)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Figures)) {
		parts = append(parts, fmt.Sprintf("%s %v", strings.ReplaceAll(k, "_", " "), figure(c.Figures[k])))
	}
	return strings.Join(parts, "; ")
}

// memorySide is one build's part of what memory did in a check.
type memorySide struct {
	Build string
	Said  []string
}

// sides are the builds of a check that watched memory, the judged one last.
func (g *Growth) sides() []memorySide {
	say := func(vs []memory.Verdict, upstream ...memory.Kind) (said []string) {
		for _, v := range vs {
			text := v.String()
			if slices.Contains(upstream, v.Kind) {
				text += ", which is upstream's"
			}
			said = append(said, text)
		}
		return said
	}
	var out []memorySide
	switch {
	case g.Stock != nil:
		out = append(out, memorySide{"stock", say(g.StockJudged)})
	case g.StockNote != "":
		out = append(out, memorySide{"stock", []string{g.StockNote}})
	}
	return append(out, memorySide{"patched", say(g.Judged, g.Upstream...)})
}

func (s *ServerRun) ready() string {
	if s.ReadySeconds == 0 {
		return "never"
	}
	return fmt.Sprintf("%.0f ms", s.ReadySeconds*1000)
}

func (s *ServerRun) looks() string {
	n := fmt.Sprint(len(s.Memory.Points))
	if s.Memory.Missed > 0 {
		n += fmt.Sprintf(" (%d missed)", s.Memory.Missed)
	}
	return n
}

func size(kib int64) string {
	if kib == 0 {
		return "not seen"
	}
	return memory.FormatBytes(float64(kib) * 1024)
}

// fact is a line about where and on what the checks ran.
type fact struct{ Name, Value string }

// facts are the machine and the source, as far as they are known.
func (r *Report) facts() []fact {
	m := r.Machine
	machine := m.OS + " " + m.Arch
	if m.Kernel != "" {
		machine += ", kernel " + m.Kernel
	}
	if m.CPU != "" {
		machine += ", " + m.CPU
	}
	machine += fmt.Sprintf(", %d cores", m.Cores)
	if m.MemoryKiB > 0 {
		machine += fmt.Sprintf(", %.1f GiB of memory", float64(m.MemoryKiB)/(1<<20))
	}
	card := r.Card
	if card == "" {
		card = "none"
	}
	series := strings.Join(r.Series, ", ")
	if series == "" {
		series = "no fix"
	}
	all := []fact{{"machine", machine}, {"card", card}}
	for _, f := range []fact{
		{"driver", r.Driver},
		{"run by", r.Wine},
		{"run in", r.Inside},
		{"tag", r.Tag},
		{"target", r.Target},
		{"commit", r.Commit},
		{"patched tree", r.Tree},
	} {
		if f.Value != "" {
			all = append(all, f)
		}
	}
	return append(all, fact{"fixes", series})
}
