package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The rates that a sampler takes.
const (
	MinEvery     = 20 * time.Millisecond
	MaxEvery     = time.Second
	DefaultEvery = 100 * time.Millisecond
)

// baselineWait is how long Start waits for the first figure of the device, which
// must come before the program does: nvidia-smi needs a second or two to start.
const baselineWait = 8 * time.Second

// Options are how to sample.
type Options struct {
	Name     string          // the series' name
	Every    time.Duration   // MinEvery to MaxEvery; 0: DefaultEvery
	Probe    Probe           // device memory; nil: none
	Source   string          // the probe's name
	Remote   RemoteProbe     // host memory of a program elsewhere, in place of the watched processes'; nil: theirs
	Progress func() Progress // how far the work has come, asked at every look; nil: never
	// Look gets each look as it is made; nil: nobody does. VRAM in it is the cards'
	// latest figure less the idle one, which is not yet what the series will say.
	Look func(Point)
	Log  *slog.Logger // nil: none
}

// Sampler looks at memory until it is stopped.
type Sampler struct {
	o      Options
	cancel context.CancelFunc
	loops  sync.WaitGroup
	pids   atomic.Pointer[[]int]
	begin  chan int // the program's pid
	quit   chan struct{}
	out    chan Series

	mu         sync.Mutex
	readings   []reading
	idle       []Reading // before the program
	latest     *Reading
	remote     *RemoteReading // that no look has taken yet
	notes      []string
	lost       string        // why the probe ended
	remoteWhy  string        // what the host's probe said at its end
	remoteLost bool          // it ended before its time
	shown      *int64        // VRAM, for Options.Look
	first      chan struct{} // closed at the first reading, or when the probe ends
	once       sync.Once
}

// reading is a Reading at the point that it belongs to.
type reading struct {
	point int
	Reading
}

// Start begins to look at the device, and returns when its idle figure is known
// or cannot be had. Attach then names the program. The looks end with Stop or ctx.
func Start(ctx context.Context, o Options) (*Sampler, error) {
	o.Every = cmp.Or(o.Every, DefaultEvery)
	if o.Every < MinEvery || o.Every > MaxEvery {
		return nil, fmt.Errorf("a look every %v: it must be %v to %v", o.Every, MinEvery, MaxEvery)
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(ctx)
	s := &Sampler{
		o: o, cancel: cancel, begin: make(chan int, 1), quit: make(chan struct{}),
		out: make(chan Series, 1), first: make(chan struct{}),
	}
	s.pids.Store(&[]int{})
	if o.Probe != nil {
		s.loops.Go(func() { s.probe(ctx) })
		select {
		case <-s.first:
		case <-time.After(baselineWait):
			s.note(fmt.Sprintf("%s gave no figure within %v: VRAM is not known until it does", o.Source, baselineWait))
		case <-ctx.Done():
		}
	}
	if o.Remote != nil {
		s.loops.Go(func() { s.probeRemote(ctx) })
	}
	s.loops.Go(func() { s.loop(ctx) })
	return s, nil
}

// Attach names the process that is watched, with all below it; time begins now.
func (s *Sampler) Attach(pid int) {
	s.pids.Store(&[]int{pid})
	s.begin <- pid
}

// Stop ends the looks and returns what was seen. It may be called once.
func (s *Sampler) Stop() Series {
	close(s.quit)
	series := <-s.out
	s.cancel()
	s.loops.Wait()
	if s.o.Remote != nil {
		series.Elsewhere, series.RemoteWhy = true, cmp.Or(s.remoteWhy, "no figure came any more")
		if !s.remoteLost && !series.Has(Anon) { // else that is a note already
			series.Notes = append(series.Notes, "host memory is not known: "+series.RemoteWhy)
		}
	}
	return series
}

func (s *Sampler) note(n string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.notes, n) {
		s.notes = append(s.notes, n)
		s.o.Log.Debug("memory: " + n)
	}
}

// probe runs the probe and turns its end into a note.
func (s *Sampler) probe(ctx context.Context) {
	err := s.o.Probe(ctx, s.o.Every, func() []int { return *s.pids.Load() }, func(r Reading) {
		for _, n := range r.Notes {
			s.note(n)
		}
		s.mu.Lock()
		if len(*s.pids.Load()) == 0 {
			s.idle = append(s.idle, r)
		} else {
			s.latest = &r
		}
		s.mu.Unlock()
		s.once.Do(func() { close(s.first) })
	})
	if ctx.Err() == nil {
		if err == nil {
			err = errors.New("it ended by itself")
		}
		s.note("VRAM is not known from here on: " + err.Error())
		s.mu.Lock()
		s.lost = err.Error()
		s.mu.Unlock()
	}
	s.once.Do(func() { close(s.first) })
}

// probeRemote reads host memory elsewhere and turns its end into a note.
func (s *Sampler) probeRemote(ctx context.Context) {
	err := s.o.Remote(ctx, s.o.Every, func(r RemoteReading) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remote = &r
	})
	if err == nil {
		return
	}
	s.mu.Lock()
	s.remoteWhy, s.remoteLost = err.Error(), ctx.Err() == nil
	lost := s.remoteLost
	s.mu.Unlock()
	if lost {
		s.note("host memory is not known from here on: " + err.Error())
	}
}

// loop looks at the processes once a tick.
func (s *Sampler) loop(ctx context.Context) {
	var pid int
	select {
	case pid = <-s.begin:
	case <-ctx.Done():
		<-s.quit
		s.out <- s.finish(Series{})
		return
	case <-s.quit:
		s.out <- s.finish(Series{})
		return
	}
	series := Series{Name: s.o.Name, EverySecs: s.o.Every.Seconds()}
	p := newProcs(pid)
	defer p.close()
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	zero := time.Now()
	for {
		began := time.Now()
		s.look(p, &series, began.Sub(zero))
		series.CPUSecs += time.Since(began).Seconds()
		select {
		case <-tick.C:
			continue
		case <-s.quit:
		case <-ctx.Done():
			<-s.quit
		}
		// A ticker drops what nobody takes: what is missing was due and not made.
		series.Ticks = int(time.Since(zero)/s.o.Every) + 1
		s.out <- s.finish(series)
		return
	}
}

// look adds one point.
func (s *Sampler) look(p *procs, series *Series, at time.Duration) {
	series.Ticks++
	pt := Point{Seconds: at.Seconds()}
	alive := p.look(&pt)
	pids := p.pids()
	if len(pids) > 0 {
		s.pids.Store(&pids)
	}
	if s.o.Progress != nil {
		done := s.o.Progress()
		pt.Tokens, pt.Requests = done.Tokens, done.Requests
	}
	s.mu.Lock()
	if s.o.Remote != nil {
		pt.RSS, pt.Anon, pt.Swap, pt.PSS = nil, nil, nil, nil
		if s.remote != nil {
			pt.RSS, pt.Anon = &s.remote.WorkingSet, &s.remote.Private
			s.remote = nil
		}
	}
	r := s.latest
	s.latest = nil
	if alive && r != nil {
		s.readings = append(s.readings, reading{len(series.Points), *r})
		s.shown = s.aboveIdle(*r)
	}
	now := pt
	now.VRAM = s.shown
	s.mu.Unlock()
	if alive && s.o.Look != nil {
		s.o.Look(now)
	}
	if alive {
		series.Points = append(series.Points, pt)
	} else {
		series.Ended++
	}
}

// aboveIdle is what is taken on the cards beyond what was before the program; nil
// where that is not known.
func (s *Sampler) aboveIdle(r Reading) *int64 {
	if r.Absent != "" {
		return nil
	}
	var idle int64
	if n := len(s.idle); n > 0 {
		idle = s.idle[n-1].Used
	}
	v := max(0, r.Used-idle)
	return &v
}

// finish decides what VRAM means and writes the notes.
func (s *Sampler) finish(series Series) Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	series.Missed = max(0, series.Ticks-len(series.Points)-series.Ended)
	if len(series.Points) == 0 {
		s.notes = append(s.notes, "no memory was seen: the program was too short, or this system has no /proc")
	}
	if series.Ticks > 10 && series.Missed*10 > series.Ticks {
		s.notes = append(s.notes, fmt.Sprintf("the sampler could not keep up: %d of %d looks were missed (the machine is "+
			"busy, or a look takes longer than %v); short peaks may be missing",
			series.Missed, series.Ticks, s.o.Every))
	} else if series.Missed > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d of %d looks were missed", series.Missed, series.Ticks))
	}
	if most := series.swapPeak(); most > 0 {
		s.notes = append(s.notes, fmt.Sprintf("up to %s of its memory were swapped out, which is in the figure of anonymous "+
			"memory and not in RSS; it is slower than it would be with enough memory", FormatBytes(float64(most))))
	}
	series.Device, s.notes = place(series.Points, s.idle, s.readings, s.o.Source, s.notes)
	series.Device.Unknown = cmp.Or(s.lost, series.Device.Unknown)
	if s.o.Probe != nil && !series.Has(VRAM) {
		series.Device.Unknown = cmp.Or(series.Device.Unknown, s.o.Source+" gave no figure while the program ran")
	}
	series.Notes = slices.Clone(s.notes)
	return series
}
