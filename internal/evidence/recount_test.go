package evidence

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const keptRecord = "../../docs/evidence/2026-11-28-h200-b8833-right.json"

// A record whose figures do not follow from its runs is refused, whichever was edited.
func TestRecount(t *testing.T) {
	data, err := os.ReadFile(keptRecord)
	if err != nil {
		t.Fatal(err)
	}
	f := func(v float64) *float64 { return &v }
	n := func(v int64) *int64 { return &v }
	for name, c := range map[string]struct {
		edit func(r *Result)
		want string
	}{
		"nothing": {func(*Result) {}, ""},
		"a median": {func(r *Result) {
			r.Summary[2].PPRatio.Median = 9
		}, "its summary of run ub64, build ours is not"},
		"a peak above all": {func(r *Result) { r.Summary[0].PeakVRAM = n(1) }, "its summary of run ub64, build stock is not"},
		"a verdict": {func(r *Result) {
			r.Summary[0].Aims[0].State = Missed
		}, "its summary of run ub64, build stock is not"},
		"a line left out": {func(r *Result) { r.Summary = r.Summary[1:] }, "its summary has 24 lines, and its runs give 25"},
		"a run left out":  {func(r *Result) { r.Runs = r.Runs[1:] }, "its summary has 25 lines, and its runs give 24"},
		"a run's speed":   {func(r *Result) { r.Runs[0].PP = f(1) }, "pair 1: pp_tps is not what its tests give"},
		"a test's speed":  {func(r *Result) { r.Runs[0].Bench[0].TPS *= 1.01 }, "the mean of its samples is"},
		"a run's peak": {func(r *Result) {
			r.Runs[0].PeakVRAM = n(1)
		}, "peak_vram_mib is 1, and the highest of its samples 2811"},
		"a look at memory": {func(r *Result) {
			r.Runs[0].Sample.RSS[3] = 1 << 30
		}, "rss_mib is 625, and the highest of its samples 1048576"},
		"the plan's aim": {func(r *Result) {
			r.Plan = strings.Replace(r.Plan, `rss = "flat"`, `rss = "flat"`+"\npp-ratio-min = 2", 1)
		}, "its summary of run cap8, build ours is not"},
		"a plan that isn't": {func(r *Result) { r.Plan = "x" }, "its plan"},
	} {
		var r Result
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		c.edit(&r)
		edited, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(edited)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(),
			"the record contradicts itself: ") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Every measure of a figure, as a page may write it.
func TestFigure(t *testing.T) {
	s, err := ReadSource(keptRecord)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"ub64/ours/pp":                       "71565 t/s",
		"ub64/ours/tg":                       "2474 t/s",
		"ub64/ours/vram":                     "1359 MiB",
		"ub64/ours/rss":                      "625 MiB",
		"ub64/ours/seconds":                  "",
		"ub64/published/exit":                "aborted",
		"ub64/ours/exit":                     "exit code 0",
		"np3/ours/requests":                  "138 of 138 requests",
		"np3/ours/tokens":                    "tokens equal",
		"np3/ours/pp-ratio":                  "1.122, 1 pair",
		"np3/ours/tg-ratios":                 "1.10 to 1.10, 1 pair",
		"np3/ours/host":                      "anonymous memory grows by ",
		"np3/ours/device":                    "VRAM grew from ",
		"cap64/ours/host":                    "; unclear: memory on the host flat",
		"cap8/ours/line/evictions=":          "58953",
		"sanitizer-ub64/ours/line/SUMMARY:+": "0 errors",
		"np3-ub64/published/requests":        "0 of 69 requests",
	} {
		f, err := s.Figure(key)
		if err != nil || !strings.Contains(f.String(), want) {
			t.Errorf("%s: %v %v, want %q", key, f, err, want)
		}
	}
}

// A record may be anybody's: no value in one stops the reader, gives a figure that is no
// number, or writes to the terminal what is more than text.
func TestFigureHostile(t *testing.T) {
	data, err := os.ReadFile(keptRecord)
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	for i := range r.Runs {
		for k := range r.Runs[i].Memory {
			v := &r.Runs[i].Memory[k]
			v.Start, v.Plateau, v.Growth.Low, v.Unit = -5, -7, 0, "re\x1b[31mq"
		}
	}
	r.What, r.Notes = "a\x1b[31m", []string{"b\x1b[31m"}
	s := &Source{res: &r}
	for key, want := range map[string]string{
		"np3/ours/device": "does not know it",
		"np3/ours/host":   "anonymous memory grows by ",
	} {
		if f, err := s.Figure(key); !strings.Contains(fmt.Sprint(f, err), want) || strings.Contains(fmt.Sprint(f), "\x1b") {
			t.Errorf("%s: %q %v, want %q", key, f, err, want)
		}
	}
	if text := r.Markdown(); strings.Contains(text, "\x1b") || !strings.Contains(text, "a \\[31m: ") ||
		!strings.Contains(text, "\n- b \\[31m\n") {
		t.Errorf("%q", text)
	}
	r.Runs[0].Name, r.Runs[0].PP = "c\x1b[31m", nil
	if err := r.recount(); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
	const older = `{"runs": [null, {"name": ["a"]}, {"name": "a", "n": 3, "line": "good \u001b[31m 12 MiB"}, {"name": "b", "n": 0}, {"name": "c", "n": 1e308}, {"name": "d", "n": 1e-308}]}`
	for key, want := range map[string]string{
		"a:b/n-ratio": "by 0 is no ratio", "b:b/n-ratios": "by 0 is no ratio", "c:d/n-ratio": "by 1e-308 is no ratio",
		"b:a/n-ratio": "0, 1 pair", "a/line": "good [31m 12 MiB",
	} {
		if f, err := olderFigure([]byte(older), key); !strings.Contains(fmt.Sprint(f, err), want) {
			t.Errorf("%s: %q %v, want %q", key, f, err, want)
		}
	}
	f, err := olderFigure([]byte(older), "a/line")
	if err != nil || f.Bears("good") == nil {
		t.Errorf("a link without a figure bears %v: %v", f, err)
	}
	if f, err := textFigure("it is \x1b[31m 5 MiB \a\n", "it+is"); err != nil || f.String() != "[31m 5 MiB" {
		t.Errorf("%q %v", f, err)
	}
}

// What llpatch prints of a figure is what a page may write: every figure of every record.
func TestFigureBearsItself(t *testing.T) {
	files, err := filepath.Glob("../../docs/evidence/*.json")
	if err != nil {
		t.Fatal(err)
	}
	figures := 0
	for _, file := range files {
		s, err := ReadSource(file)
		if err != nil {
			t.Fatal(err)
		}
		if s.res == nil {
			continue
		}
		for _, sum := range s.res.Summary {
			for m := range measures {
				f, err := s.Figure(sum.Run + "/" + sum.Build + "/" + m)
				if err != nil {
					continue // not every run has every measure
				}
				figures++
				if err := f.Bears(f.text); err != nil {
					t.Errorf("%s, %s: %v", filepath.Base(file), m, err)
				}
			}
		}
	}
	if figures < 500 {
		t.Errorf("%d figures", figures)
	}
}

// No text and no key stops the reader, and what it takes for numbers is in the text.
func FuzzFigure(f *testing.F) {
	f.Add("== a\nMean KLD: 0.5 ± 1,000 MiB\n", "==+a/Mean+KLD:", "0.5 ± 1,000 MiB")
	f.Add("x 1 of 2", "x", "1 of 3")
	f.Add(`{"runs":[{"name":"a","n":1}]}`, "a:a/n-ratio", "1, 1 pair")
	f.Fuzz(func(t *testing.T, text, key, said string) {
		for _, read := range []func() (*Figure, error){
			func() (*Figure, error) { return textFigure(text, key) },
			func() (*Figure, error) { return olderFigure([]byte(text), key) },
		} {
			fig, err := read()
			if err != nil {
				continue
			}
			_ = fig.Bears(said)
			if len(fig.Numbers) == 0 && len(fig.Says) == 0 {
				t.Errorf("%q, %q: a figure of nothing", text, key)
			}
		}
	})
}
