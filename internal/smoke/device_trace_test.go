package smoke

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llpatch/llpatch/internal/sim"
)

// traced is a device that left these lines and counted so many launches.
func traced(t *testing.T, launches uint64, lines ...string) *device {
	t.Helper()
	dir := t.TempDir()
	d := &device{state: filepath.Join(dir, "state"), trace: filepath.Join(dir, "trace")}
	text := strings.Join(append([]string{"sim t=0.0 version=1 pid=7 vram=100"}, lines...), "\n") + "\n"
	page := binary.LittleEndian.AppendUint32([]byte("LLPSIM\r\n"), 1)
	page = append(page, make([]byte, 12)...) // process and sequence
	for i := range binary.Size(sim.State{}) / 8 {
		n := uint64(0)
		if i == 8 {
			n = launches
		}
		page = binary.LittleEndian.AppendUint64(page, n)
	}
	for name, data := range map[string][]byte{
		d.state: append(page, make([]byte, 4096-len(page))...),
		d.trace: []byte(text),
	} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// Two devices were asked for the same whatever the time, the process and where code lies.
func TestSameCalls(t *testing.T) {
	t.Parallel()
	stack := "stack t=0.1 n=1 frames=0+12"
	alloc := "alloc t=0.2 id=1 kind=device call=cudaMalloc bytes=64 used=64 stack=1"
	base := traced(t, 3, stack, alloc)
	for name, c := range map[string]struct {
		other *device
		want  string
	}{
		"the same": {traced(t, 3, "stack t=0.3 n=1 frames=0+77", strings.Replace(alloc, "t=0.2", "t=0.9", 1)), ""},
		"another kind": {
			traced(t, 3, stack, strings.Replace(alloc, "kind=device", "kind=managed", 1)),
			`event 2 of the device is "alloc bytes=64 call=cudaMalloc id=1 kind=device used=64" unpatched and "alloc bytes=64 call=cudaMalloc id=1 kind=managed used=64" patched`,
		},
		"one more": {traced(t, 3, stack, alloc,
			"free t=0.3 id=1 kind=device call=cudaFree bytes=64 used=0 stack=1"), `patched`},
		"one less": {traced(t, 3), `"alloc bytes=64 call=cudaMalloc id=1 kind=device used=64" unpatched and "launches=3 blas=0 copies=0 graph-launches=0" patched`},
		"another launch": {
			traced(t, 4, stack, alloc),
			`"launches=3 blas=0 copies=0 graph-launches=0" unpatched and "launches=4 `,
		},
		"another beginning": {traced(t, 3, stack, strings.Replace(alloc, "bytes=64", "bytes=65", 1)), "event 2"},
	} {
		got, err := sameCalls(base, c.other)
		if err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := sameCalls(base, &device{trace: "none", state: "none"}); err == nil {
		t.Error("a device without a trace")
	}
	if _, err := sameCalls(base, traced(t, 3, "nonsense")); err == nil {
		t.Error("a trace that is none")
	}
}

// Who took memory is read from the stacks: by the functions' names in ggml-cuda.
func TestTakers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, lib := filepath.Join(dir, "x.cpp"), filepath.Join(dir, "x.so")
	text := `struct ggml_cuda_pool_leg { void * alloc(unsigned long size, unsigned long * actual); };
void * ggml_cuda_pool_leg::alloc(unsigned long, unsigned long *) { return this; }
void ggml_backend_cuda_buffer_type_alloc_buffer(int *, unsigned long) {}
void other() {}
`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "c++", "-shared", "-fPIC", "-O0", "-o", lib,
		source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"module t=0.0 n=1 path=" + lib}
	for i, name := range []string{"ggml_cuda_pool_leg5alloc", "alloc_buffer", "other"} {
		for _, s := range symbols {
			if strings.Contains(s.Name, name) {
				lines = append(lines, fmt.Sprintf("stack t=0.0 n=%d frames=0+1,1+%x", i+1, s.Value+1))
			}
		}
	}
	for _, e := range [][]any{
		{"alloc", "device", 1},
		{"alloc", "managed", 1},
		{"alloc", "managed", 1},
		{"alloc", "device", 2},
		{"alloc", "managed", 3},
		{"free", "device", 1},
	} {
		lines = append(lines, fmt.Sprintf("%s t=0.1 id=1 kind=%s call=c bytes=8 used=8 stack=%d", e...))
	}
	lines = append(lines, "fail t=0.2 call=c kind=device bytes=99 used=8 why=memory stack=1")
	got, err := traced(t, 0, lines...).takers()
	want := map[string]*blocks{poolAlloc: {own: 1, managed: 2, refused: 99}, bufferAlloc: {own: 1}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(blocks{}), cmpopts.EquateEmpty()); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	for _, c := range []struct {
		b          blocks
		want, says string
	}{
		{blocks{own: 1}, "device", ""},
		{blocks{own: 1, managed: 1}, "device", "1 of 2 are managed memory"},
		{blocks{}, "device", "nothing was shown"},
		{blocks{own: 3, managed: 1}, "managed", ""},
		{blocks{own: 3}, "managed", "none of 3 is managed"},
		{blocks{managed: 4}, "all managed", ""},
		{blocks{own: 1, managed: 4}, "all managed", "1 of 5 are the device's own"},
		{blocks{}, "all managed", "0 of 0"},
	} {
		if got := c.b.not(c.want); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%+v, %s: %q", c.b, c.want, got)
		}
	}
}

// A case in which the fix is asked for nothing needs a device whose calls can be compared,
// and a patched build that shows the fault too.
func TestProveSame(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		patched string
		verdict Verdict
		want    string
	}{
		"no device": {"leaks", Errored, "the check has no device of its own"},
		"it does help": {
			"takes its time", Failed,
			"the patched build does something else, where nothing was asked of the fix: passed, and failed unpatched",
		},
		"another fault": {"500", Failed, "the patched build does something else"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Prove(t.Context(), ProofOptions{
				Options: options(t, ""), Fix: "a-fix", Check: loop, Fault: FaultRSSGrowth, Same: true,
				Unpatched: Programs{Bin: fakeBuildOf(t, "leaks")}, Patched: Programs{Bin: fakeBuildOf(t, tc.patched)},
			})
			if p == nil || err == nil || p.Verdict != tc.verdict || !strings.Contains(p.Detail, tc.want) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	was, is := traced(t, 3), traced(t, 4)
	half := func(d *device) *Report {
		return &Report{Checks: []Result{{Verdict: Failed, Fault: FaultDeviceOOM, Detail: "it ended", device: d}}}
	}
	if p, err := (&Proof{Unpatched: half(was), Patched: half(was)}).same(); err != nil || p.Verdict != Passed ||
		p.Detail != "both, after the same calls: it ended" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := (&Proof{Unpatched: half(was), Patched: half(is)}).same(); err == nil || p.Verdict != Failed ||
		!strings.Contains(p.Detail, "launches=4") {
		t.Errorf("%+v, %v", p, err)
	}
	mute := &Report{Checks: []Result{{Verdict: Errored, Detail: "no"}}}
	if p, err := (&Proof{Unpatched: half(was), Patched: mute}).same(); err == nil || p.Verdict == Failed {
		t.Errorf("%+v, %v", p, err)
	}
}
