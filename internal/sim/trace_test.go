package sim_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/sim"
)

const trace = `sim t=0.000001 version=1 pid=7 cc=8.6
module t=0.1 n=1 path=/a%20folder/lib%25.so
stack t=0.1 n=1 frames=1+1a2b,0+7f
alloc t=0.100002 id=1 kind=device call=cudaMalloc bytes=4096 used=4096 stack=1
free t=0.2 id=1 kind=device call=cudaFree bytes=4096 used=0 stack=0
fault t=0.3 n=1 kind=replay exec=4 graph=2 freed=1 freed-bytes=4096 alloc=1 bytes=4096 node=3 alloc-stack=1 free-stack=0 use-stack=1 here=1
`

func read(t *testing.T, text string) ([]sim.Event, error) {
	t.Helper()
	var out []sim.Event
	for ev, err := range sim.ReadTrace(strings.NewReader(text)) {
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
	return out, nil
}

func TestReadTrace(t *testing.T) {
	got, err := read(t, trace)
	if err != nil {
		t.Fatal(err)
	}
	stack := []sim.Frame{{Module: "/a folder/lib%.so", Offset: 0x1a2b}, {Offset: 0x7f}}
	want := []sim.Event{
		{Line: 1, Name: "sim", Time: time.Microsecond},
		{
			Line: 4, Name: "alloc", Time: 100002 * time.Microsecond, Kind: "device", Call: "cudaMalloc", ID: 1, Bytes: 4096,
			Used: 4096, Stack: stack,
		},
		{Line: 5, Name: "free", Time: 200 * time.Millisecond, Kind: "device", Call: "cudaFree", ID: 1, Bytes: 4096},
		{
			Line: 6, Name: "fault", Time: 300 * time.Millisecond, Kind: "replay", Exec: 4, Graph: 2, ID: 1, Bytes: 4096,
			Stack: stack, Alloc: stack, Use: stack,
		},
	}
	for i := range got {
		if got[i].Name == "fault" && got[i].Fields["freed"] != "1" {
			t.Errorf("fields %v", got[i].Fields)
		}
		got[i].Fields = nil
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestReadTraceBad(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"no trace":        {"hello\n", 1},
		"another version": {"sim t=0 version=2\n", 1},
		"no first line":   {"alloc t=0 id=1\n", 1},
		"no field":        {"sim t=0 version=1\nalloc t=0 id\n", 2},
		"bad number":      {"sim t=0 version=1\nalloc t=0 bytes=many\n", 2},
		"bad time":        {"sim t=0 version=1\nalloc t=-1 id=1\n", 2},
		"unknown stack":   {"sim t=0 version=1\nalloc t=0 id=1 stack=4\n", 2},
		"unknown module":  {"sim t=0 version=1\nstack t=0 n=1 frames=3+1\n", 2},
		"bad path":        {"sim t=0 version=1\nmodule t=0 n=1 path=%2\n", 2},
	} {
		_, err := read(t, c.text)
		var bad *sim.TraceError
		if !errors.As(err, &bad) || bad.Line != c.line {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A writer that was stopped leaves half a line.
	if got, err := read(t, trace+"alloc t=0.4 id="); err != nil || len(got) != 4 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(trace)
	f.Add("sim t=0 version=1\nstack t=1 n=2 frames=\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := read(t, text)
		var bad *sim.TraceError
		if err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
		for _, ev := range got {
			if ev.Name == "" || ev.Time < 0 {
				t.Errorf("%+v", ev)
			}
		}
	})
}
