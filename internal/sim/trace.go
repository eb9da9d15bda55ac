package sim

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Frame is one place in a call stack.
type Frame struct {
	Module string // path of the program or library; empty: unknown
	Offset uint64 // of the call, from where the module's file is mapped
}

// Event is one line of a trace. A field that the event has not is zero.
type Event struct {
	Line   int
	Name   string // "alloc", "free", "fault", … as the package says
	Time   time.Duration
	Kind   string // of memory, or of fault
	Call   string // the function of the CUDA API
	ID     uint64 // of the allocation: id= or alloc=
	Bytes  int64
	Used   int64 // of the kind's account, after the event
	Exec   uint64
	Graph  uint64
	Why    string
	Code   int // cudaError_t
	Stack  []Frame
	Alloc  []Frame // fault: where the memory was allocated
	Free   []Frame // fault: where it was freed
	Use    []Frame // fault: where the graph came to use it
	Fields map[string]string
}

// TraceError tells which line of a trace is not one.
type TraceError struct {
	Line int
	Text string
	Why  string
}

// Error names the line and what is wrong with it.
func (e *TraceError) Error() string {
	return fmt.Sprintf("trace line %d: %s: %q", e.Line, e.Why, e.Text)
}

// maxLine is longer than any line that the simulation writes.
const maxLine = 64 << 10

// ReadTrace returns the events of a trace, without the modules and stacks, which
// the events carry. It ends after the first error, which is a *TraceError where
// a line is not one. A last line without an end is left out: its writer was
// stopped.
func ReadTrace(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t := tracer{modules: map[string]string{"0": ""}, stacks: map[string][]Frame{"0": nil}}
		in := bufio.NewReaderSize(r, maxLine)
		for n := 1; ; n++ {
			line, err := in.ReadString('\n')
			if err != nil {
				if err != io.EOF { //nolint:errorlint // bufio returns it as it is
					yield(Event{}, err)
				}
				return
			}
			ev, shown, err := t.line(n, strings.TrimSuffix(line, "\n"))
			if err != nil {
				yield(Event{}, err)
				return
			}
			if shown && !yield(ev, nil) {
				return
			}
		}
	}
}

type tracer struct {
	modules map[string]string
	stacks  map[string][]Frame
}

func (t *tracer) line(n int, text string) (Event, bool, error) {
	bad := func(why string) (Event, bool, error) { return Event{}, false, &TraceError{n, text, why} }
	name, rest, _ := strings.Cut(text, " ")
	if name == "" || strings.Contains(name, "=") {
		return bad("it begins with no event")
	}
	ev := Event{Line: n, Name: name, Fields: map[string]string{}}
	for f := range strings.SplitSeq(rest, " ") {
		key, value, ok := strings.Cut(f, "=")
		if !ok || key == "" {
			return bad("a field is not NAME=VALUE")
		}
		ev.Fields[key] = value
	}
	if n == 1 && (name != "sim" || ev.Fields["version"] != "1") {
		return bad("it is not the beginning of a trace of version 1")
	}
	switch name {
	case "module":
		path, err := unspell(ev.Fields["path"])
		if err != nil {
			return bad(err.Error())
		}
		t.modules[ev.Fields["n"]] = path
		return ev, false, nil
	case "stack":
		frames, err := t.frames(ev.Fields["frames"])
		if err != nil {
			return bad(err.Error())
		}
		t.stacks[ev.Fields["n"]] = frames
		return ev, false, nil
	}
	if err := t.fill(&ev); err != nil {
		return bad(err.Error())
	}
	return ev, true, nil
}

// fill sets the fields of ev that have a type.
func (t *tracer) fill(ev *Event) error {
	f := ev.Fields
	seconds, err := strconv.ParseFloat(f["t"], 64)
	if err != nil || seconds < 0 || seconds > 1e9 {
		return fmt.Errorf("t is %q", f["t"])
	}
	ev.Time = time.Duration(seconds * float64(time.Second))
	ev.Kind, ev.Call, ev.Why = f["kind"], f["call"], f["why"]
	for key, to := range map[string]*uint64{"id": &ev.ID, "alloc": &ev.ID, "exec": &ev.Exec, "graph": &ev.Graph} {
		if text, ok := f[key]; ok {
			if *to, err = strconv.ParseUint(text, 10, 64); err != nil {
				return fmt.Errorf("%s is %q", key, text)
			}
		}
	}
	for key, to := range map[string]*int64{"bytes": &ev.Bytes, "used": &ev.Used} {
		if text, ok := f[key]; ok {
			if *to, err = strconv.ParseInt(text, 10, 64); err != nil {
				return fmt.Errorf("%s is %q", key, text)
			}
		}
	}
	if text, ok := f["code"]; ok {
		if ev.Code, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("code is %q", text)
		}
	}
	for key, to := range map[string]*[]Frame{
		"stack": &ev.Stack, "here": &ev.Stack, "alloc-stack": &ev.Alloc, "free-stack": &ev.Free, "use-stack": &ev.Use,
	} {
		if text, ok := f[key]; ok {
			frames, known := t.stacks[text]
			if !known {
				return fmt.Errorf("%s is %s, which no line before gives", key, text)
			}
			*to = frames
		}
	}
	return nil
}

func (t *tracer) frames(text string) ([]Frame, error) {
	if text == "" {
		return nil, nil
	}
	var out []Frame
	for f := range strings.SplitSeq(text, ",") {
		module, offset, ok := strings.Cut(f, "+")
		path, known := t.modules[module]
		at, err := strconv.ParseUint(offset, 16, 64)
		if !ok || !known || err != nil {
			return nil, fmt.Errorf("frame %q", f)
		}
		out = append(out, Frame{path, at})
	}
	return out, nil
}

// unspell undoes the %XX of a path.
func unspell(text string) (string, error) {
	var b strings.Builder
	for {
		before, after, more := strings.Cut(text, "%")
		b.WriteString(before)
		if !more {
			return b.String(), nil
		}
		if len(after) < 2 {
			return "", fmt.Errorf("path %q", text)
		}
		c, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil {
			return "", fmt.Errorf("path %q", text)
		}
		b.WriteByte(byte(c))
		text = after[2:]
	}
}
