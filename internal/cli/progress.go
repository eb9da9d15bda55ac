package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows how far a stage is: a bar on a terminal, now and then a line
// elsewhere. Messages of the log go above the bars.
type progress struct {
	out   io.Writer
	bars  *mpb.Progress // nil where out is no terminal
	mu    sync.Mutex
	shown map[string]*mpb.Bar
	last  map[string]time.Time
	text  atomic.Pointer[string] // of the status line
}

// lineEvery is how often a log file gets a line of a stage that goes on.
const (
	lineEvery = 15 * time.Second
	tellEvery = 5 * time.Second // with -v
)

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, shown: map[string]*mpb.Bar{}, last: map[string]time.Time{}}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40), mpb.WithRefreshRate(150*time.Millisecond))
	}
	return p
}

// update shows that done of total is done of what; total 0 means that nobody knows.
func (p *progress) update(what string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars == nil {
		p.line(what, done, total)
		return
	}
	bar := p.shown[what]
	if bar == nil {
		// Stages come one after another: what a stage left open ends with the next.
		p.drop()
		bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(what, decor.WCSyncSpaceR), decor.Percentage(decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_MMSS)))
		p.shown[what] = bar
	}
	bar.SetTotal(total, false)
	bar.SetCurrent(done)
	if total > 0 && done >= total {
		bar.SetTotal(total, true)
		delete(p.shown, what)
	}
}

func (p *progress) line(what string, done, total int64) {
	now := time.Now()
	first, seen := p.last[what]
	if !seen {
		p.last[what] = now
		return
	}
	finished := total > 0 && done >= total
	if !finished && now.Sub(first) < lineEvery {
		return
	}
	if finished {
		delete(p.last, what)
		return
	}
	p.last[what] = now
	if total > 0 {
		_, _ = fmt.Fprintf(p.out, "llpatch: %s: %d of %d\n", what, done, total)
		return
	}
	_, _ = fmt.Fprintf(p.out, "llpatch: %s: %d\n", what, done)
}

// status shows a line that changes, with nothing to count: on a terminal as it is,
// elsewhere once in so long.
func (p *progress) status(what, line string, every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars == nil {
		last, seen := p.last[what]
		if seen && time.Since(last) < every {
			return
		}
		p.last[what] = time.Now()
		if seen {
			_, _ = fmt.Fprintf(p.out, "llpatch: %s: %s\n", what, line)
		}
		return
	}
	p.text.Store(&line)
	if p.shown[what] == nil {
		p.drop()
		p.shown[what] = p.bars.New(0, mpb.NopStyle(), mpb.BarRemoveOnComplete(), mpb.PrependDecorators(
			decor.Name(what+": "), decor.Any(func(decor.Statistics) string { return *p.text.Load() }),
		))
	}
}

// Write puts text above the bars, or straight out where there are none.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars != nil {
		return p.bars.Write(b)
	}
	return p.out.Write(b)
}

// drop takes away the bars that are shown.
func (p *progress) drop() {
	for what, b := range p.shown {
		b.Abort(true)
		delete(p.shown, what)
	}
}

// close takes the bars away for good, so that a result or an error stands
// alone: a bar that is drawn once more would wipe out the line above it.
func (p *progress) close() {
	p.mu.Lock()
	bars := p.bars
	p.drop()
	p.bars = nil
	p.mu.Unlock()
	if bars != nil {
		bars.Wait()
	}
}

// handler writes the log as plain lines: "llpatch: message key=value".
type handler struct {
	out   io.Writer
	level slog.Level
	attrs []slog.Attr
}

func newHandler(out io.Writer, level slog.Level) *handler {
	return &handler{out: out, level: level}
}

// Enabled reports whether records of that level are shown.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle writes one record as one line.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("llpatch: ")
	if r.Level >= slog.LevelWarn {
		b.WriteString(strings.ToLower(r.Level.String()) + ": ")
	}
	b.WriteString(r.Message)
	write := func(a slog.Attr) bool {
		v := a.Value.String()
		if strings.ContainsAny(v, " \t\n\"") {
			v = fmt.Sprintf("%q", v)
		}
		fmt.Fprintf(&b, " %s=%s", a.Key, v)
		return true
	}
	for _, a := range h.attrs {
		write(a)
	}
	r.Attrs(write)
	b.WriteByte('\n')
	_, err := io.WriteString(h.out, b.String())
	return err
}

// WithAttrs returns a handler that adds attrs to every record.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{out: h.out, level: h.level, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup returns h: the lines have no groups.
func (h *handler) WithGroup(string) slog.Handler { return h }
