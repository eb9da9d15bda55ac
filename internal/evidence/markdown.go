package evidence

import (
	"fmt"
	"strings"

	"github.com/llpatch/llpatch/internal/report"
)

// Markdown is the record as a table, one row a run and build, and the aims that
// were not reached below it.
func (res *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", strings.TrimRight(res.What, ".\n "), res.Card)
	if res.Driver != "" {
		fmt.Fprintf(&b, ", driver %s", res.Driver)
	}
	if res.CUDA != "" {
		fmt.Fprintf(&b, ", CUDA %s", res.CUDA)
	}
	if res.Tag != "" {
		fmt.Fprintf(&b, ", %s", res.Tag)
	}
	fmt.Fprintf(&b, ". Ratios are to %s, of the same pair: the median, and its interval of 95 %% or a little more.",
		res.Baseline)
	part := report.Part{Text: []string{b.String()}}
	part.Table.Head = report.Columns("run", "build", "#pairs", "exit", "#peak VRAM MiB", "#RSS MiB", "#prefill t/s",
		"ratio", "#decode t/s", "ratio", "tokens", "aims")
	var below report.Part
	for _, s := range res.Summary {
		part.Table.Rows = append(part.Table.Rows, report.Row(s.Run, s.Build, fmt.Sprint(s.Runs),
			strings.Trim(fmt.Sprint(s.RC), "[]"),
			whole(s.PeakVRAM), whole(s.RSS), speed(s.PP), ratio(s.PPRatio), speed(s.TG), ratio(s.TGRatio), fmt.Sprint(s.Tokens),
			aimsText(s.Aims)))
		for _, c := range s.Aims {
			if c.State != Passed {
				below.List = append(below.List, fmt.Sprintf("%s, %s, %s: %s: %s", s.Run, s.Build, c.State, c.Aim, c.Got))
			}
		}
	}
	below.List = append(below.List, res.Notes...)
	return report.Doc{Parts: []report.Part{part, below}}.Markdown()
}

func whole(v *int64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

func speed(v *float64) string {
	if v == nil {
		return ""
	}
	if *v < 100 {
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.0f", *v)
}

func ratio(r *Ratio) string {
	if r == nil {
		return ""
	}
	return r.String()
}

func aimsText(all []Check) string {
	passed := 0
	for _, c := range all {
		if c.State == Passed {
			passed++
		}
	}
	return fmt.Sprintf("%d of %d", passed, len(all))
}
