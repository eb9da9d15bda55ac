package build

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// tailLines is how much of a failed command's output an error shows.
const tailLines = 12

// The words of the programs that fail, as GCC 8 to 15, Clang 11 to 21, nvcc,
// GNU ld, lld, CMake and Ninja write them with LC_ALL=C.
var (
	diskRE     = regexp.MustCompile(`(?i)no space left on device|disk quota exceeded`)
	memoryRE   = regexp.MustCompile(`(?i)killed signal terminated program|internal compiler error: killed|out of memory allocating|virtual memory exhausted|cannot allocate memory|std::bad_alloc|LLVM ERROR: out of memory|terminated with signal 9|memory exhausted|signal 9 \(kill(?:ed| signal)\)|ptxas fatal\s+: memory allocation failure|\[code=137\]|(?m)^killed$`)
	compilerRE = regexp.MustCompile(`^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$`)
	nvccRE     = regexp.MustCompile(`^(.+?)\((\d+)\): error(?: #\S+)?: (.*)$`)
	driverRE   = regexp.MustCompile(`^(?:\S*/)?(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+|nvcc|hipcc|cc1|cc1plus)\S*: (?:fatal )?error: (.*)$`)
	linkerRE   = regexp.MustCompile(`undefined reference to .*|undefined symbol: .*|cannot find -l\S+.*|multiple definition of .*|file format not recognized.*`)
	ldEndRE    = regexp.MustCompile(`^(?:collect2: error|clang.*: error: linker command failed).*`)
	cmakeRE    = regexp.MustCompile(`^CMake Error(?: at (.+?):(\d+) \([^)]*\))?(?: in (.+?))?:\s*(.*)$`)
	failedRE   = regexp.MustCompile(`^FAILED: (?:\[code=(\d+)\] )?(.*)$`)
	ninjaRE    = regexp.MustCompile(`^ninja: (?:error|fatal): (.*)$`)
)

// cause is what an output says of a failure.
type cause struct {
	kind Kind
	text string
	file string // as the program wrote it
	line int
	tail []string
}

// findCause reads the output of a failed step: of Ninja from the first FAILED
// on, of CMake from its first error on. exit is the step's exit code.
func findCause(lines []string) cause {
	output := ""
	for i, l := range lines {
		if m := failedRE.FindStringSubmatch(l); m != nil {
			output, lines = strings.Fields(m[2] + " ?")[0], failedBlock(lines[i:])
			break
		}
	}
	c := classify(lines)
	c.tail = lastOf(lines)
	c.file = cmp.Or(c.file, output)
	if c.text == "" {
		c.kind, c.text = KindOther, "a command failed and did not say why"
		if n := len(c.tail); n > 0 {
			c.text = c.tail[n-1]
		}
	}
	return c
}

// failedBlock is what Ninja prints of a failed command: the FAILED line, the
// command, its output, up to the next step's line.
func failedBlock(lines []string) []string {
	for i, l := range lines[1:] {
		if progressRE.MatchString(l) || strings.HasPrefix(l, "FAILED: ") || strings.HasPrefix(l, "ninja: ") {
			return lines[:i+1]
		}
	}
	return lines
}

// classify looks for the causes that lie deepest first: a full disk or memory
// makes a compiler print errors of any other kind as well.
func classify(lines []string) cause {
	for _, l := range lines {
		if diskRE.MatchString(l) {
			return cause{kind: KindDisk, text: clean(l)}
		}
	}
	for _, l := range lines {
		if memoryRE.MatchString(l) {
			return cause{kind: KindMemory, text: clean(l)}
		}
	}
	for _, l := range lines {
		for _, re := range []*regexp.Regexp{compilerRE, nvccRE} {
			// A linker names the file and the line of a symbol's use in the same way.
			if m := re.FindStringSubmatch(l); m != nil && !linkerRE.MatchString(l) {
				n, _ := strconv.Atoi(m[2]) // digits
				return cause{kind: KindCompiler, text: clean(m[3]), file: m[1], line: n}
			}
		}
	}
	for _, l := range lines {
		if m := linkerRE.FindString(l); m != "" {
			return cause{kind: KindLinker, text: clean(m)}
		}
	}
	for i, l := range lines {
		if m := cmakeRE.FindStringSubmatch(l); m != nil {
			n, _ := strconv.Atoi(m[2]) // digits or nothing
			text := m[4]
			for j := i + 1; text == "" && j < len(lines); j++ {
				text = lines[j]
			}
			return cause{kind: KindCMake, text: clean(text), file: m[1] + m[3], line: n}
		}
	}
	for _, l := range lines {
		if m := driverRE.FindStringSubmatch(l); m != nil {
			return cause{kind: KindCompiler, text: clean(m[1])}
		}
		if ldEndRE.MatchString(l) {
			return cause{kind: KindLinker, text: clean(l)}
		}
		if m := ninjaRE.FindStringSubmatch(l); m != nil {
			return cause{kind: KindOther, text: clean(m[1])}
		}
	}
	return cause{}
}

func clean(s string) string { return strings.Join(strings.Fields(s), " ") }

// lastOf returns the lines to show: those around the first error, without the
// command line, which can be thousands of letters long and is in the log.
func lastOf(lines []string) []string {
	var out []string
	for i, l := range lines {
		if i <= 1 && failedRE.MatchString(lines[0]) {
			continue
		}
		if strings.TrimSpace(l) != "" {
			out = append(out, l)
		}
	}
	first := slices.IndexFunc(out, func(l string) bool {
		return compilerRE.MatchString(l) || nvccRE.MatchString(l) || cmakeRE.MatchString(l) || linkerRE.MatchString(l)
	})
	if first < 0 {
		first = max(0, len(out)-tailLines)
	}
	return out[first:min(len(out), first+tailLines)]
}

// failed puts a cause into an error, with paths below the source.
func (p Plan) failed(step string, c cause) *Failed {
	f := &Failed{
		Tag: p.Tag, Target: p.Target, Step: step, Kind: c.kind, Cause: c.text, File: c.file, Line: c.line,
		Tail: c.tail,
	}
	for _, at := range []string{p.Source, p.Dir, p.source(), p.dir()} {
		if filepath.IsAbs(f.File) {
			if rel, err := filepath.Rel(at, f.File); err == nil && filepath.IsLocal(rel) {
				f.File = filepath.ToSlash(rel)
			}
		}
	}
	// CMake writes paths from the source folder already, compilers under Ninja
	// from the build folder.
	if !filepath.IsAbs(c.file) && c.file != "" && c.kind == KindCompiler {
		for _, at := range [][2]string{{p.Source, p.Dir}, {p.source(), p.dir()}} {
			if rel, err := filepath.Rel(at[0], filepath.Join(at[1], c.file)); err == nil && filepath.IsLocal(rel) {
				f.File = filepath.ToSlash(rel)
			}
		}
	}
	f.Fixes = p.Touched[f.File]
	return f
}

// Explain turns the end of another command that compiled p.Source, in p.Dir, and
// all that it wrote into a *Failed.
func (p Plan) Explain(step string, output []byte, e *run.Error) *Failed {
	f := p.failed(step, findCause(strings.Split(string(output), "\n")))
	if e.Signal == "killed" {
		f.Kind, f.Cause = KindMemory, step+" was killed"
	}
	f.Log, f.Err = e.Log, e
	return f
}
