package memory

import (
	"fmt"
	"math"
	"slices"
)

// Kind is which memory is meant.
type Kind string

// The kinds of memory that a Point holds.
const (
	// RSS is resident memory of a process and all below it; pages that two of
	// them share are counted twice.
	RSS Kind = "rss"
	// Anon is what the program took itself, in memory or swapped out: anonymous memory, and
	// shared memory that no file on a disk backs (RssAnon, RssShmem and VmSwap of
	// /proc/PID/status), such as mmap's MAP_SHARED|MAP_ANONYMOUS, memfd and tmpfs. On
	// Windows it is the commit, private bytes, which knows of no swap.
	// Pages of a mapped model are not in it, unless the model lies in a tmpfs.
	// Shared memory counts for each process that has touched it: twice for a
	// program and its child. Linux before 4.5 tells no shared memory apart; it is
	// not in the figure there.
	Anon Kind = "anon"
	// PSS is resident memory with every shared page split among those that map it.
	PSS Kind = "pss"
	// VRAM is device memory: the program's own, or the card's less what was
	// taken before the program began.
	VRAM Kind = "vram"
)

// String is the kind as a reader knows it.
func (k Kind) String() string {
	switch k {
	case RSS:
		return "RSS"
	case Anon:
		return "anonymous memory"
	case PSS:
		return "PSS"
	case VRAM:
		return "VRAM"
	}
	return string(k)
}

// Unit is what memory is measured against.
type Unit string

// The units of a fit.
const (
	Token   Unit = "token"
	Request Unit = "request"
	Second  Unit = "second"
)

// Progress is how far a program's work has come.
type Progress struct {
	Tokens   int64 // evaluated and generated since the start
	Requests int64 // answered since the start
}

// Point is one look. A kind that was not to be had at that time is absent, never 0.
type Point struct {
	Seconds  float64 `json:"t"` // since the program began
	Tokens   int64   `json:"tokens,omitempty"`
	Requests int64   `json:"requests,omitempty"`
	RSS      *int64  `json:"rss,omitempty"` // bytes, like the others
	Anon     *int64  `json:"anon,omitempty"`
	Swap     *int64  `json:"swap,omitempty"` // the part of Anon that is swapped out; absent where nothing is
	PSS      *int64  `json:"pss,omitempty"`
	VRAM     *int64  `json:"vram,omitempty"`
}

// Bytes returns the point's figure of one kind; false where there is none.
func (p Point) Bytes(k Kind) (int64, bool) {
	v := map[Kind]*int64{RSS: p.RSS, Anon: p.Anon, PSS: p.PSS, VRAM: p.VRAM}[k]
	if v == nil {
		return 0, false
	}
	return *v, true
}

// At returns how far the work had come, in the unit.
func (p Point) At(u Unit) float64 {
	switch u {
	case Token:
		return float64(p.Tokens)
	case Request:
		return float64(p.Requests)
	default:
		return p.Seconds
	}
}

// Series is what a sampler saw of one run.
type Series struct {
	Name      string   `json:"name"`            // "stock", "patched", or the program
	EverySecs float64  `json:"every"`           // seconds between two looks
	Points    []Point  `json:"points"`          // in order
	Ticks     int      `json:"ticks"`           // looks that were due
	Missed    int      `json:"missed"`          // looks that were due and not made
	Device    Device   `json:"device"`          // where VRAM comes from
	CPUSecs   float64  `json:"cpu_seconds"`     // what the looks at /proc cost, without the device's tool
	Ended     int      `json:"-"`               // looks at a program that was gone
	Elsewhere bool     `json:"-"`               // host memory is that of a program elsewhere
	RemoteWhy string   `json:"-"`               // why it did not come of late, if it did not
	Notes     []string `json:"notes,omitempty"` // what a reader must know of the figures
}

// Device is the card or cards behind a series' VRAM.
type Device struct {
	Source   string `json:"source,omitempty"`   // "nvidia-smi, per process", …; empty where there is no VRAM
	Total    int64  `json:"total,omitempty"`    // bytes of all cards that were looked at
	Baseline int64  `json:"baseline,omitempty"` // bytes taken before the program began
	Cards    int    `json:"cards,omitempty"`
	Shared   bool   `json:"shared,omitempty"` // another program's memory is in the figures
	// why VRAM, which was to be looked at, is not known, or not to the end
	Unknown string `json:"unknown,omitempty"`
}

// Has reports whether the series holds enough of a kind to be drawn.
func (s Series) Has(k Kind) bool {
	n := 0
	for _, p := range s.Points {
		if _, ok := p.Bytes(k); ok {
			n++
		}
	}
	return n > 1
}

// RemoteEnds tells until when, in seconds, host memory of a program elsewhere is known;
// false where that is about until the end, or there is none.
func (s Series) RemoteEnds() (until float64, ends bool) {
	until, age := s.remoteAge()
	return until, age > max(3, 10*s.EverySecs)
}

// remoteLost reports whether figures that end say too little: they miss a fifth of the run.
func (s Series) remoteLost() bool {
	_, ends := s.RemoteEnds()
	_, age := s.remoteAge()
	return ends && age*5 > s.Points[len(s.Points)-1].Seconds-s.Points[0].Seconds
}

// remoteAge is when the last figure of a program elsewhere came, and how old it is at the end.
func (s Series) remoteAge() (at, age float64) {
	if !s.Elsewhere {
		return 0, 0
	}
	for _, p := range slices.Backward(s.Points) {
		if p.Anon != nil {
			return p.Seconds, s.Points[len(s.Points)-1].Seconds - p.Seconds
		}
	}
	return 0, 0
}

// swapPeak is the most that was swapped out, in bytes.
func (s Series) swapPeak() (most int64) {
	for _, p := range s.Points {
		if p.Swap != nil {
			most = max(most, *p.Swap)
		}
	}
	return most
}

// Peak returns the largest figure of a kind, in bytes; false where there is none.
func (s Series) Peak(k Kind) (peak int64, ok bool) {
	for _, p := range s.Points {
		if b, has := p.Bytes(k); has {
			peak, ok = max(peak, b), true
		}
	}
	return peak, ok
}

// BestUnit is the finest progress that the series can be fitted against: tokens
// or requests where there are enough different counts of them, else seconds.
func (s Series) BestUnit() Unit {
	for _, u := range []Unit{Token, Request} {
		seen := map[float64]bool{}
		for _, p := range s.Points {
			seen[p.At(u)] = true
		}
		if len(seen) > minBlocks {
			return u
		}
	}
	return Second
}

// FormatBytes writes a number of bytes with a unit and about three digits.
func FormatBytes(b float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if math.Abs(b) >= u.size {
			return trimZero(b/u.size) + " " + u.name
		}
	}
	return fmt.Sprintf("%.0f B", b)
}

func trimZero(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
