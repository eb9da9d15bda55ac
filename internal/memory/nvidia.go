package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// NvidiaSMI returns a probe that keeps two nvidia-smi processes running, one for
// the cards and one for the programs on them: a query of its own for every look
// would start the driver's library each time. env must hold a PATH that has
// nvidia-smi. NVML itself would need cgo, or a loader that makes llpatch depend
// on the system's C library. cards are the UUIDs of those that are meant, none for
// all.
func NvidiaSMI(env []string, cards ...string) Probe { return nvidiaSMI(env, 0, cards...) }

// nvidiaSMI gives up after the silence; 0 is the usual one.
func nvidiaSMI(env []string, limit time.Duration, cards ...string) Probe {
	return func(ctx context.Context, every time.Duration, watched func() []int, out func(Reading)) error {
		ctx, cancel := context.WithCancel(ctx)
		n := &nvidia{
			every: every, limit: cmp.Or(limit, silence(every)), watched: watched, out: out,
			rows: make(chan struct{}, 1), apps: map[string]app{},
		}
		var running sync.WaitGroup
		defer running.Wait() // or nvidia-smi would outlive the probe
		defer cancel()
		query := func(q string, every time.Duration, line func(string)) run.Cmd {
			argv := []string{
				"nvidia-smi", q, "--format=csv,noheader,nounits", "-lms",
				strconv.FormatInt(every.Milliseconds(), 10),
			}
			if len(cards) > 0 {
				argv = append(argv, "-i", strings.Join(cards, ","))
			}
			return run.Cmd{
				Argv:   argv,
				Env:    env,
				Stdout: eachLine(line), Grace: -1,
			}
		}
		rows, err := run.Start(ctx, query("--query-gpu=index,uuid,memory.used,memory.total", every, n.card))
		if errors.Is(err, run.ErrNotFound) {
			return errors.New("nvidia-smi is not installed (it comes with NVIDIA's driver)")
		}
		if err != nil {
			return err
		}
		running.Go(func() { _ = rows.Wait() })
		// Containers and WDDM often give no figures per process: then the cards' own
		// are what there is.
		running.Go(func() {
			if err := run.Run(ctx, query("--query-compute-apps=gpu_uuid,pid,used_memory", appsEvery(every),
				n.app)); err != nil && ctx.Err() == nil {
				n.mu.Lock()
				n.listed = true
				n.mu.Unlock()
				n.note("nvidia-smi does not list the programs on the card: another one using it would not be noticed")
			}
		})
		return n.wait(ctx, rows)
	}
}

// appsEvery is how often the programs on the cards are listed: each nvidia-smi
// costs 0.7 % of a core at 100 ms (driver 580, one H100).
func appsEvery(every time.Duration) time.Duration { return max(every, time.Second) }

// nvidia joins what the two processes print.
type nvidia struct {
	every   time.Duration
	limit   time.Duration // of silence
	watched func() []int
	out     func(Reading)
	rows    chan struct{} // a card's row has come

	mu      sync.Mutex
	order   []string // the cards' uuids, in the order of one round
	round   []card
	apps    map[string]app // by card and pid
	notes   []string
	garbage string // the first line that could not be read
	good    int
	since   time.Time // of the first row
	listed  bool      // the programs on the cards are known, or will not be
}

type card struct {
	uuid        string
	used, total int64 // bytes
}

type app struct {
	pid   int
	bytes int64 // -1: not known
	seen  time.Time
}

// wait watches for an end and for silence.
func (n *nvidia) wait(ctx context.Context, p *run.Process) error {
	quiet := time.NewTimer(n.limit)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.rows:
			quiet.Reset(n.limit)
		case <-quiet.C:
			return n.failure(fmt.Sprintf("it printed no figures for %v and was stopped", n.limit))
		case <-p.Done():
			if ctx.Err() != nil {
				return nil
			}
			how := "it ended by itself"
			if e, ok := errors.AsType[*run.Error](p.Wait()); ok && e.Exit >= 0 {
				how = fmt.Sprintf("it ended with exit code %d", e.Exit)
			}
			return n.failure(how)
		}
	}
}

func (n *nvidia) failure(how string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.garbage != "" {
		how += fmt.Sprintf("; it printed %q", n.garbage)
	}
	return fmt.Errorf("nvidia-smi: %s: %w", how, errNoReading)
}

func (n *nvidia) note(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, s)
}

// card takes one row of --query-gpu, and passes a reading on when every card has
// had its row: nvidia-smi prints one a card and round, in the same order.
func (n *nvidia) card(line string) {
	c, err := parseNvidiaCard(line)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		if n.garbage == "" {
			n.garbage = clip(line, 200)
			n.notes = append(n.notes, fmt.Sprintf("nvidia-smi printed a line that is no figure: %q", n.garbage))
		}
		return
	}
	select {
	case n.rows <- struct{}{}:
	default:
	}
	if n.good++; n.good == 1 {
		n.order = append(n.order, c.uuid)
	} else if c.uuid != n.order[0] && n.good == len(n.order)+1 {
		n.order = append(n.order, c.uuid)
	}
	if len(n.round) > 0 && c.uuid == n.order[0] {
		n.emit()
		n.round = n.round[:0]
	}
	n.round = append(n.round, c)
	// The first round ends when a card comes again; later ones are known by their length.
	if n.good > len(n.order) && len(n.round) == len(n.order) {
		n.emit()
		n.round = n.round[:0]
	}
}

func (n *nvidia) emit() {
	// The first reading is the idle one, and must have the programs that are there
	// before: nvidia-smi prints nothing where there are none.
	if n.since.IsZero() {
		n.since = time.Now()
	}
	if !n.listed && time.Since(n.since) < appsEvery(n.every) {
		return
	}
	r := Reading{Cards: len(n.round), Notes: n.notes}
	for _, c := range n.round {
		r.Used += c.used
		r.Total += c.total
	}
	mine := map[int]bool{}
	for _, pid := range n.watched() {
		mine[pid] = true
	}
	own := false
	for key, a := range n.apps {
		switch {
		case time.Since(a.seen) > 5*appsEvery(n.every):
			delete(n.apps, key) // it has left the card
		case !mine[a.pid]:
			r.Others = append(r.Others, Holder{PID: a.pid, Bytes: a.bytes})
		case a.bytes >= 0:
			r.Own += a.bytes
			own = true
		}
	}
	r.HasOwn = own
	n.out(r)
}

// app takes one row of --query-compute-apps.
func (n *nvidia) app(line string) {
	uuid, a, err := parseNvidiaApp(line)
	if err != nil {
		return // "No running processes found" and the like
	}
	a.seen = time.Now()
	n.mu.Lock()
	n.apps[uuid+" "+strconv.Itoa(a.pid)] = a
	n.listed = true
	n.mu.Unlock()
}

// parseNvidiaCard reads "index, uuid, memory.used, memory.total", both in MiB.
func parseNvidiaCard(line string) (card, error) {
	f := fields(line)
	if len(f) != 4 {
		return card{}, errNoReading
	}
	if _, err := strconv.ParseUint(f[0], 10, 16); err != nil {
		return card{}, errNoReading
	}
	used, ok1 := mib(f[2])
	total, ok2 := mib(f[3])
	if f[1] == "" || !ok1 || !ok2 || total == 0 || used > total {
		return card{}, errNoReading
	}
	return card{uuid: f[1], used: used, total: total}, nil
}

// parseNvidiaApp reads "gpu_uuid, pid, used_memory" in MiB; a memory of [N/A] is
// what WDDM and some containers give.
func parseNvidiaApp(line string) (uuid string, a app, err error) {
	f := fields(line)
	if len(f) != 3 || f[0] == "" {
		return "", app{}, errNoReading
	}
	if a.pid, err = strconv.Atoi(f[1]); err != nil || a.pid <= 0 {
		return "", app{}, errNoReading
	}
	b, ok := mib(f[2])
	if !ok {
		b = -1
	}
	a.bytes = b
	return f[0], a, nil
}

func fields(line string) []string {
	f := strings.Split(line, ",")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	return f
}

func mib(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int64(n) << 20, err == nil
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + " …"
	}
	return strings.ToValidUTF8(s, "?")
}

// eachLine returns a writer that calls each for every line that is not blank.
func eachLine(each func(string)) *run.Lines {
	return run.NewLines(4096, func(line string) {
		if strings.TrimSpace(line) != "" {
			each(line)
		}
	})
}

// hasProcess reports whether this system shows a process of that number: a
// figure for one that it does not show comes from another container's world.
func hasProcess(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}
