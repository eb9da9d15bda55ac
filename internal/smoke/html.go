package smoke

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
)

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"class": verdictClass}).Parse(pageText))

func verdictClass(v Verdict) string {
	return map[Verdict]string{Passed: "passed", Wrong: "failed", NotJudged: "could", Absent: "absent"}[v]
}

// pageCheck is a check as the page shows it.
type pageCheck struct {
	Name, Place, Detail, Figures, Fault, Log, Tail string
	ID                                             string // of its own part of the page; empty: it has none
	Verdict                                        Verdict
	Seconds                                        float64
	Broken                                         bool // its detail is shown again, in its own part
	Charts                                         []template.HTML
	Sides                                          []memorySide
}

type pageServer struct{ Check, Build, Ready, RSS, VRAM, Looks, End string }

// HTML returns the report as one page that needs nothing else: no file, no
// script, no network. What programs printed is escaped.
func (r *Report) HTML() ([]byte, error) {
	data := struct {
		R                     *Report
		Title, Tally, Started string
		More                  string // why counts are higher than asked for, where they may be
		Absent, VRAM          bool
		Checks                []pageCheck
		Facts                 []fact
		Servers               []pageServer
	}{
		R: r, Title: strings.TrimSpace(r.Tag + " " + r.Target), Tally: r.tally(),
		Started: r.Started.UTC().Format("2006-01-02 15:04 UTC"), Absent: r.count(Absent) > 0, Facts: r.facts(),
	}
	for i := range r.Checks {
		data.Checks = append(data.Checks, r.pageCheck(i))
		if r.Checks[i].Growth != nil {
			data.More = moreThanAsked
		}
	}
	for i := range r.Servers {
		s := &r.Servers[i]
		data.VRAM = data.VRAM || s.PeakVRAMKiB > 0
		data.Servers = append(data.Servers, pageServer{s.Check, s.Build, s.ready(), size(s.PeakRSSKiB), size(s.PeakVRAMKiB), s.looks(), s.End})
	}
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("smoke report: html: %w", err)
	}
	return b.Bytes(), nil
}

func (r *Report) pageCheck(i int) pageCheck {
	c := &r.Checks[i]
	p := pageCheck{
		Name: c.Name, Place: c.Place, Detail: c.Detail, Fault: c.Fault, Log: c.Log, Tail: strings.Join(c.Tail, "\n"),
		Verdict: c.Verdict, Seconds: c.Seconds, Broken: c.Verdict == Wrong || len(c.Tail) > 0,
	}
	var figures []string
	for _, k := range slices.Sorted(maps.Keys(c.Figures)) {
		figures = append(figures, fmt.Sprintf("%s %v", strings.ReplaceAll(k, "_", " "), figure(c.Figures[k])))
	}
	p.Figures = strings.Join(figures, ", ")
	if c.Growth != nil {
		p.Charts, p.Sides = r.charts(c), c.Growth.sides()
	}
	if p.Broken || c.Growth != nil {
		p.ID = fmt.Sprintf("check-%d", i+1)
	}
	return p
}

// charts draws what a check's servers took: device memory where there is any,
// and what they allocated themselves off it.
func (r *Report) charts(c *Result) []template.HTML {
	g := c.Growth
	var series []memory.Series
	fits := map[memory.Kind][]memory.Fit{}
	add := func(server int, judged []memory.Verdict) {
		if server < 0 || server >= len(r.Servers) {
			return // a report that was read back and does not hold together
		}
		series = append(series, r.Servers[server].Memory)
		for _, k := range []memory.Kind{memory.VRAM, memory.Anon} {
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
	for _, k := range []memory.Kind{memory.VRAM, memory.Anon} {
		title := fmt.Sprintf("%s: %s", c.Name, k)
		//nolint:gosec // Chart escapes what it is given and writes the rest itself
		if svg := memory.Chart(title, k, series, memory.ChartOptions{Unit: g.Unit, Fits: fits[k]}); svg != "" {
			out = append(out, template.HTML(svg))
		}
	}
	return out
}
