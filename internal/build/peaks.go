package build

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// Peaks are what the jobs of earlier builds took, by object file.
type Peaks struct {
	Measured map[string]int64 `json:"measured_mib"`   // by path below the build folder
	Objects  []string         `json:"objects"`        // all that the last build has, measured or not
	Kept     map[string]Kept  `json:"kept,omitempty"` // what whole builds took, by their kind
}

// PeaksFile is where the peaks of a target's jobs are kept below a cache folder:
// another compiler, or the same at another place, has figures of its own.
func PeaksFile(cache, target string, f Facts) string {
	var of []string
	for _, role := range []string{"cc", "cxx", "nvcc"} {
		of = append(of, f.Tools[role].Path, f.Tools[role].Banner)
	}
	return filepath.Join(cache, "jobs", target+"-"+sha256Hex([]byte(strings.Join(of, "\n")))[:12]+".json")
}

// LoadPeaks reads a file that Run kept. One that is not there, or cannot be read,
// is a build that was never measured.
func LoadPeaks(file string) Peaks {
	var p Peaks
	if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &p) != nil {
		return Peaks{}
	}
	return p
}

// jobRest is the part of the free memory that no job gets: for Ninja, the page
// cache that compilers read headers from, and what differs from tag to tag.
const jobRest = 0.1

// jobs follows memory as well as cores: a compiler that the kernel kills for
// want of memory costs more than a core that idles. The largest jobs may all run
// at once; one that was never measured counts as the toolchain's job-mib, or as
// the largest that was.
func jobs(f Facts, tc spec.Toolchain, p Peaks) (n int, why string) {
	n, why = max(f.Cores, 1), fmt.Sprintf("%d processors", f.Cores)
	if f.MemoryMiB <= 0 || tc.JobMiB <= 0 {
		return n, why
	}
	unknown := tc.JobMiB
	for _, mib := range p.Measured {
		unknown = max(unknown, mib)
	}
	var take []int64
	measured := 0
	for _, name := range p.Objects {
		if mib := p.Measured[name]; mib > 0 {
			take, measured = append(take, mib), measured+1
		} else {
			take = append(take, unknown)
		}
	}
	if measured == 0 {
		if m := int(max(f.MemoryMiB/unknown, 1)); m < n {
			return m, fmt.Sprintf("%d MiB of memory are free, and a job may take %d MiB", f.MemoryMiB, unknown)
		}
		return n, why
	}
	slices.SortFunc(take, func(a, b int64) int { return int(b - a) })
	room, fit := f.MemoryMiB-int64(float64(f.MemoryMiB)*jobRest), 0
	for sum := int64(0); fit < len(take) && sum+take[fit] <= room; fit++ {
		sum += take[fit]
	}
	if fit = max(fit, 1); fit < n && fit < len(take) {
		return fit, fmt.Sprintf("%d MiB of memory are free, and the largest %d of the %d jobs took up to %d MiB each (%d "+
			"were measured)", f.MemoryMiB, fit+1, len(take), take[0], measured)
	}
	return n, why
}

// sampleEvery is the time between two looks at the compilers; the kernel keeps each
// process's peak between them. On a machine with very many processes a look takes
// longer, and looks are rarer: they get a fiftieth of one core at most.
const (
	sampleEvery = 250 * time.Millisecond
	sampleShare = 50
)

// sampler measures the jobs of a running Ninja from outside, so that no command
// changes: what is hashed by a compiler cache, or by Ninja itself, stays as it is.
type sampler struct {
	ninja int
	peaks map[string]int64 // object -> KiB
	stop  chan struct{}
	done  chan struct{}
}

func startSampler(ninja int) *sampler {
	s := &sampler{ninja: ninja, peaks: map[string]int64{}, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for wait := sampleEvery; ; {
			select {
			case <-s.stop:
				return
			case <-time.After(wait):
				start := time.Now()
				s.look()
				wait = max(sampleEvery, sampleShare*time.Since(start))
			}
		}
	}()
	return s
}

// end returns what was seen, in MiB, rounded up.
func (s *sampler) end() map[string]int64 {
	close(s.stop)
	<-s.done
	out := map[string]int64{}
	for name, kib := range s.peaks {
		out[name] = kib>>10 + 1
	}
	return out
}

// A job is a child of Ninja's: a compiler, or the cache or the shell before it.
var outputRE = regexp.MustCompile(`[ \x00]-o[ \x00]+"?([^ \x00"]+\.o)\b`)

func (s *sampler) look() {
	// Not every kernel has a file that names a process's own children.
	all, _ := run.ProcStats()
	children, names := map[int][]int{}, map[int]string{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p.PID)
		names[p.PID], _, _ = strings.Cut(p.Name, "-") // clang-19
	}
	for _, pid := range children[s.ninja] {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		m := outputRE.FindSubmatch(line)
		if m == nil {
			continue
		}
		var now, high int64
		compiles := false
		for tree := []int{pid}; len(tree) > 0; {
			p := tree[0]
			tree = append(tree[1:], children[p]...)
			f := fields(fmt.Sprintf("/proc/%d/status", p))
			now += f["VmRSS"] + f["VmSwap"] // what is swapped out it needs all the same
			high = max(high, f["VmHWM"])
			compiles = compiles || slices.Contains(compilers, names[p])
		}
		// Neither a cache that has the object nor a driver is what takes memory.
		if name := string(m[1]); compiles {
			s.peaks[name] = max(s.peaks[name], now, high)
		}
	}
}

// compilers are the programs that do the work below gcc, clang and nvcc.
var compilers = []string{"cc1", "cc1plus", "clang", "cicc", "ptxas", "cudafe++", "nvlink"}

// keepPeaks adds what a build measured to what is kept. Of two figures the higher
// one stands: the lower is of a look that came too early.
func keepPeaks(file string, targets []string, measured map[string]int64) error {
	p := LoadPeaks(file)
	if p.Measured == nil {
		p.Measured = map[string]int64{}
	}
	for name, mib := range measured {
		p.Measured[name] = max(p.Measured[name], mib)
	}
	p.Objects = nil
	for _, t := range targets {
		if strings.HasSuffix(t, ".o") {
			p.Objects = append(p.Objects, t)
		}
	}
	return p.write(file)
}

func (p Peaks) write(file string) error {
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(file, append(text, '\n'), 0o644)
}
