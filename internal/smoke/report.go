package smoke

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

// Verdict is what came of a check.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"
	Errored Verdict = "could not run"
	Skipped Verdict = "not run" // its card, or what an empty root is made with, is not here; this stops nothing
)

// Report is what a run of smoke checks saw.
type Report struct {
	Tag          string      `json:"tag"`
	Target       string      `json:"target"`
	Commit       string      `json:"commit,omitempty"` // upstream's
	Tree         string      `json:"tree,omitempty"`   // of the patched source
	Series       []string    `json:"series,omitempty"` // the fixes
	Place        string      `json:"place"`            // of the checks that name none: host, simulated device, wine, card
	Card         string      `json:"card,omitempty"`
	Driver       string      `json:"driver,omitempty"` // the card's
	Wine         string      `json:"wine,omitempty"`   // that ran the programs, and as which Windows
	Inside       string      `json:"inside,omitempty"` // the build root that the programs ran in
	Verdict      Verdict     `json:"verdict"`
	Want         Version     `json:"want"`
	Machine      Machine     `json:"machine"`
	Started      time.Time   `json:"started"`
	Seconds      float64     `json:"seconds"`
	ReadySeconds float64     `json:"ready_seconds"` // of the first server: start to the first answer of ok
	PeakRSSKiB   int64       `json:"peak_rss_kib"`  // over all servers
	Checks       []Result    `json:"checks"`
	Models       []ModelInfo `json:"models"`
	Servers      []ServerRun `json:"servers"`
}

// Result is one check's verdict.
type Result struct {
	Name    string         `json:"name"`
	Place   string         `json:"place"` // host, simulated device, wine, card
	Verdict Verdict        `json:"verdict"`
	Detail  string         `json:"detail,omitempty"` // what was seen, or why not
	Fault   string         `json:"fault,omitempty"`  // the defect's name, where it has one
	Seconds float64        `json:"seconds"`
	Figures map[string]any `json:"figures,omitempty"`
	Growth  *Growth        `json:"growth,omitempty"`
	Log     string         `json:"log,omitempty"`  // of a check that failed
	Tail    []string       `json:"tail,omitempty"` // the log's last lines then

	device *device // the check's own, simulated; nil: it has none
}

// ModelInfo is a model that was written for the run.
type ModelInfo struct {
	gguf.Model
	gguf.Info
	Path string `json:"path"`
}

// ServerRun is one start of llama-server.
type ServerRun struct {
	Check        string        `json:"check"` // the check that needed it first
	Build        string        `json:"build"` // patched or stock
	Argv         []string      `json:"argv"`
	Log          string        `json:"log"`
	ReadySeconds float64       `json:"ready_seconds,omitempty"`
	End          string        `json:"end"`
	PeakRSSKiB   int64         `json:"peak_rss_kib"`
	PeakPSSKiB   int64         `json:"peak_pss_kib,omitempty"`
	PeakVRAMKiB  int64         `json:"peak_vram_kib,omitempty"`
	Memory       memory.Series `json:"memory"`
}

// Machine is where the checks ran.
type Machine struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Kernel    string `json:"kernel,omitempty"`
	CPU       string `json:"cpu,omitempty"`
	Cores     int    `json:"cores"`
	MemoryKiB int64  `json:"memory_kib,omitempty"`
}

func thisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	m.Kernel, m.CPU, m.MemoryKiB = run.Machine()
	return m
}

// FailedChecks says that a check saw a wrong answer.
type FailedChecks struct{ Report *Report }

// Error names each check that failed, and why.
func (e *FailedChecks) Error() string { return e.Report.list(Failed, "failed") }

// ExitCode is exit.Smoke.
func (e *FailedChecks) ExitCode() int { return exit.Smoke }

// NotRun says that no check failed, but some could not be judged.
type NotRun struct {
	Report *Report
	Err    error // why nothing ran at all; nil where a part did
}

// Error names each check that could not be run, and why.
func (e *NotRun) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: could not run: %v", e.Report.name(), e.Err)
	}
	if e.Report.count(Errored) == 0 {
		return e.Report.list(Skipped, "not run, so nothing was shown")
	}
	return e.Report.list(Errored, "could not run")
}

// ExitCode is exit.NotRun.
func (e *NotRun) ExitCode() int { return exit.NotRun }

// Unwrap returns Err.
func (e *NotRun) Unwrap() error { return e.Err }

func (r *Report) name() string {
	return strings.Join(strings.Fields("smoke "+r.Tag+" "+r.Target), " ")
}

func (r *Report) list(v Verdict, what string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d checks %s", r.name(), r.count(v), len(r.Checks), what)
	for _, c := range r.Checks {
		if c.Verdict != v {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s", c.Name, c.Detail)
		for _, l := range c.Tail {
			b.WriteString("\n  " + l)
		}
		if c.Log != "" {
			b.WriteString("\nlog: " + c.Log)
		}
	}
	return b.String()
}

func (r *Report) count(v Verdict) int {
	n := 0
	for _, c := range r.Checks {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

// judge sets the report's verdict and returns the error that goes with it. A
// check whose card is absent stops nothing, but where nothing passed nothing was
// shown.
func (r *Report) judge(why error) error {
	switch {
	case r.count(Failed) > 0:
		r.Verdict = Failed
		return &FailedChecks{r}
	case why != nil || r.count(Errored) > 0 || r.count(Passed) == 0:
		r.Verdict = Errored
		return &NotRun{r, why}
	}
	r.Verdict = Passed
	return nil
}

// Files returns the report in every form but JSON, by file name: Markdown for a
// pull request, a page for a reader, JUnit XML for a CI system.
func (r *Report) Files() (map[string][]byte, error) {
	doc := r.doc()
	page, err := doc.HTML()
	junit, jerr := r.junit()
	if err := errors.Join(err, jerr); err != nil {
		return nil, fmt.Errorf("smoke report: %w", err)
	}
	return map[string][]byte{"smoke.md": []byte(doc.Markdown()), "smoke.html": page, "smoke.junit.xml": junit}, nil
}

// Write writes what Files returns into a folder.
func (r *Report) Write(dir string) error {
	files, err := r.Files()
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := atomicfile.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("smoke report: %w", err)
		}
	}
	return nil
}
