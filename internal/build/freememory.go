package build

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// FreeMemory is the memory of this machine that is free, in MiB, or 0 where that is not
// known.
func FreeMemory() int64 { return freeMemory("/") >> 20 }

// freeMemory returns the bytes that new processes may take: the kernel's
// MemAvailable, or less where a control group above this process allows less.
// root is "/" but for tests. It is 0 where nothing is known, as outside Linux.
func freeMemory(root string) int64 {
	free := fields(filepath.Join(root, "proc/meminfo"))["MemAvailable"] << 10
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return free
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; the unified hierarchy has no controllers here.
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		var base, limit, usage, cache string
		switch {
		case part[1] == "":
			base, limit, usage, cache = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
		case slices.Contains(strings.Split(part[1], ","), "memory"):
			base, limit, usage, cache = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
				"total_inactive_file"
		default:
			continue
		}
		// A limit of any group above counts as well. Inside a container the path
		// may not exist, and then the top is the container's own group.
		for p := filepath.Clean("/" + part[2]); ; p = filepath.Dir(p) {
			dir := filepath.Join(root, base, p)
			if most, ok := number(filepath.Join(dir, limit)); ok && most < 1<<60 {
				used, _ := number(filepath.Join(dir, usage))
				// What the group holds as cache of files is given up on demand.
				left := most - max(used-fields(filepath.Join(dir, "memory.stat"))[cache], 0)
				if left = max(left, 1); free == 0 || left < free {
					free = left
				}
			}
			if p == "/" {
				break
			}
		}
	}
	return free
}

func number(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// fields reads lines of a name and a number, as in meminfo and memory.stat.
func fields(file string) map[string]int64 {
	m := map[string]int64{}
	b, err := os.ReadFile(file)
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			m[strings.TrimSuffix(f[0], ":")] = n
		}
	}
	return m
}
