package run

import (
	"os"
	"strconv"
	"strings"
)

// ProcStat is what Linux says of a process in /proc/PID/stat (proc(5)).
type ProcStat struct {
	PID, Parent int
	Name        string // of its program; it may hold anything, and of a thread of the kernel lacks /CPU
	State       string // Z and X have ended
	Threads     int64
	Ticks       int64 // of processor time, of it alone
	Began       int64 // ticks since the machine started
}

// kernelThread is PF_KTHREAD of the flags.
const kernelThread = 0x200000

// ReadStat reads a process's; false where there is none, or no /proc.
func ReadStat(pid int) (ProcStat, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ProcStat{}, false
	}
	return parseStat(pid, string(b))
}

func parseStat(pid int, stat string) (ProcStat, bool) {
	// pid (comm) state ppid …; comm may hold spaces and parentheses.
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return ProcStat{}, false
	}
	f := strings.Fields(stat[end+1:])
	if len(f) < 20 {
		return ProcStat{}, false
	}
	n := make([]int64, 20)
	for _, i := range []int{1, 6, 11, 12, 17, 19} { // ppid, flags, utime, stime, num_threads, starttime
		var err error
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return ProcStat{}, false
		}
	}
	name := stat[open+1 : end]
	if n[6]&kernelThread != 0 {
		name, _, _ = strings.Cut(name, "/")
	}
	return ProcStat{pid, int(n[1]), name, f[0], n[17], n[11] + n[12], n[19]}, true
}

// ProcStats reads those of all processes that are to be seen.
func ProcStats() ([]ProcStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // only read from
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []ProcStat
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := ReadStat(pid); ok { // else it has just ended
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// Machine returns what Linux says of this machine: its kernel, its processor, and its memory in
// KiB. What it does not say is empty.
func Machine() (kernel, processor string, memoryKiB int64) {
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(b))
	}
	memory := strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB")
	memoryKiB, _ = strconv.ParseInt(memory, 10, 64) // 0: not said
	return kernel, procField("/proc/cpuinfo", "model name"), memoryKiB
}

// procField returns the first value of "key : value", or "".
func procField(file, key string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Load is how many processes ran or wanted to in the last minute (proc(5), loadavg); false
// where the system does not tell.
func Load() (float64, bool) {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseFloat(first, 64)
	return n, err == nil
}
