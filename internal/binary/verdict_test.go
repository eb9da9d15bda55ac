package binary_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	inspect "github.com/llpatch/llpatch/internal/binary"
)

// runs returns for each card that a file runs on what it runs: "8.6=sm_86".
func runs(v *inspect.Verdict) string {
	var list []string
	for _, c := range v.Cards {
		list = append(list, c.Capability+"="+strings.Join(c.By, "+"))
	}
	return strings.Join(list, " ")
}

// The rules are NVIDIA's: machine code runs within its major number from its minor
// one up, with the suffix a on one, with f in its family; Jetson stands alone.
func TestJudge(t *testing.T) {
	for name, want := range map[string]struct {
		runs  string
		newer bool
		jit   inspect.Driver
	}{
		"cuda-11.8-lz4": {"7.5=sm_75 8.6=sm_86 8.7=compute_86 8.9=sm_86 9.0=compute_86 10.0=compute_86 10.3=compute_86 11.0=compute_86 12.0=compute_86 12.1=compute_86", true, inspect.Driver{Version: "520.61.05", CUDA: "11.8"}},
		// compute_90 is older than sm_100f and sm_120a, which are nearer.
		"cuda-13.5-zstd": {"7.5=sm_75 8.6=sm_86 8.9=sm_86 9.0=sm_90a 10.0=sm_100f 10.3=sm_100f 11.0=compute_90 12.0=sm_120a 12.1=compute_120f", true, inspect.Driver{CUDA: "13.5"}},
		"cuda-13.5-lto":  {"8.6=sm_86 8.9=sm_86", false, inspect.Driver{}},
		// The fatbin that linking adds has no PTX and no kernel: it takes nothing away.
		"linked": {"8.6=sm_86 8.7=compute_86 8.9=sm_86 9.0=compute_86 10.0=compute_86 10.3=compute_86 11.0=compute_86 12.0=compute_86 12.1=compute_86", true, inspect.Driver{CUDA: "13.5"}},
	} {
		v := inspect.Judge(parse(t, read(t, name+".fatbin")))
		if diff := cmp.Diff(want.runs, runs(v)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		var jit inspect.Driver
		if v.JIT != nil {
			jit = *v.JIT
			jit.Why = ""
		}
		if v.Newer != want.newer || jit != want.jit || v.Driver != nil {
			t.Errorf("%s: newer %v, PTX %+v, runtime %+v", name, v.Newer, v.JIT, v.Driver)
		}
		for _, c := range v.Cards {
			if c.Missing > 0 {
				t.Errorf("%s: %v", name, c)
			}
		}
	}
}

func TestJudgeOfLibrary(t *testing.T) {
	const host = "const char *name = \"cudaErrorCudartUnloading\"; const char *f(void) { return name; }\n"
	path := embed(t, map[string][]string{".nv_fatbin": {"cuda-13.5-lto.fatbin", "cuda-11.8-lz4.fatbin"}}, host)
	f, err := inspect.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	v := inspect.Judge(f)
	// x86-64: no Jetson, no GB10. One of the two fatbins holds nothing for Turing.
	if diff := cmp.Diff("7.5=sm_75 8.6=sm_86 8.9=sm_86 9.0=compute_86 10.0=compute_86 10.3=compute_86 12.0=compute_86", runs(v)); diff != "" {
		t.Error(diff)
	}
	if v.Newer {
		t.Error("newer cards lack what the first fatbin holds")
	}
	for _, c := range v.Cards {
		if want := map[bool]int{true: 0, false: 1}[c.Capability == "8.6" || c.Capability == "8.9"]; c.Missing != want {
			t.Errorf("%v: %d missing, want %d", c, c.Missing, want)
		}
	}
	if v.Driver == nil || v.Driver.Version != "580.65.06" || !strings.Contains(v.Driver.Why, "linked in") {
		t.Errorf("driver %+v", v.Driver)
	}
}

func TestBackends(t *testing.T) {
	path := embed(t, nil, "int x;")
	got, err := inspect.Backends(strings.TrimSuffix(path, "/libggml-cuda.so"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"libggml-cuda.so"}, got); diff != "" {
		t.Error(diff)
	}
}
