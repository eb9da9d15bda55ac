// Package lock keeps two programs from changing the same files at a time.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// poll is the time between two tries.
const poll = 20 * time.Millisecond

// Try takes the lock that is the file name, alone or with others, and makes the file and its folder where they are
// not. It reports false where somebody else has it. The lock lasts until the file is closed here and in every
// program that inherited it; the caller may remove the file before.
func Try(name string, shared bool) (f *os.File, ok bool, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, false, err
	}
	if f, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, false, err
	}
	if ok, err = try(f, shared); ok {
		// Whoever had it may have removed the file meanwhile: a lock of that keeps nobody out.
		held, herr := f.Stat()
		named, nerr := os.Stat(name)
		if herr == nil && nerr == nil && os.SameFile(held, named) {
			return f, true, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("lock %s: %w", name, err)
	}
	return nil, false, errors.Join(err, f.Close())
}

// patience is how long a lock may take before the user is told what is waited for.
const patience = 200 * time.Millisecond

// Wait is Try for a caller that has the time. It calls busy, which may be nil, once where it has to
// wait for longer than
// a moment. The error is that of ctx where it ends first.
func Wait(ctx context.Context, name string, shared bool, busy func()) (*os.File, error) {
	for said, began := false, time.Now(); ; {
		f, ok, err := Try(name, shared)
		if ok || err != nil {
			return f, err
		}
		if !said && busy != nil && time.Since(began) >= patience {
			busy()
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", name, context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}
