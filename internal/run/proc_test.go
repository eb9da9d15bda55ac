package run

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 7 7 0 -1 4194304 100 0 0 0 12 34 0 0 20 0 1 0 4242 1000 10 18446744073709551615"
	named := func(name string) ProcStat {
		return ProcStat{PID: 7, Parent: 1, Name: name, State: "S", Threads: 1, Ticks: 46, Began: 4242}
	}
	for in, want := range map[string]ProcStat{
		"7 (sh)" + rest:     named("sh"),
		"7 (a b) c)" + rest: named("a b) c"),
		"7 ()" + rest:       named(""),
		"7 (sh) S 1":        {},
		"7 sh" + rest:       {},
		")7(":               {},
		"":                  {},
		// A thread of the kernel is named NAME/CPU, and more of a worker: no path.
		"7 (kworker/u8:3+btrfs-endio)" + strings.Replace(rest, "4194304", "69238880", 1): named("kworker"),
		"7 (a/b)" + rest:                named("a/b"),
		"7 (sh)" + rest[:44] + " x y z": {},
	} {
		if got, ok := parseStat(7, in); got != want || ok != (want != ProcStat{}) {
			t.Errorf("%q: %+v %v, want %+v", in, got, ok, want)
		}
	}
}

func TestProcStats(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc here")
	}
	all, err := ProcStats()
	if err != nil || !slices.ContainsFunc(all, func(s ProcStat) bool { return s.PID == os.Getpid() && s.Parent == os.Getppid() && s.Threads > 0 }) {
		t.Errorf("%d processes without this one, %v", len(all), err)
	}
}
