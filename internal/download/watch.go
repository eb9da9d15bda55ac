package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// Watch cancels a context when nothing has come for a while.
type Watch struct {
	timer  *time.Timer
	limit  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewWatch begins to watch; Stop must be called.
func NewWatch(ctx context.Context, limit time.Duration) (context.Context, *Watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch{limit: limit, ctx: ctx, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("the server sent nothing for %v", limit)) })
	return ctx, w
}

// Stop ends the watch and its context.
func (w *Watch) Stop() { w.timer.Stop(); w.cancel(context.Canceled) }

// Explain is Cause for the watched context.
func (w *Watch) Explain(err error) error { return Cause(w.ctx, err) }

// Cause puts the reason for which ctx ended in the place of an error that came of it, and takes the address off one of
// net/http.
func Cause(ctx context.Context, err error) error {
	u := new(url.Error)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &u):
		return u.Err
	}
	return err
}

// Reader returns r, whose bytes show the watch that the server is there; report is told how many came so far.
func (w *Watch) Reader(r io.Reader, report func(done int64)) io.Reader {
	return &watched{r: r, w: w, report: report}
}

type watched struct {
	r      io.Reader
	w      *Watch
	done   int64
	report func(int64)
}

func (r *watched) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.done += int64(n)
		r.w.timer.Reset(r.w.limit)
		r.report(r.done)
	}
	return n, err
}
