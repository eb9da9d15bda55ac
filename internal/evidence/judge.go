package evidence

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
)

// Summary is what came of all pairs of one run for one build.
type Summary struct {
	Run      string   `json:"run"`
	Build    string   `json:"build"`
	Runs     int      `json:"runs"`                    // judged ones
	RC       []int    `json:"rc"`                      // the different exit codes
	PeakVRAM *int64   `json:"peak_vram_mib,omitempty"` // the highest of all runs
	RSS      *int64   `json:"rss_mib,omitempty"`
	PP       *float64 `json:"pp_tps,omitempty"` // the median
	TG       *float64 `json:"tg_tps,omitempty"`
	PPRatio  *Ratio   `json:"pp_ratio,omitempty"`
	TGRatio  *Ratio   `json:"tg_ratio,omitempty"`
	Tokens   string   `json:"tokens,omitempty"` // in how many pairs they equal the baseline's
	Aims     []Check  `json:"aims"`
}

// judgePair judges the runs of one pair; the warm-up is not judged.
func (res *Result) judgePair(p *Plan, pr *PlanRun, runs []Run) {
	var base *Run
	for i := range runs {
		if runs[i].Build == p.Baseline {
			base = &runs[i]
		}
	}
	for i := range runs {
		if runs[i].Pair > 0 {
			runs[i].judge(pr.aim(runs[i].Build), base)
		}
	}
}

func (rec *Run) check(aim string, state State, format string, args ...any) {
	rec.Checks = append(rec.Checks, Check{Aim: aim, State: state, Got: fmt.Sprintf(format, args...)})
}

func passedIf(ok bool) State {
	if ok {
		return Passed
	}
	return Missed
}

// judge judges one run. base is the baseline's run of the pair, nil before it ran.
func (rec *Run) judge(a Aim, base *Run) {
	rec.Checks = nil
	want, ok := a.exit(rec)
	how := fmt.Sprintf("%d", rec.RC)
	switch {
	case rec.NotRun != "":
		rec.check(want, Unclear, "could not run: %s", rec.NotRun)
		return
	case rec.Timeout:
		how = "stopped at its time limit"
	case rec.Signal != "":
		how = "signal: " + rec.Signal
	}
	rec.check(want, passedIf(ok), "%s", how)
	if rec.noVRAM != "" {
		rec.check("VRAM known", Unclear, "%s", rec.noVRAM)
	}
	if a.failsAsAsked(rec) {
		rec.judgeOutput(a) // it fails as it should: there is nothing to compare
		return
	}
	if rec.Served != nil {
		got := fmt.Sprintf("%d answered", rec.Requests)
		if rec.Failed > 0 {
			got += fmt.Sprintf(", %d not: %s", rec.Failed, rec.Served.Why)
		}
		rec.check("every request answered", passedIf(rec.Failed == 0), "%s", got)
	}
	rec.judgePeak("peak VRAM", a.PeakVRAM, rec.PeakVRAM)
	rec.judgePeak("peak RSS", a.PeakRSS, rec.RSS)
	if base != rec && a.Tokens != "" {
		rec.judgeTokens(base)
	}
	if base != rec && a.Kept != "" {
		const aim = "kept lines as the baseline's"
		switch {
		case base == nil || base.NotRun != "":
			rec.check(aim, Unclear, "the baseline has no result")
		default:
			rec.check(aim, passedIf(slices.Equal(rec.Kept, base.Kept)), "%d lines", len(rec.Kept))
		}
	}
	rec.judgeGrowth("memory on the host flat", a.RSS, memory.Anon)
	rec.judgeGrowth("VRAM flat", a.VRAM, memory.VRAM)
	rec.judgeOutput(a)
}

// exit says what the exit code should be, and whether it is.
func (a Aim) exit(rec *Run) (want string, ok bool) {
	ended := !rec.Timeout
	switch v := a.RC.(type) {
	case string:
		if v == "any" {
			return "any exit code", true
		}
		return "exit code not 0", ended && rec.RC != 0
	case int64:
		return fmt.Sprintf("exit code %d", v), ended && int64(rec.RC) == v
	}
	return "exit code 0", ended && rec.RC == 0
}

// failsAsAsked says whether the run ended with another exit code than 0, as the
// aim has it: such a run is not compared.
func (a Aim) failsAsAsked(rec *Run) bool {
	_, ok := a.exit(rec)
	return ok && rec.RC != 0 && rec.NotRun == ""
}

func (rec *Run) judgePeak(what string, most, got *int64) {
	if most == nil {
		return
	}
	aim := fmt.Sprintf("%s at most %d MiB", what, *most)
	if got == nil {
		rec.check(aim, Unclear, "not known")
		return
	}
	rec.check(aim, passedIf(*got <= *most), "%d MiB", *got)
}

func (rec *Run) judgeTokens(base *Run) {
	const aim = "tokens as the baseline's"
	switch {
	case base == nil || base.Served == nil || base.SHA == "":
		rec.check(aim, Unclear, "the baseline has no tokens")
	case rec.Served != nil && rec.SHA != "" && rec.Tokens == 0 && base.Tokens == 0:
		rec.check(aim, Unclear, "no answer has a token, here and there")
	case rec.Served == nil || rec.SHA == "":
		rec.check(aim, Unclear, "it has no tokens")
	case rec.SHA == base.SHA:
		rec.check(aim, Passed, "%d tokens", rec.Tokens)
	default:
		rec.check(aim, Missed, "%s", firstDifference(base.answers, rec.answers))
	}
}

func firstDifference(base, own [][]int) string {
	for i := range min(len(base), len(own)) {
		for j := range min(len(base[i]), len(own[i])) {
			if base[i][j] != own[i][j] {
				return fmt.Sprintf("request %d, token %d: %d there, %d here", i+1, j+1, base[i][j], own[i][j])
			}
		}
		if len(base[i]) != len(own[i]) {
			return fmt.Sprintf("request %d: %d tokens there, %d here", i+1, len(base[i]), len(own[i]))
		}
	}
	return fmt.Sprintf("%d answers there, %d here", len(base), len(own))
}

// judgeGrowth takes memory that grew and settled for flat.
func (rec *Run) judgeGrowth(aim, wanted string, k memory.Kind) {
	if wanted == "" {
		return
	}
	i := slices.IndexFunc(rec.Memory, func(v memory.Verdict) bool { return v.Kind == k })
	if i < 0 {
		rec.check(aim, Unclear, "it was not seen during the load")
		return
	}
	v := rec.Memory[i]
	state := map[memory.State]State{
		memory.Flat: Passed, memory.Bounded: Passed, memory.Grows: Missed,
		memory.Unclear: Unclear,
	}[v.State]
	rec.check(aim, state, "%s", v)
}

func (rec *Run) judgeOutput(a Aim) {
	if len(a.has)+len(a.lacks) == 0 {
		return
	}
	found := map[string]string{}
	err := output(rec.log, rec.head, func(line string) {
		for _, re := range slices.Concat(a.has, a.lacks) {
			if _, ok := found[re.String()]; !ok && re.MatchString(line) {
				found[re.String()] = line
			}
		}
	})
	told := func(aim string, wanted bool, re *regexp.Regexp) {
		line, ok := found[re.String()]
		if ok || err == nil {
			rec.check(aim+re.String(), passedIf(ok == wanted), "%s", line)
		} else {
			rec.check(aim+re.String(), Unclear, "its output could not be read")
		}
	}
	for _, re := range a.has {
		told("prints ", true, re)
	}
	for _, re := range a.lacks {
		told("does not print ", false, re)
	}
}

// summarize makes the summary of all runs so far.
func (res *Result) summarize(p *Plan) {
	res.Summary = nil
	for i := range p.Runs {
		pr := &p.Runs[i]
		of := func(build string) map[int]*Run {
			m := map[int]*Run{}
			for j := range res.Runs {
				if r := &res.Runs[j]; r.Name == pr.Name && r.Build == build && r.Pair > 0 {
					m[r.Pair] = r
				}
			}
			return m
		}
		base := of(p.Baseline)
		for _, b := range pr.Builds {
			if own := of(b); len(own) > 0 {
				res.Summary = append(res.Summary, summary(pr, b, own, base, b == p.Baseline))
			}
		}
	}
}

func summary(pr *PlanRun, build string, own, base map[int]*Run, isBase bool) Summary {
	s := Summary{Run: pr.Name, Build: build, Runs: len(own)}
	var pp, tg, ppRatio, tgRatio []float64
	equal, compared, failing := 0, 0, 0
	for pair := 1; pair <= pr.Pairs; pair++ {
		r := own[pair]
		if r == nil {
			continue
		}
		if !slices.Contains(s.RC, r.RC) {
			s.RC = append(s.RC, r.RC)
		}
		s.PeakVRAM, s.RSS = higher(s.PeakVRAM, r.PeakVRAM), higher(s.RSS, r.RSS)
		b := base[pair]
		if pr.aim(build).failsAsAsked(r) {
			failing++ // there is nothing to compare
			b = nil
		}
		if b == nil {
			b = &Run{}
		}
		for _, f := range []struct {
			own, base      *float64
			speeds, ratios *[]float64
		}{{r.PP, b.PP, &pp, &ppRatio}, {r.TG, b.TG, &tg, &tgRatio}} {
			if f.own == nil {
				continue
			}
			*f.speeds = append(*f.speeds, *f.own)
			if f.base != nil && !isBase {
				*f.ratios = append(*f.ratios, *f.own / *f.base)
			}
		}
		if r.Served != nil && b.Served != nil && !isBase {
			compared++
			if r.SHA != "" && r.SHA == b.SHA && r.Tokens > 0 {
				equal++
			}
		}
	}
	if compared > 0 {
		s.Tokens = fmt.Sprintf("equal in %d of %d", equal, compared)
	}
	s.PP, s.TG = median(pp), median(tg)
	if len(ppRatio) > 0 {
		s.PPRatio = ratioOf(ppRatio, len(own)-failing)
	}
	if len(tgRatio) > 0 {
		s.TGRatio = ratioOf(tgRatio, len(own)-failing)
	}
	s.Aims = aims(own, pr.Pairs)
	if a, n := pr.aim(build), len(own)-failing; !isBase && n > 0 {
		s.ratioAim("prefill speed", a.PP, s.PPRatio, n)
		s.ratioAim("decode speed", a.TG, s.TGRatio, n)
	}
	return s
}

// ratioAim judges a ratio that so many runs should have.
func (s *Summary) ratioAim(what string, least *float64, r *Ratio, runs int) {
	if least == nil {
		return
	}
	c := Check{Aim: fmt.Sprintf("%s at least %g of the baseline's", what, *least), State: Unclear, Got: "not known"}
	if r != nil {
		c.Got = r.String()
		if c.State = passedIf(r.Median >= *least); len(r.Values) < runs && c.State == Passed {
			c.State = Unclear
		}
	}
	s.Aims = append(s.Aims, c)
}

// String is the median with its interval.
func (r *Ratio) String() string {
	if r.Low == nil || r.High == nil {
		return fmt.Sprintf("%.3f", r.Median)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", r.Median, *r.Low, *r.High)
}

func higher(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func median(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	return &ratioOf(v, len(v)).Median
}

// aims joins the checks of all pairs: one that misses makes the aim missed.
func aims(own map[int]*Run, pairs int) []Check {
	var out []Check
	counts := map[string][2]int{} // passed, all
	for pair := 1; pair <= pairs; pair++ {
		if own[pair] == nil {
			continue
		}
		for _, c := range own[pair].Checks {
			i := slices.IndexFunc(out, func(o Check) bool { return o.Aim == c.Aim })
			if i < 0 {
				i, out = len(out), append(out, Check{Aim: c.Aim, State: Passed})
			}
			n := counts[c.Aim]
			n[1]++
			if c.State == Passed {
				n[0]++
			} else if out[i].State != Missed {
				if out[i].State == Passed || c.State == Missed {
					out[i].Got = fmt.Sprintf("pair %d: %s", pair, c.Got)
				}
				out[i].State = c.State
			}
			counts[c.Aim] = n
		}
	}
	for i := range out {
		n := counts[out[i].Aim]
		out[i].Got = strings.TrimSuffix(fmt.Sprintf("%d of %d runs; %s", n[0], n[1], out[i].Got), "; ")
	}
	return out
}

// Verdict is nil where every aim of the record was reached, else a *Missing, or a
// *NotRun where none was missed but something could not be told.
func (res *Result) Verdict() error {
	var missed, unclear []string
	for _, s := range res.Summary {
		for _, c := range s.Aims {
			line := fmt.Sprintf("%s, %s: %s: %s", s.Run, s.Build, c.Aim, c.Got)
			switch c.State {
			case Missed:
				missed = append(missed, line)
			case Unclear:
				unclear = append(unclear, line)
			}
		}
	}
	switch {
	case len(missed) > 0:
		return &Missing{Checks: missed}
	case len(unclear) > 0:
		return &NotRun{Why: unclear}
	}
	return nil
}
