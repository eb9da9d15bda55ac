package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// What a build took is by Ninja's log: a step that makes two files counts once, and of a file
// made twice the last time.
func TestNinjaSeconds(t *testing.T) {
	log := "# ninja log v5\n0\t9000\t0\ta.o\taa\n0\t4000\t0\ta.o\tab\n1000\t3500\t0\tb.o\tbb\n4000\t4600\t0\tlib.so\tcc\n4000\t4600\t0\tlib.so.0\tcc\nbroken\n"
	if got := ninjaSeconds(log); got != 7 {
		t.Errorf("%d s, want 7", got)
	}
}

func TestEstimate(t *testing.T) {
	plan := Plan{
		Tag: "b2", Dir: t.TempDir(), Jobs: 2, Programs: []string{"a", "b"},
		Options: []Option{{Name: archsOption, Value: "86-real;89-real;50-virtual"}},
	}
	rec := spec.Recipe{Programs: plan.Programs, DiskMiB: 2048, Cost: &spec.Cost{
		Seconds: 3000, ArchSeconds: 600,
		Machine: "2 cores",
	}}
	file := filepath.Join(t.TempDir(), "jobs", "x.json")
	is := func(p Plan, want string) {
		t.Helper()
		if got := Estimate(p, rec, LoadPeaks(file)).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	build := func(p Plan, log string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.Dir, ".ninja_log"), []byte(log), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := KeepCost(file, p); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing was built: no log is no fault, and the record counts.
	if err := KeepCost(file, plan); err != nil {
		t.Fatal(err)
	}
	const seed = "about 35 min (70 min of one processor), 2.0 GiB of disk, if nothing is built yet: from the project's " +
		"record on 2 cores, reckoned from one arch to 3"
	is(plan, seed)
	build(plan, "# ninja log v5\n0\t120000\t0\ta.o\taa\n")
	is(plan, "about 1 min (2 min of one processor), 2.0 GiB of disk, if nothing is built yet: from 1 build of b2 on "+
		"this machine")
	// The second was quick, by a compiler cache.
	later := plan
	later.Tag = "b3"
	build(later, "# ninja log v5\n0\t1000\t0\ta.o\taa\n")
	is(plan, "about 1 min (2 min of one processor), 2.0 GiB of disk, if nothing is built yet: from the longest of 2 "+
		"builds, of b2 on this machine")
	// Peaks of jobs that are kept later leave the figures where they are.
	if err := keepPeaks(file, []string{"a.o"}, map[string]int64{"a.o": 3}); err != nil {
		t.Fatal(err)
	}
	if got := Estimate(plan, rec, LoadPeaks(file)).CPUSeconds; got != 120 {
		t.Errorf("after peaks: %d s", got)
	}
	// Other archs are another kind of build.
	other := plan
	other.Options = []Option{{Name: archsOption, Value: "86-real"}}
	is(other, "about 25 min (50 min of one processor), 2.0 GiB of disk, if nothing is built yet: from the project's "+
		"record on 2 cores")
	// Of a library alone nothing is known until one was built.
	other.Programs = []string{"a"}
	if got := Estimate(other, rec, LoadPeaks(file)); got.CPUSeconds != 0 ||
		!strings.HasPrefix(got.String(), "not known, 2.0 GiB") {
		t.Errorf("%s", got)
	}
}
