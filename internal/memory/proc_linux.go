package memory

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// treeEvery bounds how often the processes below a pid are looked for: a server
// with a hundred threads has a hundred files to read for that.
const treeEvery = time.Second

// share is the part of one core that a costly look may take: its next turn comes
// when so much time has passed that the average is below it.
const share = 0.003

// maxStatus is more than a status file has before its last figure of memory: a
// user in a thousand groups has them all before it.
const maxStatus = 16 << 10

// procs reads the memory of a process and all below it.
type procs struct {
	root   int
	page   int64
	open   map[int]*os.File // status of each process, kept open: a reused pid gives ESRCH here
	buf    []byte
	next   time.Time // when to look for new processes
	nextP  time.Time // when to look at PSS
	noTree bool      // the kernel has no children files
	statm  bool      // the kernel's status does not tell anonymous from shared memory (before 4.5): statm instead
	shared int64     // bytes of shared memory in swap, when smaps_rollup was looked at last
}

func newProcs(root int) *procs {
	p := &procs{root: root, page: int64(os.Getpagesize()), open: map[int]*os.File{}, buf: make([]byte, maxStatus)}
	_, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children")
	p.noTree = errors.Is(err, os.ErrNotExist)
	if b, err := os.ReadFile("/proc/self/status"); err != nil || !bytes.Contains(b, []byte("\nRssShmem:")) {
		p.statm = true
	}
	return p
}

func (p *procs) close() {
	for pid, f := range p.open {
		f.Close()
		delete(p.open, pid)
	}
}

// pids returns the processes that are being watched.
func (p *procs) pids() []int {
	out := make([]int, 0, len(p.open))
	for pid := range p.open {
		out = append(out, pid)
	}
	return out
}

// hosted is what a process has of memory, in bytes.
type hosted struct {
	resident int64
	own      int64 // what the program took itself, wherever it lies
	swapped  int64 // of that what lies in swap, zswap or zram
}

// look fills in RSS, Anon and Swap, and PSS when its turn has come. It reports false
// when every process has ended.
func (p *procs) look(pt *Point) bool {
	now := time.Now()
	if !now.Before(p.next) {
		p.refresh()
		took := time.Since(now)
		p.next = now.Add(max(treeEvery, time.Duration(float64(took)/share)))
	}
	var sum hosted
	for pid, f := range p.open {
		h, ok := p.read(pid, f)
		if !ok {
			f.Close()
			delete(p.open, pid)
			continue
		}
		sum.resident += h.resident
		sum.own += h.own
		sum.swapped += h.swapped
	}
	// A program that has ended has no memory, and would look like one that gave
	// all of it back; a zombie has none either.
	if sum == (hosted{}) {
		return false
	}
	if began := time.Now(); !began.Before(p.nextP) {
		if pss, swapped, ok := p.rollup(); ok {
			pt.PSS = &pss
			p.shared = sharedSwap(swapped, sum.swapped)
		}
		p.nextP = began.Add(max(treeEvery, time.Duration(float64(time.Since(began))/share)))
	}
	sum.own += p.shared
	sum.swapped += p.shared
	pt.RSS, pt.Anon = &sum.resident, &sum.own
	if sum.swapped > 0 {
		pt.Swap = &sum.swapped
	}
	return true
}

// sharedSwap is how much shared memory is swapped out, of which VmSwap knows nothing: what
// smaps_rollup says of all less VmSwap. Both move while they are read, and the kernel's counters
// lag: what is below DefaultFloor is nothing.
func sharedSwap(all, private int64) int64 {
	if d := all - private; d >= DefaultFloor {
		return d
	}
	return 0
}

// read gives what a process has of memory.
func (p *procs) read(pid int, f *os.File) (h hosted, ok bool) {
	n, err := f.ReadAt(p.buf, 0)
	if n == 0 && err != nil {
		return h, false
	}
	if !p.statm {
		return parseStatus(p.buf[:n])
	}
	r, s, ok := parseStatm(p.buf[:n], p.page)
	h = hosted{resident: r, own: r - s}
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status"); err == nil && ok {
		status, _ := parseStatus(b) // which has VmSwap since Linux 2.6.34
		h.swapped = status.swapped
		h.own += h.swapped
	}
	return h, ok
}

// parseStatus reads RssAnon, RssFile, RssShmem and VmSwap of a status file (proc(5)). A
// zombie has none of them, and no memory. Shared memory that no file on a disk backs
// (RssShmem) is the program's own: the system cannot take it back. What the system has
// swapped out it did not take back either.
func parseStatus(b []byte) (h hosted, ok bool) {
	if !bytes.HasPrefix(b, []byte("Name:")) {
		return hosted{}, false
	}
	for line := range bytes.Lines(b) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		if !bytes.HasPrefix(name, []byte("Rss")) && string(name) != "VmSwap" {
			continue
		}
		kb, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 48)
		if err != nil || kb < 0 {
			return hosted{}, false
		}
		switch string(name) {
		case "RssAnon", "RssShmem":
			h.own += kb << 10
			h.resident += kb << 10
		case "RssFile":
			h.resident += kb << 10
		case "VmSwap":
			h.own += kb << 10
			h.swapped += kb << 10
		}
	}
	return h, true
}

// parseStatm reads fields 2 and 3 of a statm file (proc(5)), in bytes.
func parseStatm(b []byte, page int64) (resident, shared int64, ok bool) {
	f := bytes.Fields(b)
	if len(f) < 3 {
		return 0, 0, false
	}
	r, err1 := strconv.ParseInt(string(f[1]), 10, 40)
	s, err2 := strconv.ParseInt(string(f[2]), 10, 40)
	if err1 != nil || err2 != nil || r < 0 || s < 0 {
		return 0, 0, false
	}
	// The kernel keeps these counters per CPU or thread: shared can be ahead.
	return r * page, min(s, r) * page, true
}

// rollup is Pss and Swap of smaps_rollup, for which the kernel walks every page.
func (p *procs) rollup() (pss, swapped int64, ok bool) {
	for pid := range p.open {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		if err != nil {
			continue // it has just ended, or belongs to another user
		}
		if n, s, found := parseRollup(b); found {
			pss, swapped, ok = pss+n, swapped+s, true
		}
	}
	return pss, swapped, ok
}

// parseRollup reads Pss and Swap, in bytes; false without a Pss.
func parseRollup(b []byte) (pss, swapped int64, ok bool) {
	for line := range bytes.Lines(b) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "Pss" && string(name) != "Swap" {
			continue
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB")))), 10, 48)
		switch {
		case err != nil || n < 0:
			return 0, 0, false
		case string(name) == "Pss":
			pss, ok = n<<10, true
		default:
			swapped = n << 10
		}
	}
	return pss, swapped, ok
}

// refresh opens the status of every process below the root that is new.
func (p *procs) refresh() {
	name := "/status"
	if p.statm {
		name = "/statm"
	}
	for _, pid := range p.tree() {
		if p.open[pid] == nil {
			if f, err := os.Open("/proc/" + strconv.Itoa(pid) + name); err == nil {
				p.open[pid] = f
			}
		}
	}
}

func (p *procs) tree() []int {
	if p.noTree {
		return scanTree(p.root)
	}
	pids := []int{p.root}
	for i := 0; i < len(pids); i++ {
		dir := "/proc/" + strconv.Itoa(pids[i]) + "/task"
		d, err := os.Open(dir)
		if err != nil {
			continue
		}
		threads, err := d.Readdirnames(-1)
		d.Close()
		if err != nil {
			continue
		}
		for _, t := range threads {
			// A child is listed under the thread that started it (proc(5)), and
			// moves to another one when that ends.
			b, err := os.ReadFile(dir + "/" + t + "/children")
			if err != nil {
				continue
			}
			for f := range bytes.FieldsSeq(b) {
				if n, err := strconv.Atoi(string(f)); err == nil && !slices.Contains(pids, n) {
					pids = append(pids, n)
				}
			}
		}
	}
	return pids
}

// scanTree finds the processes below root from every process' parent, where the
// kernel was built without the children files.
func scanTree(root int) []int {
	all, err := run.ProcStats()
	if err != nil {
		return nil
	}
	below := map[int][]int{}
	for _, s := range all {
		below[s.Parent] = append(below[s.Parent], s.PID)
	}
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, below[pids[i]]...)
	}
	return pids
}

// Descendants returns a process and all below it, as far as they can be seen.
func Descendants(pid int) []int {
	p := newProcs(pid)
	return p.tree()
}
