package evidence

import (
	"strings"
	"testing"
)

// The record that the README's picture is from.
func TestChart(t *testing.T) {
	t.Parallel()
	res, err := ReadRecord("../../docs/evidence/2026-11-28-h200-b8833-speed.json")
	if err != nil {
		t.Fatal(err)
	}
	svg, err := res.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		">b8833 q8-64k on NVIDIA H200<", ">stock, peak 19.5 GiB<", ">published, peak 3.33 GiB<",
		">ours, peak 3.41 GiB<", "VRAM, GiB",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the chart", want)
		}
	}
	if n := strings.Count(svg, "<polyline"); n != 3 {
		t.Errorf("%d lines, want one a build", n)
	}
	if _, err := res.Chart("q8"); err == nil || !strings.Contains(err.Error(), `no run "q8"; it has q8-64k, `) {
		t.Error(err)
	}
	for i := range res.Runs {
		res.Runs[i].Sample = Samples{}
	}
	if _, err := res.Chart(""); err == nil || !strings.Contains(err.Error(), "no samples") {
		t.Error(err)
	}
}
