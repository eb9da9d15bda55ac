package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
)

// The faults of memory that grows with what a program has done.
const (
	FaultRSSGrowth  = "rss-growth"
	FaultVRAMGrowth = "vram-growth"
)

// Growth is what the memory of a check's servers did.
type Growth struct {
	Unit    memory.Unit      `json:"unit"`
	Server  int              `json:"server"` // index into Report.Servers
	Judged  []memory.Verdict `json:"judged"`
	Allowed float64          `json:"allowed,omitempty"` // bytes a unit that are no fault
	From    float64          `json:"from,omitempty"`    // the progress at which the judgement begins

	// Stock is the same work on the stock build; nil: there is none, or it did
	// not get through it, as StockNote says.
	Stock       *int             `json:"stock,omitempty"`
	StockJudged []memory.Verdict `json:"stock_judged,omitempty"`
	StockNote   string           `json:"stock_note,omitempty"`

	// Rose and StockRose are how many bytes anonymous memory rose by, from the end of the
	// warm-up on; 0 where there is no stock.
	Rose      float64 `json:"rose,omitempty"`
	StockRose float64 `json:"stock_rose,omitempty"`

	// Upstream are the kinds of memory whose growth is upstream's, as session.beside judges it.
	Upstream []memory.Kind `json:"upstream,omitempty"`
}

// workload is what a check does to a server of its own while memory is watched.
type workload struct {
	unit    memory.Unit
	allowed float64 // bytes a unit that may be added for ever
	config  func(context.Context, *session) (config, error)
	// drive does the work, so many times as long as the check asks for.
	drive func(ctx context.Context, srv *server, times int) (outcome, error)
	again int // how many times as long a second try is; 0: secondTry
}

// secondTry is how many times as long work is done again where nobody can tell what
// memory did: most often the machine was busy, or a warm-up took most of the time.
const secondTry = 4

// measured runs a workload and judges memory; where that cannot be told, or host memory
// grows, which may be a long warm-up, stock's as well, it does so once more, for longer,
// and judges what comes after the length of the first try.
func (s *session) measured(ctx context.Context, w workload) (outcome, error) {
	out, err := s.measure(ctx, w, 1)
	var f *fault
	var u *untold
	var first string
	switch {
	case err == nil && len(out.growth.Upstream) > 0:
		first = firstLine(out.detail)
	case errors.As(err, &u) || errors.As(err, &f) && f.name == FaultRSSGrowth:
		first = firstLine(err.Error())
	default:
		return out, err
	}
	times := cmp.Or(w.again, secondTry)
	s.o.Log.Info("memory may still be warming up: once more, for longer", "check", s.current.Name, "times", times, "why",
		first)
	out, err = s.measure(ctx, w, times)
	said := fmt.Sprintf("this is a second try, %d times as long; at the first: %s", times, first)
	switch {
	case err == nil:
		out.detail = out.join(said)
	case errors.As(err, &f):
		f.msg += "; " + said
	case errors.As(err, &u):
		err = &untold{fmt.Errorf("%w; %s", u.error, said)}
	}
	return out, err
}

// measure runs a workload, on the stock build first where there is one, so that
// both can be drawn on one chart, and judges the patched build's memory.
func (s *session) measure(ctx context.Context, w workload, times int) (outcome, error) {
	c, err := w.config(ctx, s)
	if err != nil {
		return outcome{}, err
	}
	g := &Growth{Unit: w.unit, Allowed: w.allowed}
	if s.o.Stock != "" && s.o.Same == "" {
		s.side = s.stock()
		out, at, err := s.drive(ctx, c, w, times)
		s.side = s.patched()
		switch {
		case ctx.Err() != nil:
			return outcome{}, context.Cause(ctx)
		case err != nil:
			g.StockNote = "the stock build did not get through it: " + firstLine(err.Error())
		default:
			g.Stock = &at
			g.StockJudged = judgeFrom(s.report.Servers[at].Memory, w.unit, out.warm)
			g.StockRose = rose(s.report.Servers[at].Memory, w.unit, out.begin)
		}
	}
	out, at, err := s.drive(ctx, c, w, times)
	if err != nil {
		return out, err
	}
	g.Server, g.From = at, out.warm
	rec := &s.report.Servers[at]
	g.Judged = judgeFrom(rec.Memory, w.unit, out.warm)
	if g.Stock != nil {
		g.Rose = rose(rec.Memory, w.unit, out.begin)
	}
	out.growth = g
	return s.judgeGrowth(out, rec)
}

// judgeFrom judges a series from some progress on.
func judgeFrom(s memory.Series, unit memory.Unit, from float64) []memory.Verdict {
	i := slices.IndexFunc(s.Points, func(p memory.Point) bool { return p.At(unit) >= from })
	s.Points = s.Points[max(i, 0):]
	return memory.Judge(s, memory.JudgeOptions{Unit: unit})
}

// rose says how many bytes anonymous memory rose by from some progress to the end: the medians
// of the first three looks and of the last. 0: there are too few.
func rose(s memory.Series, unit memory.Unit, from float64) float64 {
	var anon []int64
	for _, p := range s.Points {
		if b, ok := p.Bytes(memory.Anon); ok && p.At(unit) >= from {
			anon = append(anon, b)
		}
	}
	if len(anon) < 6 {
		return 0
	}
	first, last := slices.Sorted(slices.Values(anon[:3])), slices.Sorted(slices.Values(anon[len(anon)-3:]))
	return float64(last[1] - first[1])
}

// alikeRise is how many times as far as stock's the memory of a build may rise in the same work before it
// stops being stock's own rise: two runs of one program differ by nearly as much. Three of stock's on a machine with
// 16 cores rose by 67 to 93 MiB, 1.38 of one another (docs/evidence/2026-11-30-h200-b8833-card-release.txt).
const alikeRise = 1.5

// leastLooks is how often memory has to be looked at to be judged: a verdict is made of
// up to so many pieces, and each wants a look.
const leastLooks = 36

// enoughLooks is how long work has to last for memory to be judged, times as long
// in a second try: a fast machine does what the check asks for in less.
func (s *session) enoughLooks(times int) time.Time {
	return time.Now().Add(time.Duration(times*leastLooks) * s.o.Sample)
}

// drive starts a server for a workload, so that its memory begins clean, and
// stops it after. It returns the server's place in the report.
func (s *session) drive(ctx context.Context, c config, w workload, times int) (outcome, int, error) {
	s.stop(ctx)
	srv, err := s.need(ctx, c)
	if err != nil {
		return outcome{}, 0, err
	}
	out, err := w.drive(ctx, srv, times)
	out.begin = out.warm
	if times > 1 {
		done := srv.progress()
		out.warm = max(out.warm, memory.Point{Tokens: done.Tokens, Requests: done.Requests}.At(w.unit)/float64(times))
	}
	if err == nil {
		if other := srv.strangers(); other != "" {
			err = fmt.Errorf("port %d: %s, so its answers may not be ours", srv.port, other)
		}
	}
	if err == nil && srv.proc.Ended() {
		err = srv.fault("the server answered everything, and ended")
	}
	s.stop(ctx)
	return out, srv.record, err
}

// judgeGrowth turns what memory did into the check's verdict. What a program
// allocates itself is judged, on the device and off it; resident pages of mapped
// files come and go as the kernel likes, and are only told.
func (s *session) judgeGrowth(out outcome, rec *ServerRun) (outcome, error) {
	var said []string
	var unclear error
	found := false
	for _, v := range out.growth.Judged {
		if v.Kind != memory.Anon && v.Kind != memory.VRAM {
			continue
		}
		found = true
		said = append(said, v.String())
		switch v.State {
		case memory.Grows:
			if v.Growth.Low <= out.growth.Allowed {
				continue
			}
			upstream, stock, err := s.beside(out.growth, v)
			if err != nil {
				unclear = errors.Join(unclear, fmt.Errorf("%s; %s: %w", v, stock, err))
				continue
			}
			if upstream {
				out.growth.Upstream = append(out.growth.Upstream, v.Kind)
				said = append(said, stock)
				continue
			}
			name := FaultRSSGrowth
			if v.Kind == memory.VRAM {
				name = FaultVRAMGrowth
			}
			return out, &fault{msg: out.join(v.String(), stock), name: name, log: rec.Log}
		case memory.Unclear:
			if upstream, stock := besideRise(out.growth, v); upstream {
				out.growth.Upstream = append(out.growth.Upstream, v.Kind)
				said = append(said, stock)
				continue
			}
			unclear = errors.Join(unclear, errors.New(v.String()))
		}
	}
	if !found {
		return out, fmt.Errorf("nothing is known of the server's memory: %s",
			cmp.Or(strings.Join(rec.Memory.Notes, "; "), "the check was over before it was looked at often enough"))
	}
	if unclear != nil {
		return out, &untold{unclear}
	}
	out.detail = out.join(said...)
	return out, nil
}

// beside says of memory that grows what stock's did, and whether the growth is upstream's:
// stock, doing the same work, grows as well, and this build by no more than that for sure.
// An error: the two cannot be told apart.
func (s *session) beside(g *Growth, v memory.Verdict) (upstream bool, said string, err error) {
	i := slices.IndexFunc(g.StockJudged, func(st memory.Verdict) bool { return st.Kind == v.Kind })
	switch {
	case len(s.o.StockWith) > 0:
		said = "stock cannot tell whether this is upstream's, since it has to be built with "
		return false, said + strings.Join(s.o.StockWith, ", ") + " too", nil
	case s.o.Same != "":
		return true, "it is upstream's, since stock is the same program: " + s.o.Same, nil
	case g.StockNote != "":
		return false, "whether this is upstream's is not known: " + g.StockNote, nil
	case i < 0:
		return false, fmt.Sprintf("whether this is upstream's is told by a stock build, which `llpatch smoke %s %s` "+
			"makes and compares with; there was none here", s.o.Tag, s.o.Target), nil
	}
	stock := g.StockJudged[i]
	said = "the stock build's " + stock.String()
	if stock.State != memory.Grows {
		return false, said, nil
	}
	more, err := v.Above(stock)
	switch {
	case err != nil:
		return false, said, err
	case more > 0:
		return false, fmt.Sprintf("%s, so at least %s a %s are not upstream's", said, memory.FormatBytes(more), v.Unit), nil
	}
	return true, said + ", so it is upstream's", nil
}

// besideRise says of host memory of which nobody can tell what it did whether stock's, doing
// the same work, rose as far. glibc gives each thread an arena of its own when it happens to
// need one, so on many cores memory rises in steps, by chance, for thousands of requests.
func besideRise(g *Growth, v memory.Verdict) (upstream bool, said string) {
	if v.Kind != memory.Anon || g.Stock == nil || g.StockRose < memory.DefaultFloor || g.Rose > alikeRise*g.StockRose {
		return false, ""
	}
	return true, fmt.Sprintf("it rose by %s in all and the stock build's by %s, so it is upstream's",
		memory.FormatBytes(g.Rose), memory.FormatBytes(g.StockRose))
}

// untold says that what memory did could not be told.
type untold struct{ error }

// join puts what a check saw and what memory did into one sentence.
func (o outcome) join(said ...string) string {
	return strings.Join(slices.DeleteFunc(append([]string{o.detail}, said...), func(t string) bool {
		return t == ""
	}), "; ")
}

// allow reads how many KiB a token or request may be added for ever: the rest
// of a check's judgement stays.
func (a *args) allow() float64 { return a.fraction("allow_kib", 0) * 1024 }
