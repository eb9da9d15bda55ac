package compat

import (
	"cmp"
	"fmt"
	"strings"
)

// Text renders the report for a terminal: each fix with its tags, runs of equal
// verdicts folded, then what is declared against what was found.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d %s on %d %s of %s, %s\n", r.Stack, len(r.Fixes), plural(len(r.Fixes), "fix", "fixes"),
		len(r.Tags), plural(len(r.Tags), "tag", "tags"), r.Source, Span{From: r.Tags[0].Name, To: r.Tags[len(r.Tags)-1].Name})
	for i := range r.Fixes {
		r.Fixes[i].text(&b)
	}
	b.WriteByte('\n')
	if r.Newest == "" {
		fmt.Fprintf(&b, "newest tag where all fits: none; the most fit %s: %d of %d\n", r.Most, r.MostFit, len(r.Fixes))
	} else {
		fmt.Fprintf(&b, "newest tag where all fits: %s\n", r.Newest)
	}
	if r.NewestBut != "" {
		fmt.Fprintf(&b, "newest tag where all fits but for ambiguity: %s\n", r.NewestBut)
	}
	if r.ThreeWay {
		fmt.Fprintf(&b, "newest tag where all fits or merges: %s\n", cmp.Or(r.NewestMerged, "none"))
	}
	if len(r.Left) > 0 {
		fmt.Fprintf(&b, "left out, because recipes/tags.lock has no build number of them, or only bounds: %s\n", strings.Join(r.Left, " "))
	}
	return b.String()
}

func (st *Status) text(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s", st.Fix)
	if st.Summary != "" {
		fmt.Fprintf(b, ": %s", st.Summary)
	}
	b.WriteByte('\n')
	runs := fold(st.Runs)
	var span, count, verdict int
	for _, r := range runs {
		span = max(span, len(Span{From: r.From, To: r.To}.String()))
		count = max(count, len(fmt.Sprint(r.Tags)))
		verdict = max(verdict, len(r.Verdict))
	}
	for _, r := range runs {
		line := fmt.Sprintf("  %-*s  %*d %-4s  %-*s  %s", span, Span{From: r.From, To: r.To}, count, r.Tags, plural(r.Tags, "tag", "tags"),
			verdict, r.Verdict, r.why())
		if r.Patch != "" && len(st.Variants) > 1 {
			line += fmt.Sprintf("  [%s]", r.Patch)
		}
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	for _, line := range st.defect() {
		fmt.Fprintln(b, "  "+line)
	}
	for _, p := range st.Variants {
		if p.Declared == "" {
			continue
		}
		fmt.Fprintf(b, "  %s declared %s, fits %s\n", p.Patch, p.Declared, spanList(p.Fits))
		if len(p.Fails) > 0 {
			fmt.Fprintf(b, "    declared, and does not fit: %s\n", spanList(p.Fails))
		}
		if len(p.Merges) > 0 {
			fmt.Fprintf(b, "    of these, merges: %s\n", spanList(p.Merges))
		}
		if len(p.Beyond) > 0 {
			fmt.Fprintf(b, "    fits, and is not declared: %s\n", spanList(p.Beyond))
		}
	}
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
