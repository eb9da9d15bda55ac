package build

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// Cost is what a whole build is thought to take.
type Cost struct {
	CPUSeconds int64  `json:"cpu_seconds"`        // of one processor; 0: not known
	Seconds    int64  `json:"seconds"`            // of the clock, with the plan's jobs and nothing beside them
	DiskMiB    int64  `json:"disk_mib,omitempty"` // of a release; 0: not known
	From       string `json:"from"`               // where the figures are from
}

// String returns one line, or why there is none.
func (c Cost) String() string {
	disk := ""
	if c.DiskMiB > 0 {
		disk = fmt.Sprintf(", %.1f GiB of disk", float64(c.DiskMiB)/1024)
	}
	if c.CPUSeconds == 0 {
		return "not known" + disk + ": " + c.From
	}
	return fmt.Sprintf("about %s (%s of one processor)%s, if nothing is built yet: %s", minutes(c.Seconds),
		minutes(c.CPUSeconds), disk, c.From)
}

func minutes(seconds int64) string { return fmt.Sprintf("%d min", (seconds+59)/60) }

// Kept is what earlier builds of a kind took.
type Kept struct {
	Builds  int    `json:"builds"`
	Tag     string `json:"tag"`     // of the one that took most
	Seconds int64  `json:"seconds"` // of all its steps together
}

// kind tells builds of one target apart that take longer or less: by the archs and what is made.
func (p Plan) kind() string {
	return strings.Join(append([]string{"archs " + strings.Join(p.archs(), ";")}, p.Programs...), " ")
}

// archs are those that device code is made for.
func (p Plan) archs() []string {
	for _, o := range p.Options {
		if o.Name == archsOption || o.Name == gfxOptions[0] {
			return strings.Split(o.Value, ";")
		}
	}
	return nil
}

// Estimate says what a whole build of the plan takes, from earlier ones on this machine with the
// same compilers and archs, else from the recipe's own figures.
func Estimate(p Plan, rec spec.Recipe, kept Peaks) Cost {
	c := Cost{DiskMiB: rec.DiskMiB, From: "no build of it was measured"}
	if k, ok := kept.Kept[p.kind()]; ok {
		builds := "1 build"
		if k.Builds > 1 {
			builds = fmt.Sprintf("the longest of %d builds,", k.Builds)
		}
		c.CPUSeconds, c.From = k.Seconds, fmt.Sprintf("from %s of %s on this machine", builds, k.Tag)
	} else if seed := rec.Cost; seed != nil && len(p.Programs) == len(rec.Programs) {
		more := max(len(p.archs())-1, 0)
		c.CPUSeconds = seed.Seconds + int64(more)*seed.ArchSeconds
		c.From = "from the project's record on " + seed.Machine
		if more > 0 {
			c.From += fmt.Sprintf(", reckoned from one arch to %d", more+1)
		}
	}
	c.Seconds = c.CPUSeconds / int64(max(p.Jobs, 1))
	return c
}

// KeepCost adds what a build that has ended took, by Ninja's own log, to the file of its jobs'
// peaks. Of two figures the higher one stands: the lower is of a build that a compiler cache
// helped. What another machine built has no log here, and is left out.
func KeepCost(file string, p Plan) error {
	text, err := os.ReadFile(filepath.Join(p.Dir, ".ninja_log"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	took := ninjaSeconds(string(text))
	kept := LoadPeaks(file)
	if kept.Kept == nil {
		kept.Kept = map[string]Kept{}
	}
	k := kept.Kept[p.kind()]
	k.Builds++
	if took > k.Seconds {
		k.Seconds, k.Tag = took, p.Tag
	}
	k.Tag = cmp.Or(k.Tag, p.Tag)
	kept.Kept[p.kind()] = k
	return kept.write(file)
}

// ninjaSeconds adds up what the steps in a log of Ninja's took: each output's last line counts,
// and what one step makes several of counts once.
func ninjaSeconds(log string) int64 {
	type step struct{ start, end, hash string }
	last := map[string]step{}
	for line := range strings.Lines(log) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 5 && !strings.HasPrefix(line, "#") {
			last[f[3]] = step{f[0], f[1], f[4]}
		}
	}
	seen := map[step]bool{}
	var ms int64
	for _, s := range last {
		start, err1 := strconv.ParseInt(s.start, 10, 64)
		end, err2 := strconv.ParseInt(s.end, 10, 64)
		if err1 == nil && err2 == nil && !seen[s] {
			ms += max(end-start, 0)
		}
		seen[s] = true
	}
	return ms / 1000
}
