package run

import (
	"os"
	"runtime"
	"slices"
	"strconv"
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
	if err != nil || !slices.ContainsFunc(all, func(s ProcStat) bool {
		return s.PID == os.Getpid() && s.Parent == os.Getppid() && s.Threads > 0
	}) {
		t.Errorf("%d processes without this one, %v", len(all), err)
	}
}

func TestMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	if kernel, _, kib := Machine(); kernel == "" || kib < 1<<10 {
		t.Errorf("kernel %q, %d KiB of memory", kernel, kib)
	}
	if load, ok := Load(); !ok || load < 0 || load > 1e6 {
		t.Errorf("load %v, %v", load, ok)
	}
	if got := procField("/proc/self/status", "Pid"); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("this process is %q", got)
	}
}

func TestLookEnv(t *testing.T) {
	env := []string{"A=1", "AB=2", "A=3", "EMPTY="}
	for key, want := range map[string]string{"A": "3", "AB": "2", "EMPTY": "", "B": "-"} {
		got, ok := LookEnv(env, key)
		if !ok {
			got += "-"
		}
		if got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
