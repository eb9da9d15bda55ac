//go:build linux

package memory

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/sim"
)

// page is a state page as the simulated device's c/sim.h lays it out.
func page(t *testing.T, version uint32, s sim.State) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("LLPSIM\r\n")
	for _, v := range []any{version, uint32(0), uint64(2), s} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestSimulated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s, err := Start(t.Context(), Options{Every: MinEvery, Probe: Simulated(file), Source: "simulated device"})
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := start(t, "hold 64")
	s.Attach(pid)
	time.Sleep(200 * time.Millisecond)
	if err := os.WriteFile(file+".new", page(t, 1, sim.State{
		VRAMTotal: 12 << 30, VRAMUsed: 700 << 20,
		OwnBytes: 20 << 20,
	}), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	series := s.Stop()
	if peak, ok := series.Peak(VRAM); !ok || peak != 700<<20 || series.Device.Total != 12<<30 ||
		series.Device.Baseline != 0 {
		t.Errorf("peak %d MiB (%v), %+v, %q", peak>>20, ok, series.Device, series.Notes)
	}
	first, _ := series.Points[1].Bytes(Anon)
	last, _ := series.Points[len(series.Points)-1].Bytes(Anon)
	if d := first - last; d < 19<<20 || d > 21<<20 {
		t.Errorf("the simulation's own 20 MiB are not taken out: %d and %d", first, last)
	}
}

// A file of another version is no device that nobody uses.
func TestSimulatedOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(file, page(t, 99, sim.State{}), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{
		Every: 100 * time.Millisecond, Probe: Simulated(file),
		Source: "simulated device",
	})
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := start(t, "hold 8")
	s.Attach(pid)
	time.Sleep(stateWait + 500*time.Millisecond)
	if series := s.Stop(); !noted(series, "version 99") {
		t.Errorf("notes %q", series.Notes)
	}
}

// A device that was never used is not one of which nothing was taken: there is no
// file, the file is what an earlier program left, or it is a pipe.
func TestSimulatedUnused(t *testing.T) {
	for what, c := range map[string]struct {
		make func(file string) error
		why  string
	}{
		"none": {func(string) error { return nil }, "was never written"},
		"earlier": {func(f string) error {
			return os.WriteFile(f, page(t, 1, sim.State{VRAMTotal: 12 << 30, VRAMUsed: 700 << 20}), 0o644)
		}, "of an earlier program"},
		"a pipe": {func(f string) error { return syscall.Mkfifo(f, 0o600) }, "not a regular file"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "state")
			if err := c.make(file); err != nil {
				t.Fatal(err)
			}
			series := hold(t, Simulated(file))
			if series.Has(VRAM) || !strings.Contains(series.Device.Unknown, c.why) {
				t.Errorf("device %+v", series.Device)
			}
			for _, v := range Judge(series, JudgeOptions{}) {
				if v.Kind == VRAM {
					t.Errorf("%s", v)
				}
			}
		})
	}
}

// The device of an earlier program is followed once the new one has it.
func TestSimulatedAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(file, page(t, 1, sim.State{VRAMTotal: 12 << 30, VRAMUsed: 700 << 20}), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Every: MinEvery, Probe: Simulated(file), Source: "simulated device"})
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := start(t, "hold 8")
	s.Attach(pid)
	time.Sleep(100 * time.Millisecond)
	if err := os.WriteFile(file, page(t, 1, sim.State{VRAMTotal: 12 << 30, VRAMUsed: 900 << 20}), 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	series := s.Stop()
	if peak, ok := series.Peak(VRAM); !ok || peak != 900<<20 || series.Device.Unknown != "" {
		t.Errorf("peak %d MiB (%v), %+v", peak>>20, ok, series.Device)
	}
}

// What is seen until the probe ends says nothing of the rest, unless it grows.
func TestLostProbe(t *testing.T) {
	for want, rate := range map[State]int64{Unclear: 0, Grows: 1 << 20} {
		s := Series{Device: Device{Unknown: "nvidia-smi ended"}}
		for i := range int64(100) {
			v := 100<<20 + i*rate
			s.Points = append(s.Points, Point{Seconds: float64(i), VRAM: &v})
		}
		if v := JudgeKind(s, VRAM, JudgeOptions{}); v.State != want || want == Unclear &&
			!strings.Contains(v.Reason, "not followed to the end: nvidia-smi ended") {
			t.Errorf("%s", v)
		}
	}
}
