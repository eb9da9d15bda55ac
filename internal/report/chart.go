package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
)

// ChartOptions are how to draw.
type ChartOptions struct {
	Unit  memory.Unit  // empty: the finest that all series have
	Limit float64      // bytes; a line where the card ends, 0: none
	Fits  []memory.Fit // drawn over the series of the same place; a zero Fit is not
}

// The chart's measures, in the units of its viewBox.
const (
	chartW, chartH        = 760.0, 380.0
	left, right, top, bot = 78.0, 20.0, 64.0, 52.0
	chartPoints           = 500 // of a series: more are drawn as their lowest and highest
)

// chartStyle follows the reader's light or dark setting. The colours of the lines
// differ in lightness too, and each line after the first is dashed in its own way,
// so that they can be told apart without colour.
const chartStyle = `<style>
.llp-chart{font:12px system-ui,sans-serif;color:#1c2128;background:#fff;max-width:100%;height:auto}
.llp-chart text{fill:currentColor}.llp-chart .t{font-size:15px;font-weight:600}.llp-chart .m{fill:#57606a}
.llp-chart .g{stroke:#d8dee4}.llp-chart .a{stroke:#57606a}
.llp-chart .l{fill:none;stroke-width:2;stroke-linejoin:round}.llp-chart .f{fill:none;stroke-width:1;stroke-dasharray:2 3}
.llp-chart .s0{stroke:#b8400c}.llp-chart .s1{stroke:#0969da;stroke-dasharray:9 4}.llp-chart .s2{stroke:#1a7f37;stroke-dasharray:4 3}.llp-chart .s3{stroke:#8250df;stroke-dasharray:1 3}
.llp-chart .lim{stroke:#82071e;stroke-dasharray:6 3}
@media(prefers-color-scheme:dark){.llp-chart{color:#e6edf3;background:#0d1117}.llp-chart .m{fill:#9da7b1}.llp-chart .g{stroke:#30363d}.llp-chart .a{stroke:#9da7b1}
.llp-chart .s0{stroke:#ff9b63}.llp-chart .s1{stroke:#58a6ff}.llp-chart .s2{stroke:#56d364}.llp-chart .s3{stroke:#bc8cff}.llp-chart .lim{stroke:#ff7b72}}
</style>`

// Chart draws one kind of memory of some series over their progress, as one SVG
// element for an HTML page or a file of its own: nothing outside it is needed.
// It is empty where no series has two figures of that kind.
func Chart(title string, k memory.Kind, series []memory.Series, o ChartOptions) template.HTML {
	var drawn []memory.Series
	for _, s := range series {
		if s.Has(k) {
			drawn = append(drawn, s)
		}
	}
	if len(drawn) == 0 {
		return ""
	}
	if o.Unit == "" {
		o.Unit = drawn[0].BestUnit()
		for _, s := range drawn[1:] {
			if s.BestUnit() != o.Unit {
				o.Unit = memory.Second
			}
		}
	}
	c := chart{k: k, o: o}
	for _, s := range drawn {
		c.lines = append(c.lines, c.points(s))
	}
	c.scale()

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="llp-chart" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`,
		chartW, chartH, chartW, chartH, html.EscapeString(title))
	b.WriteString(chartStyle)
	fmt.Fprintf(&b, `<text class="t" x="%.0f" y="22">%s</text>`, left, html.EscapeString(title))
	c.axes(&b)
	if y := o.Limit; y > 0 && y <= c.y1 {
		fmt.Fprintf(&b, `<line class="lim" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="m" x="%.1f" y="%.1f" text-anchor="end">the card ends: %s</text>`,
			left, chartW-right, c.py(y), c.py(y), chartW-right, c.py(y)-4, memory.FormatBytes(y))
	}
	x := left
	for i, pts := range c.lines {
		style := fmt.Sprintf("s%d", i%4)
		fmt.Fprintf(&b, `<polyline class="l %s" points="%s"/>`, style, c.path(pts))
		if i < len(o.Fits) && o.Fits[i].To > o.Fits[i].From {
			f := o.Fits[i]
			fmt.Fprintf(&b, `<line class="f %s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, style,
				c.px(f.From), c.py(f.Intercept+f.Slope*f.From), c.px(f.To), c.py(f.Intercept+f.Slope*f.To))
		}
		name := drawn[i].Name
		if peak, ok := drawn[i].Peak(k); ok {
			name += ", peak " + memory.FormatBytes(float64(peak))
		}
		fmt.Fprintf(&b, `<line class="l %s" x1="%.1f" x2="%.1f" y1="42" y2="42"/><text x="%.1f" y="46">%s</text>`, style, x,
			x+30, x+36, html.EscapeString(name))
		x += 60 + 6.6*float64(len([]rune(name)))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // what it was given is escaped above
}

// xy is a point: progress and bytes.
type xy struct{ x, y float64 }

type chart struct {
	k              memory.Kind
	o              ChartOptions
	lines          [][]xy
	x0, x1, y0, y1 float64
	stepX, stepY   float64
}

// points takes a series' figures, and of every small stretch only the lowest and
// the highest: a peak must stay to be seen.
func (c *chart) points(s memory.Series) []xy {
	var all []xy
	for _, p := range s.Points {
		if v, ok := p.Bytes(c.k); ok {
			all = append(all, xy{p.At(c.o.Unit), float64(v)})
		}
	}
	n := (len(all) + chartPoints/2 - 1) / (chartPoints / 2)
	if n <= 2 {
		return all
	}
	var out []xy
	for len(all) > 0 {
		part := all[:min(n, len(all))]
		all = all[len(part):]
		lo, hi := 0, 0
		for i, p := range part {
			if p.y < part[lo].y {
				lo = i
			}
			if p.y > part[hi].y {
				hi = i
			}
		}
		out = append(out, part[min(lo, hi)])
		if lo != hi {
			out = append(out, part[max(lo, hi)])
		}
	}
	return out
}

func (c *chart) scale() {
	c.x0, c.y0 = math.Inf(1), math.Inf(1)
	c.x1, c.y1 = math.Inf(-1), math.Inf(-1)
	for _, l := range c.lines {
		for _, p := range l {
			c.x0, c.x1 = min(c.x0, p.x), max(c.x1, p.x)
			c.y0, c.y1 = min(c.y0, p.y), max(c.y1, p.y)
		}
	}
	// A card's end is shown where it is near: else the lines would be flat.
	if l := c.o.Limit; l > c.y1 && l < 2*c.y1 {
		c.y1 = l
	}
	// Noise must not fill the picture.
	if least := max(0.05*c.y1, 1<<20); c.y1-c.y0 < least {
		mid := (c.y0 + c.y1) / 2
		c.y0, c.y1 = max(0, mid-least/2), mid+least/2
	}
	if c.y0 < c.y1/2 {
		c.y0 = 0
	}
	if c.x1 <= c.x0 {
		c.x1 = c.x0 + 1
	}
	unit := float64(1 << 20)
	if c.y1 >= 4<<30 {
		unit = 1 << 30
	}
	c.stepY = unit * nice((c.y1-c.y0)/unit/5)
	c.y0 = c.stepY * math.Floor(c.y0/c.stepY)
	c.y1 = c.stepY * math.Ceil(c.y1/c.stepY)
	c.stepX = nice((c.x1 - c.x0) / 6)
}

// nice is the next 1, 2 or 5 times a power of ten.
func nice(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*p*1.0001 {
			return m * p
		}
	}
	return 10 * p
}

func (c *chart) px(x float64) float64 {
	return left + (x-c.x0)/(c.x1-c.x0)*(chartW-left-right)
}

func (c *chart) py(y float64) float64 {
	return chartH - bot - (y-c.y0)/(c.y1-c.y0)*(chartH-top-bot)
}

func (c *chart) path(pts []xy) string {
	var b strings.Builder
	for i, p := range pts {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.1f,%.1f", c.px(p.x), c.py(p.y))
	}
	return b.String()
}

func (c *chart) axes(b *strings.Builder) {
	gib := c.y1 >= 4<<30
	for i := 0; ; i++ {
		y := c.y0 + float64(i)*c.stepY
		if y > c.y1+c.stepY/2 {
			break
		}
		label := number(y / (1 << 20))
		if gib {
			label = number(y / (1 << 30))
		}
		fmt.Fprintf(b, `<line class="g" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="m" x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			left, chartW-right, c.py(y), c.py(y), left-8, c.py(y)+4, label)
	}
	for x := c.stepX * math.Ceil(c.x0/c.stepX-1e-9); x <= c.x1+c.stepX*1e-6; x += c.stepX {
		fmt.Fprintf(b, `<line class="a" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="m" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`,
			c.px(x), c.px(x), chartH-bot, chartH-bot+5, c.px(x), chartH-bot+19, number(x))
	}
	fmt.Fprintf(b, `<line class="a" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, left, chartW-right, chartH-bot, chartH-bot)
	unit := "MiB"
	if gib {
		unit = "GiB"
	}
	x := map[memory.Unit]string{memory.Token: "tokens", memory.Request: "requests", memory.Second: "seconds"}[c.o.Unit]
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, (left+chartW-right)/2, chartH-12, x)
	fmt.Fprintf(b, `<text x="18" y="%.1f" text-anchor="middle" transform="rotate(-90 18 %.1f)">%s, %s</text>`,
		(top+chartH-bot)/2, (top+chartH-bot)/2, c.k, unit)
}

// number writes a tick: thousands are set apart, and no more places than needed.
func number(v float64) string {
	s := strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
	if s == "-0" {
		s = "0"
	}
	whole, frac, dot := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		return whole + "." + frac
	}
	return whole
}
