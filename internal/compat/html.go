package compat

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// page is what the template shows.
type page struct {
	*Report
	First, Last string
	Kinds       []kind
	Ticks       []tick
	Rows        []mapRow
	// Data is what a click looks up: the reasons, and for each fix its runs as
	// first tag, last tag, and number of the reason.
	Data struct {
		Tags    []string   `json:"tags"`
		Reasons []string   `json:"reasons"`
		Runs    [][][3]int `json:"runs"`
	}
}

// kind is a verdict in the legend.
type kind struct {
	Class string
	Name  Verdict
}

// tick is a tag that the axis names, at a share of its width.
type tick struct {
	Name    string
	Percent float64
}

// mapRow is a fix in the heat map.
type mapRow struct {
	Index        int
	Fix, Summary string
	Bars         []bar
	Proofs       []string
}

// bar is a run of one verdict; At and Tags count tags.
type bar struct {
	At, Tags    int
	Class, Text string
}

func class(v Verdict) string { return strings.ReplaceAll(string(v), " ", "-") }

// WriteHTML writes the report as one page that needs nothing else: a heat map
// with the tags along and the fixes down, in which a click opens the reason.
func (r *Report) WriteHTML(file string) error {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, r.page())
	if err == nil {
		err = atomicfile.WriteFile(file, b.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("page %s: %w", file, err)
	}
	return nil
}

func (r *Report) page() *page {
	p := &page{Report: r, First: r.Tags[0].Name, Last: r.Tags[len(r.Tags)-1].Name}
	for _, v := range verdicts {
		if v == Merged && !r.ThreeWay || v == NotForTarget && !r.targeted() {
			continue
		}
		p.Kinds = append(p.Kinds, kind{class(v), v})
	}
	for _, t := range r.Tags {
		p.Data.Tags = append(p.Data.Tags, t.Name)
	}
	const ticks = 8
	for k := range min(ticks, len(r.Tags)) {
		i := (len(r.Tags) - 1) * k / max(1, min(ticks, len(r.Tags))-1)
		p.Ticks = append(p.Ticks, tick{r.Tags[i].Name, 100 * (float64(i) + 0.5) / float64(len(r.Tags))})
	}
	number := map[string]int{}
	for i := range r.Fixes {
		st := &r.Fixes[i]
		row := mapRow{Index: i, Fix: st.Fix, Summary: st.Summary, Proofs: st.defect()}
		for _, run := range fold(st.Runs) {
			text := fmt.Sprintf("%s: %s", Span{From: run.From, To: run.To}, run.Verdict)
			row.Bars = append(row.Bars, bar{run.first, run.last - run.first + 1, class(run.Verdict), text})
		}
		for _, proof := range st.Variants {
			if proof.Declared != "" {
				row.Proofs = append(row.Proofs, fmt.Sprintf("%s: declared %s, fits %s", proof.Patch, proof.Declared, spanList(proof.Fits)))
			}
		}
		p.Rows = append(p.Rows, row)
		runs := make([][3]int, 0, len(st.Runs))
		for k := range st.Runs {
			run := &st.Runs[k]
			text := strings.Join(append([]string{run.reason() + "\n"}, st.defect()...), "\n")
			n, ok := number[text]
			if !ok {
				n = len(p.Data.Reasons)
				number[text] = n
				p.Data.Reasons = append(p.Data.Reasons, text)
			}
			runs = append(runs, [3]int{run.first, run.last, n})
		}
		p.Data.Runs = append(p.Data.Runs, runs)
	}
	return p
}

// reason is all there is to say about a run, on several lines.
func (r *Run) reason() string {
	var b strings.Builder
	b.WriteString(string(r.Verdict))
	if r.Patch != "" {
		fmt.Fprintf(&b, " (%s)", r.Patch)
	}
	if why := r.why(); why != "" {
		b.WriteString(": " + why)
	}
	if len(r.Landed) > 0 {
		b.WriteString("\n\n" + strings.Join(Landings(r.Landed, r.Verdict == Landed), "\n"))
	}
	if r.Verdict == Landed {
		return b.String()
	}
	if r.Verdict == Merged {
		b.WriteString("\n\nSome hunk has no place. The merge is clean, and git merge-file or a kept resolution gives the same.\nClean is not right: llpatch apply " + r.From + " TARGET --three-way shows it.")
		return b.String()
	}
	const most = 3
	for i, f := range r.Findings {
		if f.Held {
			fmt.Fprintf(&b, "\n\nupstream has %d more", len(r.Findings)-i)
			break
		}
		if i == most {
			fmt.Fprintf(&b, "\n\nand %d more", len(r.Findings)-i)
			break
		}
		b.WriteString("\n\n" + f.conflict(r.fix, r.variant, r.After).Error())
	}
	return b.String()
}
