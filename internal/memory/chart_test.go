package memory

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func made(name string, s shape, seed uint64, k Kind) Series {
	out := Series{Name: name, EverySecs: 0.1}
	for i, p := range s.run(seed) {
		b := int64(p.y)
		pt := Point{Seconds: float64(i) / 10, Tokens: int64(p.x)}
		if k == VRAM {
			pt.VRAM = &b
		} else {
			pt.RSS, pt.Anon = &b, &b
		}
		out.Points = append(out.Points, pt)
	}
	return out
}

func TestChart(t *testing.T) {
	stock := made("stock", shape{900, 20480, peaks(2*mibF, 200*mibF, 0.01), leak(250*kib, 32*mibF, 0)}, 1, VRAM)
	patched := made("patched <&>", shape{900, 20480, white(2 * mibF), settling(900*mibF, 3000)}, 2, VRAM)
	v := JudgeKind(stock, VRAM, JudgeOptions{})
	svg := Chart("VRAM of llama-server, prefill", VRAM, []Series{stock, patched}, ChartOptions{Limit: 8 << 30, Fits: []Fit{v.Growth}})
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
	for _, want := range []string{"the card ends: 8.00 GiB", "tokens", "VRAM, GiB", "patched &lt;&amp;&gt;", "prefers-color-scheme:dark", "stock, peak"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the chart", want)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || len(svg) > 40<<10 {
		t.Errorf("%d bytes, NaN or Inf", len(svg))
	}
	if dir := os.Getenv("CHART_DIR"); dir != "" {
		flat := made("stock", shape{900, 300, white(300 * kib), still}, 3, RSS)
		page := "<meta charset=utf-8><body style='margin:20px'>" + svg + Chart("RSS, flat", RSS, []Series{flat}, ChartOptions{Unit: Second})
		if err := os.WriteFile(dir+"/chart.html", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if Chart("x", PSS, []Series{stock}, ChartOptions{}) != "" {
		t.Error("a chart of nothing")
	}
}

// A series must survive its JSON: a report is made from what was kept.
func TestSeriesJSON(t *testing.T) {
	s := made("stock", shape{20, 100, white(kib), still}, 1, VRAM)
	s.Notes = []string{"a note"}
	s.Points[3].VRAM = nil
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Series
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(b) || back.Points[3].VRAM != nil || back.Points[2].VRAM == nil {
		t.Errorf("%v\n%s\n%s", err, b, again)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234567: "1,234,567", 0.25: "0.25", -1500: "-1,500", 999: "999", 20480.5: "20,480.5"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
