package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/report"
)

// Chart draws the memory of one run of the record over its time, every build's
// first pair on one chart, as an SVG file: VRAM where it was sampled, else RSS. An
// empty name takes the record's first run. It fails where the record has no such
// run, or no samples of it.
func (res *Result) Chart(run string) (string, error) {
	var names []string
	for _, r := range res.Runs {
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	if run == "" && len(names) > 0 {
		run = names[0]
	}
	if !slices.Contains(names, run) {
		return "", fmt.Errorf("the record has no run %q; it has %s", run, strings.Join(names, ", "))
	}
	var series []memory.Series
	kind := memory.RSS
	for _, r := range res.Runs {
		if r.Name != run || slices.ContainsFunc(series, func(s memory.Series) bool { return s.Name == r.Build }) {
			continue
		}
		// Pair 0 is a warm-up: it is drawn only where nothing came after it.
		if r.Pair == 0 && slices.ContainsFunc(res.Runs, func(o Run) bool {
			return o.Name == run && o.Build == r.Build && o.Pair > 0
		}) {
			continue
		}
		s := memory.Series{Name: r.Build}
		if len(r.Sample.VRAM) > 1 {
			kind = memory.VRAM
			s.Points = points(r.Sample.VRAMMS, r.Sample.VRAM, func(p *memory.Point, b *int64) { p.VRAM = b })
		} else {
			s.Points = points(r.Sample.MS, r.Sample.RSS, func(p *memory.Point, b *int64) { p.RSS = b })
		}
		series = append(series, s)
	}
	cards := slices.Compact(strings.Split(res.Card, ", "))
	title := strings.TrimSpace(res.Tag + " " + run)
	if kind == memory.VRAM {
		title += " on " + strings.Join(cards, ", ")
	}
	svg := report.Chart(title, kind, series, report.ChartOptions{Unit: memory.Second})
	if svg == "" {
		return "", fmt.Errorf("run %s of the record has no samples to draw", run)
	}
	return string(svg) + "\n", nil
}

// points are looks at one kind of memory, from ms and KiB.
func points(ms, kib []int64, set func(*memory.Point, *int64)) []memory.Point {
	out := make([]memory.Point, 0, len(ms))
	for i := range min(len(ms), len(kib)) {
		p := memory.Point{Seconds: float64(ms[i]) / 1000}
		bytes := kib[i] << 10
		set(&p, &bytes)
		out = append(out, p)
	}
	return out
}
