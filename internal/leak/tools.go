package leak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

// Place is where memory was taken that was not given back.
type Place struct {
	Bytes  int64    `json:"bytes"`
	Blocks int64    `json:"blocks"`
	Stack  []string `json:"stack"` // from the allocation outwards, the program's own frames
}

// Finding is what a tool says.
type Finding struct {
	Tool    string `json:"tool"`
	Program string `json:"program"`
	Lost    int64  `json:"lost"`   // bytes that nothing points to any more (device: not freed)
	LostN   int64  `json:"lost_n"` // allocations
	Kept    int64  `json:"kept"`   // bytes not given back at the end that may still be in use
	Errors  int64  `json:"errors"` // wrong accesses, where the tool looks for them
	// CUDA calls that returned an error, as "error in call", each as often as it happened
	API      []string `json:"api,omitempty"`
	Places   []Place  `json:"places"`          // the largest first
	Calls    []Call   `json:"calls,omitempty"` // nsys: of CUDA's functions
	Moved    []Call   `json:"moved,omitempty"` // nsys: copies and memsets of the device
	Requests int64    `json:"requests"`        // of the workload under the tool
	Files    []string `json:"files"`           // its reports
	Notes    []string `json:"notes,omitempty"`
}

// tool is a way to run a program so that somebody knows who allocated what.
type tool struct {
	name     string   // of --with
	programs []string // the first that is there is taken
	pkg      string   // where to get it
	becomes  bool     // it turns into the program, and is no process above it
	argv     func(program, dir string) []string
	read     func(ctx context.Context, o Options, dir string, log []byte) (Finding, error)
}

// manyLeaks is how many leaks memcheck lists; 100 where nothing is said, and what 0
// means depends on its version.
const manyLeaks = "1000000"

// Tools lists the names that Options.With takes.
func Tools() []string { return []string{"memcheck", "valgrind", "heaptrack", "nsys"} }

var allTools = map[string]tool{
	"memcheck": {
		name: "memcheck", programs: []string{"compute-sanitizer", "cuda-memcheck"},
		pkg: "cuda-sanitizer of the CUDA toolkit (before 11.6: cuda-memcheck)",
		argv: func(program, _ string) []string {
			if filepath.Base(program) == "cuda-memcheck" {
				return []string{program, "--leak-check", "full", "--print-limit", manyLeaks}
			}
			return []string{
				program, "--tool", "memcheck", "--leak-check", "full", "--print-limit", manyLeaks,
				"--target-processes", "all",
			}
		},
		read: func(_ context.Context, _ Options, _ string, log []byte) (Finding, error) { return parseSanitizer(log) },
	},
	"valgrind": {
		name: "valgrind", programs: []string{"valgrind"}, pkg: "valgrind", becomes: true,
		argv: func(program, dir string) []string {
			return []string{
				program, "--tool=memcheck", "--leak-check=full", "--show-leak-kinds=definite,indirect,possible",
				"--num-callers=24", "--child-silent-after-fork=yes", "--xml=yes", "--xml-file=" +
					filepath.Join(dir, "valgrind.xml"),
			}
		},
		read: func(_ context.Context, _ Options, dir string, _ []byte) (Finding, error) {
			return readReport(filepath.Join(dir, "valgrind.xml"), parseValgrind)
		},
	},
	"heaptrack": {
		name: "heaptrack", programs: []string{"heaptrack"}, pkg: "heaptrack",
		argv: func(program, dir string) []string {
			return []string{program, "-o", filepath.Join(dir, "heaptrack")}
		},
		read: readHeaptrack,
	},
	"nsys": {
		name: "nsys", programs: []string{"nsys"},
		pkg: "nsight-systems (Debian: apt install nsight-systems, in non-free; NVIDIA's repository: nsight-systems-cli)",
		argv: func(program, dir string) []string {
			// What processors do tells nothing of memory and wants rights; and with it 2022.4
			// hung after 5 of 7 programs on Linux 6.18, with 0 of 8 without.
			return []string{
				program, "profile", "--sample=none", "--cpuctxsw=none", "--cuda-memory-usage=true",
				"--force-overwrite=true", "-o", filepath.Join(dir, "nsys"),
			}
		},
		read: readNsys,
	},
}

// installed is a tool that is there.
type installed struct {
	tool
	path string
}

// tools finds the tools that were asked for.
func (o Options) tools() ([]installed, error) {
	var out []installed
	for _, name := range o.With {
		t, ok := allTools[name]
		if !ok {
			return nil, &NotRun{Why: fmt.Sprintf("there is no tool %q: %s", name, strings.Join(Tools(), ", "))}
		}
		found := ""
		for _, p := range t.programs {
			if file, err := run.LookPathIn(o.Env, p); err == nil {
				found = file
				break
			}
		}
		if found == "" {
			return nil, &NotRun{Why: fmt.Sprintf("%s is not on the PATH; install %s", strings.Join(t.programs, " or "), t.pkg)}
		}
		out = append(out, installed{t, found})
	}
	return out, nil
}

// toolRequests is how many requests a workload has under a tool, where everything
// is 10 to 50 times slower.
const toolRequests = 12

// under runs the program once more under a tool.
func under(ctx context.Context, o Options, t installed, plain *work) (Finding, error) {
	dir := filepath.Join(o.Work, t.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Finding{}, err
	}
	o.Log.Info("running under " + t.name)
	o.Ready *= 4
	o.Requests = min(o.Requests, toolRequests)
	if plain.kind == "prefill" {
		// A short one: what is lost is lost from the first token on.
		o.Workload, o.Requests = "requests", toolRequests
	}
	logFile := filepath.Join(dir, "program.log")
	argv := slices.Concat(t.argv(t.path, dir), o.Argv)
	p, err := startProgram(ctx, o, argv, logFile, o.Env)
	if err != nil {
		return Finding{}, &NotRun{Why: err.Error()}
	}
	if !t.becomes {
		p.started = make(chan struct{})
		go p.seek(ctx)
	}
	defer p.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // only for the ways out in between
	w := &work{o: o}
	defer w.tell(p.began, "under "+t.name+": ")()
	if _, _, err := p.drive(ctx, w); err != nil {
		return Finding{}, fmt.Errorf("under %s: %w", t.name, err)
	}
	if w.srv != nil && (p.Ended() || w.Requests.Load() == 0) {
		why := fmt.Sprintf("under %s the server %s after %d requests: that tells nothing of a leak", t.name, p.how(),
			w.Requests.Load())
		return Finding{}, &NotRun{Why: why, Tail: p.Tail(), Log: logFile}
	}
	notes := w.Notes()
	finished := p.finishUnder(ctx, &notes)
	if ctx.Err() != nil {
		return Finding{}, ctx.Err()
	}
	if !finished {
		why := fmt.Sprintf("%s: it did not finish its report within %v of the program's end, and was stopped", t.name,
			o.toolPatience)
		return Finding{}, &NotRun{Why: why, Tail: p.Tail(), Log: logFile}
	}
	if t.name == "memcheck" && p.LogCut() { // its report is in there
		return Finding{}, &NotRun{Why: t.name + ": it printed more than its log keeps, 1 GiB", Tail: p.Tail(), Log: logFile}
	}
	log, err := os.ReadFile(logFile)
	if err != nil {
		return Finding{}, err
	}
	f, err := t.read(ctx, o, dir, log)
	if err != nil {
		return Finding{}, &NotRun{Why: fmt.Sprintf("%s: %v", t.name, err), Tail: p.Tail(), Log: logFile}
	}
	f.Tool, f.Program, f.Requests = t.name, t.path, w.Requests.Load()
	f.Files = append(f.Files, logFile)
	f.Notes = append(f.Notes, notes...)
	return f, nil
}

// toolPatience is how long a tool may write its report after the program's end.
const toolPatience = 5 * time.Minute

// finishUnder ends the program and lets the tool write its report; false where the
// tool does not come to an end.
func (p *program) finishUnder(ctx context.Context, notes *[]string) bool {
	for i := 0; i < 2 && !p.Ended(); i++ {
		// A tool whose program is gone writes its report: a signal would end that.
		if !p.innerGone() {
			p.askToEnd()
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
		case <-time.After(p.o.toolPatience / 2):
		}
	}
	if p.Ended() {
		return true
	}
	if p.innerGone() && ctx.Err() == nil {
		now, cancel := context.WithCancel(ctx)
		cancel()
		_ = p.Stop(now)
		return false
	}
	p.shutDown(ctx, notes)
	return true
}

// seekFor is how long a tool may take to start the program, on a busy machine.
const seekFor = time.Minute

// seek finds the program below the tool while it still is what argv says: it may
// become another by exec.
func (p *program) seek(ctx context.Context) {
	defer close(p.started)
	for end := time.Now().Add(seekFor); time.Now().Before(end); {
		if pid, ok := p.find(); ok {
			p.below.Store(int64(pid))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-p.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inner is the process of the program itself, below the tool that runs it; false where
// there is none, as under valgrind, which becomes the program, or not any more.
func (p *program) inner() (int, bool) {
	pid := int(p.below.Load())
	return pid, pid != 0 && slices.Contains(memory.Descendants(p.Pid()), pid) && !zombie(pid)
}

// innerGone reports whether the tool has outlived the program.
func (p *program) innerGone() bool {
	_, there := p.inner()
	return p.below.Load() != 0 && !there
}

// zombie reports whether a process has ended, and its parent has not looked yet.
func zombie(pid int) bool {
	s, ok := run.ReadStat(pid)
	return !ok || s.State == "Z"
}

// find looks for the program among the processes of the tool that runs it.
func (p *program) find() (int, bool) {
	want := strings.Join(p.o.Argv, "\x00") + "\x00"
	base := filepath.Base(p.o.Argv[0])
	for _, pid := range slices.Backward(memory.Descendants(p.Pid())) {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil {
			continue
		}
		line := string(b)
		name, args, _ := strings.Cut(line, "\x00")
		_, wantArgs, _ := strings.Cut(want, "\x00")
		if args == wantArgs && filepath.Base(name) == base {
			return pid, true
		}
	}
	return 0, false
}

func readReport(name string, parse func([]byte) (Finding, error)) (Finding, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return Finding{}, fmt.Errorf("it wrote no report: %w", err)
	}
	f, err := parse(b)
	f.Files = []string{name}
	return f, err
}

// readHeaptrack lets heaptrack_print read the recording.
func readHeaptrack(ctx context.Context, o Options, dir string, _ []byte) (Finding, error) {
	files, err := fs.Glob(os.DirFS(dir), "heaptrack.*")
	if err != nil || len(files) == 0 {
		return Finding{}, errors.New("it wrote no recording")
	}
	for i := range files {
		files[i] = filepath.Join(dir, files[i])
	}
	out, err := run.Output(ctx, run.Cmd{
		Argv: []string{"heaptrack_print", "-f", files[0], "-l", "1", "-a", "0", "-p", "0", "-T", "0"},
		Env:  o.Env, Timeout: o.toolPatience,
	})
	if err != nil {
		return Finding{}, err
	}
	f, err := parseHeaptrack(out)
	f.Files = files
	return f, err
}
