package leak

import (
	"fmt"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/report"
	"github.com/llpatch/llpatch/internal/run"
)

// Text is the result for a terminal.
func (r *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Headline())
	for _, v := range r.Verdicts {
		mark := " "
		if v.State == memory.Grows {
			mark = "!"
		}
		fmt.Fprintf(&b, "  %s %s\n", mark, v)
	}
	if why := r.NoVRAM(); why != "" {
		fmt.Fprintf(&b, "    VRAM is not known: %s\n", why)
	}
	section(&b, "evidence", r.Evidence[min(len(r.Verdicts), len(r.Evidence)):])
	section(&b, "forecast", r.Forecast)
	section(&b, "next", r.Next)
	section(&b, "notes", r.AllNotes())
	if r.End != "" {
		fmt.Fprintf(&b, "the program %s, by itself\n", r.End)
	}
	fmt.Fprintf(&b, "%d looks in %.1f s, place %s, workload %s: %d requests, %d tokens; files in %s\n",
		len(r.Series.Points), r.WorkTo, r.Place, r.Workload, r.Requests, r.Tokens, r.Work)
	return b.String()
}

func section(b *strings.Builder, name string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", name)
	for _, l := range lines {
		fmt.Fprintf(b, "  - %s\n", l)
	}
}

// Headline is the result in one line.
func (r *Result) Headline() string {
	switch r.Class {
	case None:
		return "no leak: memory is flat"
	case HostOnly:
		return "no leak of host memory; VRAM is not known"
	case Settles:
		return "no leak: memory grew, and settled"
	case Need:
		return "no leak: memory grows with the context, and not again when it is used again"
	case Explicit:
		return "an explicit leak: memory is taken and never given back"
	case Cache:
		if r.Cap != "" {
			return "a cache that grows, up to its own limit of " + r.Cap
		}
		return "a cache that grows: nothing is lost, and nothing stops it while the program runs"
	case Unknown:
		return "memory grows: a leak, or a cache without bounds"
	}
	if r.NoVRAM() != "" {
		return "VRAM could not be judged"
	}
	return "memory could not be judged"
}

// AllNotes are what a reader must know of the run and of its figures.
func (r *Result) AllNotes() []string {
	out := append([]string{}, r.Notes...)
	for _, n := range r.Series.Notes {
		if why := r.NoVRAM(); why == "" || !strings.HasSuffix(n, why) { // said where VRAM is judged
			out = append(out, n)
		}
	}
	for _, f := range r.Tools {
		for _, n := range f.Notes {
			out = append(out, f.Tool+": "+n)
		}
	}
	return out
}

// HTML returns the result as one page that needs nothing else. Series beside the
// run's own, such as that of an unpatched build, are drawn on the same charts.
func (r *Result) HTML(beside ...memory.Series) ([]byte, error) {
	about := fmt.Sprintf("%s, place %s, workload %s: %d requests, %d tokens", r.Began.Format("2006-01-02 15:04 MST"),
		r.Place, r.Workload, r.Requests, r.Tokens)
	if by := r.Series.Device.Source; by != "" {
		about += "; VRAM by " + by
	}
	if r.End != "" {
		about += "; the program " + r.End + ", by itself"
	}
	seen := report.Part{
		Text: []string{run.QuoteArgv(r.Argv)}, Notes: []string{about},
		Table: report.Table{Head: report.Columns("memory", "verdict", "what was seen")},
	}
	add := func(kind, state, said string, class string) {
		seen.Table.Rows = append(seen.Table.Rows, []report.Cell{{Text: kind}, {Text: state, Class: class}, {Text: said}})
	}
	for _, v := range r.Verdicts {
		add(v.Kind.String(), string(v.State), v.String(), map[memory.State]string{
			memory.Grows:   "bad",
			memory.Unclear: "warn",
		}[v.State])
	}
	if why := r.NoVRAM(); why != "" {
		add(memory.VRAM.String(), "not known", why, "warn")
	}
	doc := report.Doc{Title: r.Headline(), Parts: []report.Part{seen, {}}}
	all := append([]memory.Series{r.worked()}, beside...)
	for _, k := range []memory.Kind{memory.VRAM, memory.Anon, memory.RSS} {
		o := report.ChartOptions{Unit: r.unit()}
		if k == memory.VRAM {
			o.Limit = float64(r.Series.Device.Total - r.Series.Device.Baseline)
		}
		if v, ok := r.verdict(k); ok && v.State != memory.Unclear {
			o.Fits = []memory.Fit{v.Growth}
		}
		if svg := report.Chart(k.String()+" of "+r.Series.Name, k, all, o); svg != "" {
			doc.Parts[1].Charts = append(doc.Parts[1].Charts, svg)
		}
	}
	for _, l := range []report.Part{
		{Heading: "Evidence", List: r.Evidence[min(len(r.Verdicts), len(r.Evidence)):]},
		{Heading: "Forecast", List: r.Forecast},
		{Heading: "What to try next", List: r.Next},
		{Heading: "Notes", List: r.AllNotes()},
	} {
		if len(l.List) > 0 {
			doc.Parts = append(doc.Parts, l)
		}
	}
	for _, f := range r.Tools {
		t := report.Table{Head: report.Columns("#bytes", "#allocations", "where")}
		for _, p := range f.Places {
			t.Rows = append(t.Rows, report.Row(fmt.Sprint(p.Bytes), fmt.Sprint(p.Blocks), strings.Join(p.Stack, "\n")))
		}
		if len(t.Rows) > 0 {
			doc.Parts = append(doc.Parts, report.Part{Heading: "Places, by " + f.Tool, Table: t})
		}
	}
	return doc.HTML()
}
