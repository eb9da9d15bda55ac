package build

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// ninjaStatus makes Ninja begin each step's line with "[27/230] ".
const ninjaStatus = "[%f/%t] "

var (
	progressRE = regexp.MustCompile(`^\[(\d+)/(\d+)\] (.*)$`)
	objectRE   = regexp.MustCompile(`^Building (?:C|CXX|CUDA|HIP|ASM|OBJC|OBJCXX) object `)
)

// keepLines is how much output of a step is kept for finding the cause of a
// failure; the log has all of it.
const keepLines = 4000

// maxLine is how much of one line is kept; a link command can be long, and
// nothing that is looked for stands behind this many bytes.
const maxLine = 64 << 10

// watcher reads a step's output line by line, reports progress, counts what was
// compiled, and keeps what may hold the cause of a failure.
type watcher struct {
	*run.Lines
	progress func(what string, done, total int64)
	what     string

	lines   []string // from the first FAILED on, or all
	failing bool
	objects int
	steps   int
}

func newWatcher(what string, progress func(what string, done, total int64)) *watcher {
	w := &watcher{progress: progress, what: what}
	w.Lines = run.NewLines(maxLine, w.line)
	return w
}

func (w *watcher) line(l string) {
	if m := progressRE.FindStringSubmatch(l); m != nil {
		done, _ := strconv.ParseInt(m[1], 10, 64) // digits
		total, _ := strconv.ParseInt(m[2], 10, 64)
		w.steps++
		if objectRE.MatchString(m[3]) {
			w.objects++
		}
		if w.progress != nil {
			w.progress(w.what, done, total)
		}
	}
	if !w.failing && strings.HasPrefix(l, "FAILED: ") {
		w.failing, w.lines = true, nil
	}
	if len(w.lines) >= keepLines {
		if w.failing {
			return // the first failure is what counts
		}
		w.lines = append(w.lines[:0], w.lines[keepLines/2:]...)
	}
	w.lines = append(w.lines, l)
}

// all is what is kept of a step that has ended.
func (w *watcher) all() []string {
	w.Flush()
	return w.lines
}
