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

// look fills in RSS and Anon, and PSS when its turn has come. It reports false
// when every process has ended.
func (p *procs) look(pt *Point) bool {
	now := time.Now()
	if !now.Before(p.next) {
		p.refresh()
		took := time.Since(now)
		p.next = now.Add(max(treeEvery, time.Duration(float64(took)/share)))
	}
	var rss, anon int64
	for pid, f := range p.open {
		r, a, ok := p.read(f)
		if !ok {
			f.Close()
			delete(p.open, pid)
			continue
		}
		rss += r
		anon += a
	}
	// A program that has ended has no memory, and would look like one that gave
	// all of it back; a zombie has none either.
	if rss == 0 {
		return false
	}
	pt.RSS, pt.Anon = &rss, &anon
	if began := time.Now(); !began.Before(p.nextP) {
		if pss, ok := p.pss(); ok {
			pt.PSS = &pss
		}
		p.nextP = began.Add(max(treeEvery, time.Duration(float64(time.Since(began))/share)))
	}
	return true
}

// read gives a process' resident memory, and the part of it that the program took
// itself, in bytes.
func (p *procs) read(f *os.File) (resident, own int64, ok bool) {
	n, err := f.ReadAt(p.buf, 0)
	if n == 0 && err != nil {
		return 0, 0, false
	}
	if p.statm {
		r, s, ok := parseStatm(p.buf[:n], p.page)
		return r, r - s, ok
	}
	return parseStatus(p.buf[:n])
}

// parseStatus reads RssAnon, RssFile and RssShmem of a status file (proc(5)). A
// zombie has none of them, and no memory. Shared memory that no file on a disk backs
// (RssShmem) is the program's own: the system cannot take it back.
func parseStatus(b []byte) (resident, own int64, ok bool) {
	if !bytes.HasPrefix(b, []byte("Name:")) {
		return 0, 0, false
	}
	for line := range bytes.Lines(b) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		if !bytes.HasPrefix(name, []byte("Rss")) {
			continue
		}
		kb, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 48)
		if err != nil || kb < 0 {
			return 0, 0, false
		}
		switch string(name) {
		case "RssAnon", "RssShmem":
			own += kb << 10
			resident += kb << 10
		case "RssFile":
			resident += kb << 10
		}
	}
	return resident, own, true
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

// pss is Pss of smaps_rollup, for which the kernel walks every page.
func (p *procs) pss() (sum int64, ok bool) {
	for pid := range p.open {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		if err != nil {
			continue // it has just ended, or belongs to another user
		}
		if n, found := parsePSS(b); found {
			sum, ok = sum+n, true
		}
	}
	return sum, ok
}

func parsePSS(b []byte) (int64, bool) {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			rest = bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))
			n, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 50)
			return n << 10, err == nil && n >= 0
		}
	}
	return 0, false
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
