package leak

import (
	"fmt"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
)

// tell says once a second what the run is at, until stop is called.
func (w *work) tell(began time.Time, under string) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				w.o.Status(under + w.status(time.Since(began)))
			}
		}
	}()
	return func() { close(quit); <-gone }
}

// looked keeps a look for the status. Not each has a figure of memory elsewhere.
func (w *work) looked(p memory.Point) {
	if was := w.latest.Load(); p.RSS == nil && was != nil {
		p.RSS = was.RSS
	}
	w.latest.Store(&p)
}

// status is what a run is at, in one line.
func (w *work) status(elapsed time.Duration) string {
	parts := []string{elapsed.Round(time.Second).String()}
	if p := w.latest.Load(); p != nil {
		for _, k := range []memory.Kind{memory.RSS, memory.VRAM} {
			if b, ok := p.Bytes(k); ok {
				parts = append(parts, k.String()+" "+memory.FormatBytes(float64(b)))
			}
		}
	}
	if n := w.total.Load(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d requests", w.Requests.Load(), n))
	}
	return strings.Join(parts, ", ")
}
