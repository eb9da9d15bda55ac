package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/memory"
)

// growing has 900 looks at memory that grows by a step each, from 500 MiB.
func growing(name string, step int64, set func(*memory.Point, *int64)) memory.Series {
	s := memory.Series{Name: name, EverySecs: 0.1}
	for i := range int64(900) {
		b := 500<<20 + i*step + i%7*4096
		p := memory.Point{Seconds: float64(i) / 10, Tokens: 23 * i}
		set(&p, &b)
		s.Points = append(s.Points, p)
	}
	return s
}

func vram(p *memory.Point, b *int64) { p.VRAM = b }

func TestChart(t *testing.T) {
	stock, patched := growing("stock", 6<<20, vram), growing("patched <&>", 1<<20, vram)
	v := memory.JudgeKind(stock, memory.VRAM, memory.JudgeOptions{})
	svg := string(Chart("VRAM of llama-server, prefill", memory.VRAM, []memory.Series{stock, patched},
		ChartOptions{Limit: 8 << 30, Fits: []memory.Fit{v.Growth}}))
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
	for _, want := range []string{
		"the card ends: 8.00 GiB", "tokens", "VRAM, GiB", "patched &lt;&amp;&gt;",
		"prefers-color-scheme:dark", "stock, peak", `class="f s0"`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the chart", want)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || len(svg) > 40<<10 {
		t.Errorf("%d bytes, NaN or Inf", len(svg))
	}
	if Chart("x", memory.PSS, []memory.Series{stock}, ChartOptions{}) != "" {
		t.Error("a chart of nothing")
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1234567: "1,234,567", 0.25: "0.25", -1500: "-1,500", 999: "999",
		20480.5: "20,480.5",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
