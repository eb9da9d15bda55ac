package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/llpatch/llpatch/internal/regular"
)

// State is what a simulated device has counted so far. Its order is that of
// struct counters in c/sim.h.
type State struct {
	VRAMTotal   int64 `json:"vramTotal"` // bytes, as all memory here
	VRAMUsed    int64 `json:"vramUsed"`  // device and mapped memory, delayed frees included
	VRAMPeak    int64 `json:"vramPeak"`
	ManagedUsed int64 `json:"managedUsed"`
	PinnedUsed  int64 `json:"pinnedUsed"`

	Allocs uint64 `json:"allocs"` // of device, managed and physical memory
	Frees  uint64 `json:"frees"`
	Failed uint64 `json:"failed"`

	Launches  uint64 `json:"launches"` // of kernels, outside graphs
	BlasCalls uint64 `json:"blasCalls"`
	Copies    uint64 `json:"copies"` // and memsets

	Captures           uint64 `json:"captures"`
	Graphs             uint64 `json:"graphs"`         // that exist
	GraphInstances     uint64 `json:"graphInstances"` // executable graphs that exist
	GraphInstancesPeak uint64 `json:"graphInstancesPeak"`
	Instantiations     uint64 `json:"instantiations"`
	GraphUpdates       uint64 `json:"graphUpdates"`
	GraphLaunches      uint64 `json:"graphLaunches"`

	Faults       uint64 `json:"faults"`
	Refusals     uint64 `json:"refusals"`     // calls that are not simulated
	OwnBytes     int64  `json:"ownBytes"`     // host memory of the simulation's own records
	StaleReplays uint64 `json:"staleReplays"` // graph launches over memory freed since the capture
}

const (
	stateMagic   = "LLPSIM\r\n"
	stateVersion = 1
	stateHead    = 24 // where the numbers begin
	sequenceAt   = 16
)

// ErrNoState is wrapped by ReadState's error where the file is not, or not yet,
// a state page.
var ErrNoState = errors.New("no state of a simulated device")

// ReadState reads the state page of a process, which may be running and
// changing it; where that was killed in the middle of a change, the numbers are
// those that it left. The error wraps fs.ErrNotExist where the device was not started,
// and ErrNoState where the file holds none.
func ReadState(path string) (State, error) {
	f, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		err = fmt.Errorf("%w: %w", ErrNoState, err)
	}
	if err != nil {
		return State{}, err
	}
	defer f.Close()
	for try := 0; ; try++ {
		s, consistent, err := readState(f)
		if err != nil {
			return State{}, fmt.Errorf("state %s: %w", path, err)
		}
		if consistent {
			return s, nil
		}
		if try > 1000 { // 0.1 s: its writer was stopped or killed in the middle of a change
			return s, nil
		}
		time.Sleep(time.Duration(min(try, 100)) * time.Microsecond)
	}
}

// readState reads the page once. It is consistent where the sequence number is
// even and the same before and after.
func readState(r io.ReaderAt) (State, bool, error) {
	var s State
	page := make([]byte, stateHead+binary.Size(s))
	if _, err := r.ReadAt(page, 0); errors.Is(err, io.EOF) {
		return s, false, ErrNoState
	} else if err != nil {
		return s, false, err
	}
	if string(page[:8]) != stateMagic {
		return s, false, ErrNoState
	}
	if v := binary.LittleEndian.Uint32(page[8:]); v != stateVersion {
		return s, false, fmt.Errorf("%w: version %d, and %d is read here", ErrNoState, v, stateVersion)
	}
	// The page was copied in order, but the number is checked on both sides.
	before := binary.LittleEndian.Uint64(page[sequenceAt:])
	var after [8]byte
	if _, err := r.ReadAt(after[:], sequenceAt); err != nil {
		return s, false, err
	}
	consistent := before%2 == 0 && binary.LittleEndian.Uint64(after[:]) == before
	return s, consistent, binary.Read(bytes.NewReader(page[stateHead:]), binary.LittleEndian, &s)
}
