package smoke

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/report"
)

// Markdown returns the report for a pull request or release notes.
func (r *Report) Markdown() string { return r.doc().Markdown() }

func (v Verdict) mark() report.Mark {
	return report.Mark{Text: string(v), Class: map[Verdict]string{
		Passed: "good", Failed: "bad", Errored: "warn",
		Skipped: "mute",
	}[v]}
}

// doc is the report for a reader.
func (r *Report) doc() report.Doc {
	checks := report.Part{
		Heading: "Checks",
		Table:   report.Table{Head: report.Columns("check", "place", "verdict", "#seconds", "what was seen")},
	}
	var own []report.Part
	more := false
	for i := range r.Checks {
		c := &r.Checks[i]
		row := report.Row(c.Name, c.Place, "", fmt.Sprintf("%.2f", c.Seconds), c.seen())
		m := c.Verdict.mark()
		row[2] = report.Cell{Text: m.Text, Class: m.Class}
		if c.Verdict == Failed || len(c.Tail) > 0 || c.Growth != nil {
			row[0].Link = fmt.Sprintf("check-%d", i+1)
			own = append(own, r.part(c, row[0].Link)...)
		}
		checks.Table.Rows = append(checks.Table.Rows, row)
		more = more || c.Growth != nil
	}
	if r.count(Skipped) > 0 {
		checks.Notes = append(checks.Notes, "A check that was not run needs a card that is not here; it stops nothing, "+
			"and shows nothing.")
	}
	if more {
		checks.Notes = append(checks.Notes, moreThanAsked)
	}
	when := fmt.Sprintf("%.1f s, %s, by llpatch", r.Seconds, r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	parts := append([]report.Part{{Text: []string{r.tally()}, Notes: []string{when}}, checks}, own...)
	parts = append(parts, report.Part{Heading: "Machine and source", Facts: r.facts()})
	if len(r.Servers) > 0 {
		t := report.Table{Head: report.Columns("started for", "build", "#ready after", "#peak RSS", "#looks", "end")}
		for i := range r.Servers {
			s := &r.Servers[i]
			peak := size(s.PeakRSSKiB)
			if s.PeakVRAMKiB > 0 {
				peak += ", VRAM " + size(s.PeakVRAMKiB)
			}
			t.Rows = append(t.Rows, report.Row(s.Check, s.Build, s.ready(), peak, s.looks(), s.End))
		}
		parts = append(parts, report.Part{
			Heading: fmt.Sprintf("Servers that were started: %d", len(r.Servers)), Fold: true,
			Table: t,
		})
	}
	if len(r.Models) > 0 {
		p := report.Part{
			Heading: fmt.Sprintf("Models that were made (nothing was downloaded): %d", len(r.Models)),
			Fold:    true,
		}
		for _, m := range r.Models {
			p.List = append(p.List, fmt.Sprintf("%s, seed %d, %d layers of %d, %d bytes, sha256 %s", m.Type, m.Seed, m.Layers,
				m.Embd, m.Bytes, m.SHA256))
		}
		parts = append(parts, p)
	}
	return report.Doc{
		Title: "Smoke checks of " + strings.TrimSpace(r.Tag+" "+r.Target), Mark: r.Verdict.mark(),
		Parts: parts,
	}
}

// part is what there is to say about a check that failed or watched memory.
func (r *Report) part(c *Result, id string) []report.Part {
	p := report.Part{ID: id, Heading: c.Name, Place: c.Place, Mark: c.Verdict.mark(), Log: c.Log, Tail: c.Tail}
	if c.Verdict == Failed || len(c.Tail) > 0 {
		p.Text = []string{c.Detail}
		if c.Fault != "" {
			p.Notes = []string{"Fault: " + c.Fault}
		}
	}
	if c.Growth == nil {
		return []report.Part{p}
	}
	p.Charts = r.charts(c)
	return append([]report.Part{p}, c.Growth.sides()...)
}

// charts draws what a check's servers took: device memory where there is any,
// and what they allocated themselves off it.
func (r *Report) charts(c *Result) []template.HTML {
	g := c.Growth
	var series []memory.Series
	fits := map[memory.Kind][]memory.Fit{}
	kinds := []memory.Kind{memory.VRAM, memory.Anon}
	add := func(server int, judged []memory.Verdict) {
		if server < 0 || server >= len(r.Servers) {
			return // a report that was read back and does not hold together
		}
		series = append(series, r.Servers[server].Memory)
		for _, k := range kinds {
			var f memory.Fit
			for _, v := range judged {
				if v.Kind == k && v.State == memory.Grows {
					f = v.Growth
				}
			}
			fits[k] = append(fits[k], f)
		}
	}
	if g.Stock != nil {
		add(*g.Stock, g.StockJudged)
	}
	add(g.Server, g.Judged)
	var out []template.HTML
	for _, k := range kinds {
		if svg := report.Chart(fmt.Sprintf("%s: %s", c.Name, k), k, series,
			report.ChartOptions{Unit: g.Unit, Fits: fits[k]}); svg != "" {
			out = append(out, svg)
		}
	}
	return out
}

// junit returns the report as JUnit XML: a failed check is a failure, one that
// could not run an error, since it is no pass, and one whose card is absent is
// skipped.
func (r *Report) junit() ([]byte, error) {
	var cases []report.Case
	for _, c := range r.Checks {
		one := report.Case{Name: c.Name, Class: strings.ReplaceAll(r.Target+"."+c.Place, " ", "_"), Seconds: c.Seconds}
		why := &report.Problem{Type: string(c.Verdict), Text: strings.Join(append([]string{c.Detail}, c.Tail...), "\n")}
		switch c.Verdict {
		case Failed:
			why.Type = cmp.Or(c.Fault, why.Type)
			one.Failed = why
		case Errored:
			one.Errored = why
		case Skipped:
			one.Skipped = why
		default:
			one.Output = c.seen()
		}
		cases = append(cases, one)
	}
	return report.JUnit("llpatch "+r.name(), r.Started, r.Seconds, r.facts(), cases)
}

// tally is how many checks had which verdict.
func (r *Report) tally() string {
	t := fmt.Sprintf("%d checks: %d passed, %d failed, %d could not run", len(r.Checks), r.count(Passed), r.count(Failed),
		r.count(Errored))
	if n := r.count(Skipped); n > 0 {
		t += fmt.Sprintf(", %d not run (no card here)", n)
	}
	return t + "."
}

// moreThanAsked explains counts that a reader of the recipe would not expect.
const moreThanAsked = "A check that watches memory goes on, past the requests, rounds or repeats that the recipe " +
	"asks for, until there are looks enough for memory to be judged; where host memory grows, or nobody can tell what " +
	"it did, all is done once more, for longer."

// seen is what a check has to say, with its figures.
func (c *Result) seen() string {
	parts := []string{}
	if c.Detail != "" {
		parts = append(parts, c.Detail)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Figures)) {
		v := c.Figures[k]
		if f, ok := v.(float64); ok { // JSON has all digits
			v = fmt.Sprintf("%.4g", f)
		}
		parts = append(parts, fmt.Sprintf("%s %v", strings.ReplaceAll(k, "_", " "), v))
	}
	return strings.Join(parts, "; ")
}

// sides are the builds of a check that watched memory, the judged one last.
func (g *Growth) sides() (out []report.Part) {
	add := func(build, note string, vs []memory.Verdict, upstream ...memory.Kind) {
		p := report.Part{Heading: build, Sub: true}
		if note != "" {
			p.List = []string{note}
		}
		for _, v := range vs {
			text := v.String()
			if slices.Contains(upstream, v.Kind) {
				text += ", which is upstream's"
			}
			p.List = append(p.List, text)
		}
		out = append(out, p)
	}
	if g.Stock != nil || g.StockNote != "" {
		add("stock", g.StockNote, g.StockJudged)
	}
	add("patched", "", g.Judged, g.Upstream...)
	return out
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

// facts are the machine and the source, as far as they are known.
func (r *Report) facts() []report.Fact {
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
	all := []report.Fact{{Name: "machine", Value: machine}, {Name: "card", Value: cmp.Or(r.Card, "none")}}
	for _, f := range [][2]string{
		{"driver", r.Driver},
		{"run by", r.Wine},
		{"run in", r.Inside},
		{"tag", r.Tag},
		{"target", r.Target},
		{"commit", r.Commit},
		{"patched tree", r.Tree},
	} {
		if f[1] != "" {
			all = append(all, report.Fact{Name: f[0], Value: f[1]})
		}
	}
	return append(all, report.Fact{Name: "fixes", Value: cmp.Or(strings.Join(r.Series, ", "), "no fix")})
}
