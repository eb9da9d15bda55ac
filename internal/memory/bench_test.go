//go:build linux

package memory

import (
	"syscall"
	"testing"
	"time"
)

// BenchmarkSampler gives the sampler's cost at 100 ms, as a share of one core,
// for a small program and one that holds 4 GiB in 16 processes.
func BenchmarkSampler(b *testing.B) {
	for _, c := range []struct {
		name   string
		helper string
		n      int
	}{{"16MiB", "hold 16", 1}, {"4GiB", "hold 4096", 1}, {"16x16MiB", "hold 16", 16}} {
		b.Run(c.name, func(b *testing.B) {
			root, _ := start(b, c.helper)
			for range c.n - 1 {
				start(b, c.helper)
			}
			p := newProcs(root)
			if c.n > 1 {
				p.root = syscall.Getpid() // all helpers are below the test
			}
			defer p.close()
			var busy time.Duration
			looks := 0
			// Time moves on by itself only: the costly looks must get their turns.
			for b.Loop() {
				before := cpuTime()
				var pt Point
				if !p.look(&pt) {
					b.Fatal("the program has ended")
				}
				busy += cpuTime() - before
				looks++
				time.Sleep(DefaultEvery - time.Millisecond)
			}
			b.ReportMetric(100*busy.Seconds()/(float64(looks)*DefaultEvery.Seconds()), "%core")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cpuTime is the time that this process has had, in the kernel too.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
