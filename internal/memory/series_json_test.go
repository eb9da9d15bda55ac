package memory

import (
	"encoding/json"
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
