package smoke

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		load       float64
		processors int
		want       time.Duration
	}{
		{0, 2, time.Minute},
		{2, 2, time.Minute},
		{1, 16, time.Minute},
		{25, 4, 375 * time.Second},
		{3, 2, 90 * time.Second},
		{400, 2, 10 * time.Minute},
	} {
		if got := patient(time.Minute, c.load, c.processors); got != c.want {
			t.Errorf("load %v on %d processors: %v, want %v", c.load, c.processors, got, c.want)
		}
	}
	if got := patience(time.Minute); got < time.Minute || got > mostPatience*time.Minute {
		t.Errorf("%v on this machine", got)
	}
}
