package smoke

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pssEvery is how many looks at the cheap resident size come before one at the
// proportional size, for which the kernel walks every page.
const pssEvery = 10

// Sample is the memory of a program and its descendants at one time.
type Sample struct {
	Seconds float64 `json:"seconds"` // since the run began
	RSSKiB  int64   `json:"rss_kib"` // pages shared by two processes are counted twice
	PSSKiB  int64   `json:"pss_kib,omitempty"`
}

// memory is what a sampler saw.
type memory struct {
	samples []Sample
	late    int    // looks that came more than an interval late
	note    string // why there are none
}

type sampler struct {
	quit chan struct{}
	out  chan memory
}

// startSampler looks at the memory of pid and its descendants, at once and then
// every interval, until it is stopped.
func startSampler(pid int, every time.Duration, zero time.Time) *sampler {
	s := &sampler{quit: make(chan struct{}), out: make(chan memory, 1)}
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		var m memory
		last := time.Now()
		for i := 0; ; i++ {
			now := time.Now()
			if now.Sub(last) > 2*every {
				m.late++
			}
			last = now
			sample := Sample{Seconds: seconds(now.Sub(zero))}
			for _, p := range tree(pid) {
				sample.RSSKiB += residentKiB(p)
				if i%pssEvery == 0 {
					sample.PSSKiB += proportionalKiB(p)
				}
			}
			// A program that has ended has no memory, and would look like one
			// that gave it all back.
			if sample.RSSKiB > 0 {
				m.samples = append(m.samples, sample)
			}
			select {
			case <-tick.C:
			case <-s.quit:
				if len(m.samples) == 0 {
					m.note = "no memory was seen: the program was too short, or this system has no /proc"
				}
				s.out <- m
				return
			}
		}
	}()
	return s
}

func (s *sampler) stop() memory {
	if s == nil {
		return memory{}
	}
	close(s.quit)
	return <-s.out
}

// tree returns a process and its descendants, as far as they can be seen.
func tree(pid int) []int {
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		// A child is listed under the thread that started it (proc(5)).
		files, err := filepath.Glob("/proc/" + strconv.Itoa(pids[i]) + "/task/*/children")
		if err != nil {
			continue
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // the thread has ended
			}
			for _, c := range strings.Fields(string(b)) {
				// A child of a thread that ends moves to another one.
				if n, err := strconv.Atoi(c); err == nil && !slices.Contains(pids, n) {
					pids = append(pids, n)
				}
			}
		}
	}
	return pids
}

// residentKiB is field 2 of statm, in pages (proc(5)); 0 for a process that has ended.
func residentKiB(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize()) / 1024
}

// proportionalKiB is Pss of smaps_rollup; 0 where the kernel has none.
func proportionalKiB(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if rest, ok := strings.CutPrefix(string(line), "Pss:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
