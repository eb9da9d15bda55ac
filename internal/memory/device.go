package memory

import (
	"fmt"
	"slices"
	"sort"
)

// slack is how much the memory of another program may change before it counts as
// using the card: nvidia-smi counts in MiB, and drivers in 2 MiB pages.
const slack = 4 << 20

// place turns readings into the points' VRAM: the cards' figures less what was
// taken before the program began, or, where another program changed meanwhile,
// those of the program's own processes.
func place(points []Point, idle []Reading, readings []reading, source string, notes []string) (Device, []string) {
	d := Device{}
	first := slices.IndexFunc(readings, func(r reading) bool { return r.Absent == "" })
	if first < 0 {
		if len(readings) > 0 {
			d.Unknown = readings[len(readings)-1].Absent
		}
		return d, notes
	}
	before, after := readings[:first], slices.DeleteFunc(readings[first:], func(r reading) bool { return r.Absent != "" })
	readings = slices.Concat(before, after)
	last := readings[len(readings)-1].Reading
	d.Total, d.Cards, d.Source = last.Total, last.Cards, source
	held := map[int]int64{}
	if len(idle) > 0 {
		used := make([]int64, 0, len(idle))
		for _, r := range idle {
			used = append(used, r.Used)
			for _, h := range r.Others {
				held[h.PID] = h.Bytes
			}
		}
		slices.Sort(used)
		d.Baseline = used[len(used)/2]
	} else {
		d.Baseline = readings[0].Used
		notes = append(notes, "the card's idle figure is not known: VRAM counts from the first look")
	}
	own := 0
	for _, r := range readings {
		if r.HasOwn {
			own++
		}
	}
	who := meddlers(held, readings, own > 0)
	perProcess := len(who) > 0 && own > 0
	switch {
	case perProcess:
		d.Source += ", per process"
		notes = append(notes, fmt.Sprintf("another program used the card too (process %s): VRAM is that of the program's "+
			"own processes", join(who)))
	case len(who) > 0:
		d.Shared = true
		notes = append(notes, fmt.Sprintf("another program used the card too (process %s), and there are no figures per "+
			"process: its memory is in the VRAM figures, which cannot be judged", join(who)))
	default:
		d.Source += ", the card less its idle figure"
	}
	if !perProcess {
		low := d.Baseline
		for _, r := range readings {
			low = min(low, r.Used)
		}
		if d.Baseline-low > slack {
			notes = append(notes, fmt.Sprintf("the card fell below its idle figure of %d MiB, which somebody else gave back: "+
				"VRAM counts from the lowest look, %d MiB", d.Baseline>>20, low>>20))
			d.Baseline = low
		}
	}
	subtractHost(points, readings)
	for _, r := range readings {
		switch {
		case !perProcess:
			// Less than before is rounding.
			v := max(0, r.Used-d.Baseline)
			points[r.point].VRAM = &v
		case r.HasOwn:
			v := r.Own
			points[r.point].VRAM = &v
		}
	}
	return d, notes
}

// subtractHost takes the device's own records out of the host's figures: they grow
// with every allocation that is followed, and are no memory of the program.
func subtractHost(points []Point, readings []reading) {
	var host int64
	next := 0
	for i := range points {
		for next < len(readings) && readings[next].point <= i {
			host = readings[next].Host
			next++
		}
		for _, v := range []*int64{points[i].RSS, points[i].Anon, points[i].PSS} {
			if v != nil {
				*v = max(0, *v-host)
			}
		}
	}
}

// meddlers are the other programs whose device memory changed while the program
// ran. A process that this system does not show may be the program itself, seen
// from outside its container, unless our own are seen as well.
func meddlers(before map[int]int64, readings []reading, sawOwn bool) []int {
	who := map[int]bool{}
	for _, r := range readings {
		now := map[int]bool{}
		for _, h := range r.Others {
			now[h.PID] = true
			was, known := before[h.PID]
			switch {
			case known && h.Bytes >= 0 && was >= 0 && max(h.Bytes-was, was-h.Bytes) > slack:
				who[h.PID] = true
			case !known && (sawOwn || hasProcess(h.PID)):
				who[h.PID] = true
			}
		}
		for pid := range before {
			if !now[pid] && before[pid] > slack && len(r.Others) > 0 {
				who[pid] = true // it left the card
			}
		}
	}
	out := make([]int, 0, len(who))
	for pid := range who {
		out = append(out, pid)
	}
	sort.Ints(out)
	return out
}

func join(pids []int) string {
	s := ""
	for i, p := range pids {
		if i == 3 {
			return s + fmt.Sprintf(" and %d more", len(pids)-i)
		}
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(p)
	}
	return s
}
