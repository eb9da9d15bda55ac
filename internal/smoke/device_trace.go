package smoke

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"

	"github.com/llpatch/llpatch/internal/sim"
)

// events are those of the device's trace.
func (d *device) events() iter.Seq2[sim.Event, error] {
	return func(yield func(sim.Event, error) bool) {
		f, err := os.Open(d.trace)
		if err != nil {
			yield(sim.Event{}, fmt.Errorf("its trace cannot be read: %w", err))
			return
		}
		defer f.Close()
		for e, err := range sim.ReadTrace(f) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// first returns the kind of the first event of a name, and the event in words: "" where
// there is none.
func (d *device) first(name string) (kind, what string) {
	for e, err := range d.events() {
		if err != nil {
			return "", err.Error()
		}
		switch {
		case e.Name != name:
		case name == "fault":
			return e.Kind, fmt.Sprintf("%s of %d bytes (allocation %d) %s", e.Kind, e.Bytes, e.ID, e.Call)
		default:
			return e.Kind, fmt.Sprintf("%s, code %d", e.Name, e.Code)
		}
	}
	return "", ""
}

// The functions of ggml-cuda that take memory, as they stand in a stack.
const (
	poolAlloc   = "ggml_cuda_pool_leg::alloc"
	bufferAlloc = "ggml_backend_cuda_buffer_type_alloc_buffer"
)

// blocks is what one of these functions took.
type blocks struct {
	own, managed int   // how many of the device's own memory, and of managed memory
	refused      int64 // bytes of the last one that failed; 0: none did
}

// takers says what the pool and the buffers took, by who stands in the stack of each
// allocation.
func (d *device) takers() (map[string]*blocks, error) {
	out := map[string]*blocks{poolAlloc: {}, bufferAlloc: {}}
	var names sim.Symbols
	for e, err := range d.events() {
		if err != nil {
			return nil, err
		}
		if e.Name != "alloc" && e.Name != "fail" {
			continue
		}
		for _, frame := range e.Stack {
			b := out[names.Name(frame)]
			switch {
			case b == nil:
				continue
			case e.Name == "fail":
				b.refused = e.Bytes
			case e.Kind == "managed":
				b.managed++
			default:
				b.own++
			}
			break
		}
	}
	return out, nil
}

// notCompared are the fields that differ from run to run, or with where code lies.
var notCompared = []string{"t", "pid", "path", "stack", "alloc-stack", "free-stack", "use-stack", "here"}

// calls is a trace as what was asked of the device, one line an event, and at the end
// how many kernels, copies and calls of cuBLAS there were.
func (d *device) calls() ([]string, error) {
	var lines []string
	for e, err := range d.events() {
		if err != nil {
			return nil, err
		}
		line := e.Name
		for _, key := range slices.Sorted(maps.Keys(e.Fields)) {
			if !slices.Contains(notCompared, key) {
				line += " " + key + "=" + e.Fields[key]
			}
		}
		lines = append(lines, line)
	}
	st, err := sim.ReadState(d.state)
	if err != nil {
		return nil, err
	}
	return append(lines, fmt.Sprintf("launches=%d blas=%d copies=%d graph-launches=%d", st.Launches, st.BlasCalls,
		st.Copies, st.GraphLaunches)), nil
}

// sameCalls says where what two devices were asked for parts, or "".
func sameCalls(a, b *device) (string, error) {
	left, errA := a.calls()
	right, errB := b.calls()
	if err := errors.Join(errA, errB); err != nil {
		return "", err
	}
	for i := range max(len(left), len(right)) {
		line := [2]string{"nothing more", "nothing more"}
		for side, lines := range [][]string{left, right} {
			if i < len(lines) {
				line[side] = lines[i]
			}
		}
		if line[0] != line[1] {
			return fmt.Sprintf("event %d of the device is %q unpatched and %q patched", i+1, line[0], line[1]), nil
		}
	}
	return "", nil
}
