package leak

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxPlaces and maxFrames bound what is kept of a report.
const (
	maxPlaces = 20
	maxFrames = 12
)

// parseValgrind reads memcheck's XML, protocol version 4 (docs/internals/xml-output-protocol4.txt
// of valgrind). A file that is cut short, as by a kill, is an error: what it says
// of leaks comes last.
func parseValgrind(b []byte) (Finding, error) {
	var f Finding
	var report struct {
		States []string `xml:"status>state"`
		Errors []struct {
			Kind  string `xml:"kind"`
			XWhat struct {
				Bytes  int64 `xml:"leakedbytes"`
				Blocks int64 `xml:"leakedblocks"`
			} `xml:"xwhat"`
			Frames []struct {
				Fn   string `xml:"fn"`
				Obj  string `xml:"obj"`
				File string `xml:"file"`
				Line int    `xml:"line"`
			} `xml:"stack>frame"`
		} `xml:"error"`
	}
	if err := xml.Unmarshal(b, &report); err != nil {
		return f, fmt.Errorf("valgrind's report is broken or cut short: %w", err)
	}
	for _, e := range report.Errors {
		if e.XWhat.Bytes < 0 || e.XWhat.Blocks < 0 {
			return f, errors.New("valgrind's report is broken: fewer than no bytes")
		}
		switch e.Kind {
		case "Leak_DefinitelyLost", "Leak_IndirectlyLost":
			f.Lost, f.LostN = add(f.Lost, e.XWhat.Bytes), add(f.LostN, e.XWhat.Blocks)
		case "Leak_PossiblyLost", "Leak_StillReachable":
			f.Kept = add(f.Kept, e.XWhat.Bytes)
			continue
		default:
			f.Errors++
			continue
		}
		pl := Place{Bytes: e.XWhat.Bytes, Blocks: e.XWhat.Blocks}
		for _, fr := range e.Frames {
			where := cmp.Or(fr.Fn, "?")
			switch {
			case fr.File != "":
				where += fmt.Sprintf(" (%s:%d)", fr.File, fr.Line)
			case fr.Obj != "":
				where += " (" + path.Base(fr.Obj) + ")"
			}
			pl.Stack = append(pl.Stack, where)
		}
		f.Places = append(f.Places, pl)
	}
	if !slices.Contains(report.States, "FINISHED") {
		return f, errors.New("valgrind's report does not say that the program has ended")
	}
	f.trim()
	return f, nil
}

// parseSanitizer reads what compute-sanitizer and cuda-memcheck print with
// --leak-check full: a record a leak, and two summaries.
func parseSanitizer(b []byte) (Finding, error) {
	var f Finding
	summary := false
	api := 0 // calls that an earlier summary has counted
	var open *Place
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line, ok := strings.CutPrefix(sc.Text(), "=========")
		if !ok {
			continue // the program's own output
		}
		line = strings.TrimSpace(line)
		switch {
		case refusal(line):
			return Finding{}, errors.New("it says: " + line)
		case strings.HasPrefix(line, "Leaked "):
			n, err := grouped(strings.Fields(line)[1])
			if err != nil {
				return f, fmt.Errorf("a line that cannot be read: %q", line)
			}
			f.Places = append(f.Places, Place{Bytes: n, Blocks: 1})
			open = &f.Places[len(f.Places)-1]
		case strings.HasPrefix(line, "Program hit "):
			if call, ok := failedCall(line); ok {
				f.API = append(f.API, call)
			}
			open = nil
		case strings.HasPrefix(line, "Host Frame:"):
			if open != nil && len(open.Stack) < maxFrames {
				where, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "Host Frame:")), " [")
				open.Stack = append(open.Stack, where)
			}
		case strings.HasPrefix(line, "LEAK SUMMARY:"):
			w := strings.Fields(line)
			if len(w) < 7 {
				return f, fmt.Errorf("a line that cannot be read: %q", line)
			}
			bytesN, err1 := grouped(w[2])
			n, err2 := grouped(w[6])
			if errors.Join(err1, err2) != nil {
				return f, fmt.Errorf("a line that cannot be read: %q", line)
			}
			f.Lost, f.LostN, summary = add(f.Lost, bytesN), add(f.LostN, n), true
			open = nil
		case strings.HasSuffix(line, "Use --print-limit option"):
			f.Notes = append(f.Notes, "not every place is listed: "+strings.TrimPrefix(line, "ERROR SUMMARY: "))
		case strings.HasPrefix(line, "ERROR SUMMARY:"):
			if w := strings.Fields(line); len(w) > 2 {
				if n, err := grouped(w[2]); err == nil {
					// Each leak counts as an error there, and each call that returned one.
					f.Errors = add(f.Errors, max(0, n-f.LostN-int64(len(f.API)-api)))
					api = len(f.API)
				}
			}
			open = nil
		case line == "":
			open = nil
		}
	}
	if err := sc.Err(); err != nil {
		return f, err
	}
	if !summary {
		return f, errors.New("it printed no leak summary: the program was killed, or used no CUDA")
	}
	f.merge()
	f.trim()
	return f, nil
}

// failedCall reads "Program hit ERROR (error N) due to "…" on CUDA API call to CALL.":
// a call that returned an error, which the program may well handle.
func failedCall(line string) (string, bool) {
	what, call, ok := strings.Cut(strings.TrimPrefix(line, "Program hit "), " on CUDA API call to ")
	name, _, _ := strings.Cut(what, " ")
	call = strings.TrimRight(call, ". ")
	return name + " in " + call, ok && name != "" && call != ""
}

// refusal reports whether the tool says that it did not do its work, as with "Error:
// Device not supported. …", "Error: Target application terminated before first
// instrumented API call" and "Error: No attachable process found. …". It may print
// summaries of nothing after that. Of a program that ended with an exit code of its
// own, or by a signal, it says so too, after the leaks that it found.
func refusal(line string) bool {
	what, ok := strings.CutPrefix(line, "Error: ")
	if !ok {
		return strings.HasPrefix(line, "Internal ") && strings.Contains(line, "rror")
	}
	return !strings.HasPrefix(what, "process didn't terminate successfully") &&
		!strings.HasPrefix(what, "couldn't find exit code")
}

// parseHeaptrack reads the text of heaptrack_print -l: what was not given back at
// the end, lost or still in use, which heaptrack does not tell apart.
func parseHeaptrack(b []byte) (Finding, error) {
	var f Finding
	total := false
	var open *Place
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		text := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(text, "total memory leaked:"); ok {
			n, err := heapSize(strings.TrimSpace(rest))
			if err != nil {
				return f, err
			}
			f.Kept, total = n, true
			continue
		}
		size, rest, ok := strings.Cut(text, " leaked over ")
		switch {
		case ok && strings.HasSuffix(text, " calls from:"):
			open = nil // a path of the place above
		case ok && strings.HasSuffix(text, " calls from"):
			n, err := heapSize(size)
			if err != nil {
				return f, err
			}
			calls, err := strconv.ParseInt(strings.TrimSuffix(rest, " calls from"), 10, 64)
			if err != nil || calls < 0 {
				return f, fmt.Errorf("a line that cannot be read: %q", line)
			}
			f.Places = append(f.Places, Place{Bytes: n, Blocks: calls})
			open = &f.Places[len(f.Places)-1]
		case text == "":
			open = nil
		case open != nil && strings.HasPrefix(text, "at ") && len(open.Stack) > 0:
			open.Stack[len(open.Stack)-1] += " (" + path.Base(text[3:]) + ")"
		case open != nil && !strings.HasPrefix(text, "in ") && len(open.Stack) < maxFrames:
			open.Stack = append(open.Stack, text)
		}
	}
	if err := sc.Err(); err != nil {
		return f, err
	}
	if !total {
		return f, errors.New("heaptrack_print gave no total")
	}
	f.trim()
	return f, nil
}

// heapSize reads heaptrack's sizes, whose K, M and G are powers of 1000.
func heapSize(s string) (int64, error) {
	scale := 1.0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMGT", s[n-1]); i >= 0 {
			scale, s = math.Pow(1000, float64(i+1)), s[:n-1]
		} else {
			s = strings.TrimSuffix(s, "B")
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v*scale < 1<<60) {
		return 0, fmt.Errorf("heaptrack_print: no size: %q", s)
	}
	return int64(v * scale), nil
}

// grouped reads a number with commas.
func grouped(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 62)
	if err == nil && n < 0 {
		err = errors.New("fewer than none")
	}
	return n, err
}

// add is a sum that cannot overflow.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// merge makes one place of those with the same stack.
func (f *Finding) merge() {
	at := map[string]int{}
	var out []Place
	for _, p := range f.Places {
		key := strings.Join(p.Stack, "\n")
		if i, ok := at[key]; ok {
			out[i].Bytes, out[i].Blocks = add(out[i].Bytes, p.Bytes), add(out[i].Blocks, p.Blocks)
			continue
		}
		at[key] = len(out)
		out = append(out, p)
	}
	f.Places = out
}

// trim keeps the largest places and the nearest frames.
func (f *Finding) trim() {
	slices.SortStableFunc(f.Places, func(a, b Place) int { return cmp.Compare(b.Bytes, a.Bytes) })
	f.Places = f.Places[:min(len(f.Places), maxPlaces)]
	for i := range f.Places {
		f.Places[i].Stack = f.Places[i].Stack[:min(len(f.Places[i].Stack), maxFrames)]
	}
}
