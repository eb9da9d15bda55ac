package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// recount makes anew what follows from the raw figures of a record: each run's speed
// from the samples of its tests, its peaks from the looks at memory, and the summary
// from the runs. It says where the record holds something else.
func (r *Result) recount() error {
	for i := range r.Runs {
		if err := r.Runs[i].recount(); err != nil {
			return fmt.Errorf("run %q of build %q, pair %d: %w", r.Runs[i].Name, r.Runs[i].Build, r.Runs[i].Pair, err)
		}
	}
	if len(r.Summary) == 0 {
		return nil
	}
	vars := map[string]string{}
	for _, m := range varRE.FindAllStringSubmatch(r.Plan, -1) {
		vars[m[1]] = m[0]
	}
	p, err := ParsePlan("its plan", []byte(r.Plan), vars)
	if err != nil {
		return err
	}
	again := &Result{Runs: r.Runs}
	again.summarize(p)
	if len(again.Summary) != len(r.Summary) {
		return fmt.Errorf("its summary has %d lines, and its runs give %d", len(r.Summary), len(again.Summary))
	}
	for i := range r.Summary {
		has, err := json.Marshal(r.Summary[i])
		if err != nil {
			return err
		}
		gives, err := json.Marshal(again.Summary[i])
		if err != nil {
			return err
		}
		if !bytes.Equal(has, gives) {
			return fmt.Errorf("its summary of run %s, build %s is not what its runs give:\n  %s\n  %s", r.Summary[i].Run,
				r.Summary[i].Build, has, gives)
		}
	}
	return nil
}

func (rec *Run) recount() error {
	for _, t := range rec.Bench {
		if n := len(t.Samples); n > 0 {
			sum := 0.0
			for _, s := range t.Samples {
				sum += s
			}
			// llama-bench rounds what it prints to six figures.
			if mean := sum / float64(n); math.Abs(mean-t.TPS) > 1e-5*t.TPS {
				return fmt.Errorf("the mean of its samples is %g t/s, and avg_ts says %g", mean, t.TPS)
			}
		}
	}
	if len(rec.Bench) > 0 {
		pp, tg := speeds(rec.Bench)
		for _, s := range []struct {
			name       string
			has, gives *float64
		}{{"pp_tps", rec.PP, pp}, {"tg_tps", rec.TG, tg}} {
			if (s.has == nil) != (s.gives == nil) || s.has != nil && math.Abs(*s.has-*s.gives) > 1e-9**s.gives {
				return fmt.Errorf("%s is not what its tests give", s.name)
			}
		}
	}
	for _, s := range []struct {
		name  string
		has   *int64
		looks []int64
	}{{"peak_vram_mib", rec.PeakVRAM, rec.Sample.VRAM}, {"rss_mib", rec.RSS, rec.Sample.RSS}} {
		if s.has == nil || len(s.looks) == 0 {
			continue
		}
		if peak := (slices.Max(s.looks) + 512) >> 10; peak != *s.has {
			return fmt.Errorf("%s is %d, and the highest of its samples %d", s.name, *s.has, peak)
		}
	}
	return nil
}
