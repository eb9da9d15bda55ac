package compat

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/llpatch/llpatch/internal/report"
)

// Text is the report for a terminal: each fix with its tags, runs of equal verdicts folded, then
// what is declared against what was found, and at last where all fits.
func (r *Report) Text() string {
	d := r.doc()
	d.Parts = append(d.Parts[1:], d.Parts[0])
	return d.Text()
}

// HTML is the report as one page that needs nothing else: a heat map with the tags along and the
// fixes down, in which a click opens the reason, and then what Text says.
func (r *Report) HTML() ([]byte, error) { return r.doc().HTML() }

// doc has the summary first, and then a part for each fix.
func (r *Report) doc() report.Doc {
	all := Span{From: r.Tags[0].Name, To: r.Tags[len(r.Tags)-1].Name}
	d := report.Doc{Title: r.Stack, Mark: report.Mark{Class: "mute", Text: fmt.Sprintf("%d %s on %d %s of %s, %s",
		len(r.Fixes), plural(len(r.Fixes), "fix", "fixes"), len(r.Tags), plural(len(r.Tags), "tag", "tags"), r.Source, all)}}
	newest := cmp.Or(r.Newest, fmt.Sprintf("none; the most fit %s: %d of %d", r.Most, r.MostFit, len(r.Fixes)))
	sum := report.Part{Text: []string{"newest tag where all fits: " + newest}}
	if r.NewestBut != "" {
		sum.Text = append(sum.Text, "newest tag where all fits but for ambiguity: "+r.NewestBut)
	}
	if r.ThreeWay {
		sum.Text = append(sum.Text, "newest tag where all fits or merges: "+cmp.Or(r.NewestMerged, "none"))
	}
	sum.Text = append(sum.Text, r.Security...)
	if len(r.Left) > 0 {
		sum.Text = append(sum.Text,
			"left out, because recipes/tags.lock has no build number of them, or only bounds: "+strings.Join(r.Left, " "))
	}
	for _, v := range verdicts {
		if (v != Merged || r.ThreeWay) && (v != NotForTarget || r.targeted()) {
			sum.Map.Legend = append(sum.Map.Legend, report.Mark{Text: string(v), Class: class(v)})
		}
	}
	for _, t := range r.Tags {
		sum.Map.Columns = append(sum.Map.Columns, t.Name)
	}
	d.Parts = []report.Part{{}}
	for i := range r.Fixes {
		part, row := r.Fixes[i].part()
		d.Parts, sum.Map.Rows = append(d.Parts, part), append(sum.Map.Rows, row)
	}
	d.Parts[0] = sum
	return d
}

func class(v Verdict) string { return strings.ReplaceAll(string(v), " ", "-") }

// part is what there is to say of a fix, and its row of the map.
func (st *Status) part() (report.Part, report.MapRow) {
	part := report.Part{Heading: st.Fix, Notes: st.defect()}
	part.Table.Head = report.Columns("tags", "count", "verdict", "why")
	if st.Summary != "" {
		part.Heading += ": " + st.Summary
	}
	row := report.MapRow{Name: st.Fix}
	next := 0 // of st.Runs
	for _, r := range fold(st.Runs) {
		span := Span{From: r.From, To: r.To}.String()
		why := r.why()
		if r.Patch != "" && len(st.Variants) > 1 {
			why += "  [" + r.Patch + "]"
		}
		part.Table.Rows = append(part.Table.Rows,
			report.Row(span, fmt.Sprint(r.Tags, plural(r.Tags, " tag", " tags")), string(r.Verdict), why))
		var reasons []string
		for ; next < len(st.Runs) && st.Runs[next].first <= r.last; next++ {
			one := &st.Runs[next]
			reasons = append(reasons, Span{From: one.From, To: one.To}.String()+": "+one.reason())
		}
		reasons = append(reasons, st.defect()...)
		row.Runs = append(row.Runs, report.MapRun{
			First: r.first, Width: r.last - r.first + 1,
			Is:  report.Mark{Text: span + ": " + string(r.Verdict), Class: class(r.Verdict)},
			Why: strings.Join(reasons, "\n\n"),
		})
	}
	for _, p := range st.Variants {
		if p.Declared == "" {
			continue
		}
		part.Notes = append(part.Notes, fmt.Sprintf("%s declared %s, fits %s", p.Patch, p.Declared, spanList(p.Fits)))
		if len(p.Fails) > 0 {
			part.Notes = append(part.Notes, "  declared, and does not fit: "+spanList(p.Fails))
		}
		if len(p.Merges) > 0 {
			part.Notes = append(part.Notes, "  of these, merges: "+spanList(p.Merges))
		}
		if len(p.Beyond) > 0 {
			part.Notes = append(part.Notes, "  fits, and is not declared: "+spanList(p.Beyond))
		}
	}
	return part, row
}

// spanList names the spans, but not more than a line can hold.
func spanList(spans []Span) string {
	if len(spans) == 0 {
		return "no tag"
	}
	const most = 6
	var s []string
	for _, span := range spans[:min(len(spans), most)] {
		s = append(s, span.String())
	}
	if n := len(spans) - most; n > 0 {
		s = append(s, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(s, ", ")
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
		b.WriteString("\n\nSome hunk has no place. The merge is clean, and git merge-file or a kept resolution gives the " +
			"same.\nClean is not right: llpatch apply " + r.From + " TARGET --three-way shows it.")
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
