//go:build linux

package leak

import (
	"context"
	"testing"
	"time"
)

func contextAfter(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}
