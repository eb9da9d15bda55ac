package leak

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
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

var page = template.Must(template.New("leak").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{{.R.Headline}}</title>
<style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0 0 .3rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
code,pre{font:13px ui-monospace,monospace;overflow-wrap:anywhere}pre{white-space:pre-wrap}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8886;vertical-align:top}
.grows{color:#c0392b;font-weight:600}.unclear{color:#9a6700;font-weight:600}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}.grows{color:#ff7b72}.unclear{color:#e3b341}}
li{margin:.15rem 0}
</style></head><body>
<h1>{{.R.Headline}}</h1>
<p><code>{{.Cmd}}</code><br>{{.R.Began.Format "2006-01-02 15:04 MST"}}, place {{.R.Place}}, workload {{.R.Workload}}: {{.R.Requests}} requests, {{.R.Tokens}} tokens{{with .R.Series.Device.Source}}; VRAM by {{.}}{{end}}{{with .R.End}}; the program {{.}}, by itself{{end}}</p>
<table><tr><th>memory</th><th>verdict</th><th>what was seen</th></tr>
{{range .R.Verdicts}}<tr><td>{{.Kind}}</td><td class="{{.State}}">{{.State}}</td><td>{{.String}}</td></tr>
{{end}}{{with .R.NoVRAM}}<tr><td>VRAM</td><td class="unclear">not known</td><td>{{.}}</td></tr>
{{end}}</table>
{{range .Charts}}<p>{{.}}</p>
{{end}}
{{range .Lists}}{{if .Items}}<h2>{{.Name}}</h2><ul>{{range .Items}}<li>{{.}}</li>{{end}}</ul>
{{end}}{{end}}
{{range .R.Tools}}{{if .Places}}<h2>Places, by {{.Tool}}</h2><table><tr><th>bytes</th><th>allocations</th><th>where</th></tr>
{{range .Places}}<tr><td>{{.Bytes}}</td><td>{{.Blocks}}</td><td><pre>{{range .Stack}}{{.}}
{{end}}</pre></td></tr>{{end}}</table>{{end}}{{end}}
</body></html>
`))

type list struct {
	Name  string
	Items []string
}

// HTML writes the result as one page that needs nothing else. Series beside the
// run's own, such as that of an unpatched build, are drawn on the same charts.
func (r *Result) HTML(w io.Writer, beside ...memory.Series) error {
	all := append([]memory.Series{r.worked()}, beside...)
	var charts []template.HTML
	for _, k := range []memory.Kind{memory.VRAM, memory.Anon, memory.RSS} {
		o := memory.ChartOptions{Unit: r.unit()}
		if k == memory.VRAM {
			o.Limit = float64(r.Series.Device.Total - r.Series.Device.Baseline)
		}
		if v, ok := r.verdict(k); ok && v.State != memory.Unclear {
			o.Fits = []memory.Fit{v.Growth}
		}
		charts = append(charts, template.HTML(memory.Chart(k.String()+" of "+r.Series.Name, k, all, o)))
	}
	return page.Execute(w, map[string]any{
		"R": r, "Cmd": run.QuoteArgv(r.Argv), "Charts": charts,
		"Lists": []list{
			{"Evidence", r.Evidence[min(len(r.Verdicts), len(r.Evidence)):]},
			{"Forecast", r.Forecast},
			{"What to try next", r.Next},
			{"Notes", r.AllNotes()},
		},
	})
}
