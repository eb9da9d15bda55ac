package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/memory"
)

// Result is the whole record, as it is written. Folders of the machine are
// replaced by names: {stock} is the folder of the build stock, {MODELS} the value
// of that variable, {path} any other.
type Result struct {
	What     string            `json:"what"`
	Card     string            `json:"card"` // "none" where no device was looked at
	Driver   string            `json:"driver,omitempty"`
	CUDA     string            `json:"cuda,omitempty"` // the driver's, as nvidia-smi says
	Tag      string            `json:"tag,omitempty"`  // of the plan, like the next two
	Commit   string            `json:"commit,omitempty"`
	Tree     string            `json:"tree,omitempty"`
	Command  []string          `json:"command"`
	LLPatch  string            `json:"llpatch"`                  // version
	Program  string            `json:"llpatch_sha256,omitempty"` // of llpatch's own file
	Began    time.Time         `json:"began"`
	Ended    *time.Time        `json:"ended,omitempty"` // absent: the record stopped before its end
	Machine  Machine           `json:"host"`
	VRAM     string            `json:"vram,omitempty"` // where device memory is read
	EverySec float64           `json:"every"`          // seconds between two looks
	Baseline string            `json:"baseline"`
	Builds   map[string]Built  `json:"builds"`
	Inputs   map[string]string `json:"inputs,omitempty"` // SHA-256 of the files that the command lines name
	Notes    []string          `json:"notes,omitempty"`
	Summary  []Summary         `json:"summary,omitempty"`
	Runs     []Run             `json:"runs"`
	Plan     string            `json:"plan"` // the file's text
}

// Machine is what programs were run on.
type Machine struct {
	OS     string            `json:"os"`
	Kernel string            `json:"kernel,omitempty"`
	CPU    string            `json:"cpu,omitempty"`
	Cores  int               `json:"cores"`
	Memory int64             `json:"memory_mib,omitempty"`
	Boot   string            `json:"boot,omitempty"` // tells this start of the machine from any other
	Env    map[string]string `json:"env,omitempty"`  // the caller's variables that change what the programs do
}

// Built is what a build's folder holds.
type Built struct {
	Dir     string            `json:"dir"`
	Version string            `json:"version,omitempty"` // the line of --version
	Env     map[string]string `json:"env,omitempty"`
	Note    string            `json:"note,omitempty"`
	SHA256  map[string]string `json:"sha256"`  // of every program and library in it; a link's is "-> TARGET"
	Patches map[string]string `json:"patches"` // SHA-256; empty: none, null: not known
	Info    json.RawMessage   `json:"build_info,omitempty"`
}

// Run is one start of one program. A figure that is not known is absent.
type Run struct {
	Name    string            `json:"name"`
	Build   string            `json:"build"`
	Pair    int               `json:"pair"` // from 1; 0 is the warm-up, which is not judged
	Argv    []string          `json:"argv"`
	Env     map[string]string `json:"env,omitempty"`
	RC      int               `json:"rc"`               // exit code; -1 where it has none
	Signal  string            `json:"signal,omitempty"` // that ended it
	Timeout bool              `json:"timeout,omitempty"`
	NotRun  string            `json:"not_run,omitempty"` // why there is no result
	Began   time.Time         `json:"began"`
	Seconds float64           `json:"seconds"`

	PeakVRAM *int64   `json:"peak_vram_mib,omitempty"` // above the idle figure
	Idle     *int64   `json:"idle_vram_mib,omitempty"` // of the card before the start
	RSS      *int64   `json:"rss_mib,omitempty"`       // the highest
	PP       *float64 `json:"pp_tps,omitempty"`
	TG       *float64 `json:"tg_tps,omitempty"`
	Bench    []Test   `json:"bench,omitempty"` // of llama-bench, as it says
	*Served           // of llama-server

	Kept   []string         `json:"kept,omitempty"` // lines of the output that the plan keeps
	Tail   []string         `json:"tail,omitempty"` // last lines, where it did not end with 0 or missed an aim
	Notes  []string         `json:"notes,omitempty"`
	Memory []memory.Verdict `json:"memory,omitempty"` // of a llama-server's load
	Beside *Beside          `json:"beside,omitempty"` // absent: it did not start
	Checks []Check          `json:"checks,omitempty"`
	Sample Samples          `json:"samples"`

	log     string
	head    int      // lines of the log that are the command line
	tail    []string // the last lines of the output
	answers [][]int  // tokens of the first requests
	from    int64    // requests at which the load began
	noVRAM  string   // why VRAM, which was asked for by name, is not known
}

// Test is one test of llama-bench.
type Test struct {
	Prompt  int       `json:"n_prompt"`
	Gen     int       `json:"n_gen"`
	Depth   int       `json:"n_depth"`
	TPS     float64   `json:"avg_ts"`
	Samples []float64 `json:"samples_ts"`
}

// Served is what a llama-server answered.
type Served struct {
	ReadySec float64  `json:"ready_seconds"`
	Requests int64    `json:"requests"` // answered
	Failed   int64    `json:"failed"`   // requests without an answer
	Why      string   `json:"failed_why,omitempty"`
	SHA      string   `json:"tokens_sha256,omitempty"` // of the first requests' tokens
	Tokens   int      `json:"tokens"`                  // that went into it
	LoadTPS  *float64 `json:"load_tps,omitempty"`      // tokens of prompts and answers a second of the load, all clients
}

// State of a Check: Passed, Missed, or Unclear where it could not be told.
type State string

// The states.
const (
	Passed  State = "passed"
	Missed  State = "missed"
	Unclear State = "unclear"
)

// Check is one aim and what came of it.
type Check struct {
	Aim   string `json:"aim"`
	State State  `json:"state"`
	Got   string `json:"got,omitempty"`
}

// Samples are the looks at memory, in KiB, thinned so that every rise and fall
// stays: VRAM points between two equal ones are left out.
type Samples struct {
	Looks  int     `json:"looks"` // before thinning
	Missed int     `json:"missed,omitempty"`
	MS     []int64 `json:"ms"` // since the start, of RSS
	RSS    []int64 `json:"rss_kib"`
	VRAMMS []int64 `json:"vram_ms,omitempty"`
	VRAM   []int64 `json:"vram_kib,omitempty"`
}

// Missing is the error of a record in which an aim was missed.
type Missing struct{ Checks []string }

// Error lists the aims.
func (e *Missing) Error() string { return list("an aim was missed", "aims were missed", e.Checks) }

// ExitCode is exit.Smoke.
func (e *Missing) ExitCode() int { return exit.Smoke }

// NotRun is the error of a record in which something could not be run or told.
type NotRun struct{ Why []string }

// Error lists what.
func (e *NotRun) Error() string {
	return list("something could not be run or told", "things could not be run or told", e.Why)
}

// ExitCode is exit.NotRun.
func (e *NotRun) ExitCode() int { return exit.NotRun }

func list(one, many string, all []string) string {
	const most = 20
	s := one
	if len(all) != 1 {
		s = fmt.Sprintf("%d %s", len(all), many)
	}
	for i, a := range all {
		if i == most {
			return s + fmt.Sprintf("\n  and %d more", len(all)-most)
		}
		s += "\n  " + a
	}
	return s
}

// deepRE is the line break before what stands in the third level or deeper, or closes it.
// In a string a line break is written \n.
var deepRE = regexp.MustCompile(`\n(?: {3,}|  ([\]}]))`)

// JSON is the record as it is written: a line for each field, and in a list or table of the
// record one for each entry, so a run is one line with all its samples.
func (r *Result) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return deepRE.ReplaceAll(b.Bytes(), []byte("$1")), nil
}

var errOlder = errors.New("a record of an older form, which llpatch evidence did not make: it has no plan; it can " +
	"only be read as it is")

// Parse reads a record that JSON has written. One whose figures do not follow from its
// runs and their samples is an error.
func Parse(data []byte) (*Result, error) {
	var head map[string]json.RawMessage
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("no record of evidence: %w", err)
	}
	// Records were kept by hand, in forms of their own, before llpatch wrote them.
	if head["plan"] == nil && (head["card"] != nil || head["what"] != nil) {
		return nil, errOlder
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("no record of evidence: %w", err)
	}
	if len(r.Builds) == 0 || r.Plan == "" {
		return nil, fmt.Errorf("no record of evidence that llpatch wrote: it has no builds or no plan")
	}
	for _, s := range r.Summary {
		for _, q := range []*Ratio{s.PPRatio, s.TGRatio} {
			if q != nil && (q.Low == nil) != (q.High == nil) {
				return nil, fmt.Errorf("no whole record of evidence: a ratio of run %s, build %s, has one end of its interval only", s.Run, s.Build)
			}
		}
	}
	if err := r.recount(); err != nil {
		return nil, fmt.Errorf("the record contradicts itself: %w", err)
	}
	return &r, nil
}
