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
		"cuda-11.8-lz4": {"7.5=sm_75 8.6=sm_86 8.7=compute_86 8.9=sm_86 9.0=compute_86 10.0=compute_86 10.3=compute_86 " +
			"11.0=compute_86 12.0=compute_86 12.1=compute_86", true, inspect.Driver{Version: "520.61.05", CUDA: "11.8"}},
		// compute_90 is older than sm_100f and sm_120a, which are nearer.
		"cuda-13.5-zstd": {"7.5=sm_75 8.6=sm_86 8.9=sm_86 9.0=sm_90a 10.0=sm_100f 10.3=sm_100f 11.0=compute_90 " +
			"12.0=sm_120a 12.1=compute_120f", true, inspect.Driver{CUDA: "13.5"}},
		"cuda-13.5-lto": {"8.6=sm_86 8.9=sm_86", false, inspect.Driver{}},
		// The fatbin that linking adds has no PTX and no kernel: it takes nothing away.
		"linked": {"8.6=sm_86 8.7=compute_86 8.9=sm_86 9.0=compute_86 10.0=compute_86 10.3=compute_86 11.0=compute_86 " +
			"12.0=compute_86 12.1=compute_86", true, inspect.Driver{CUDA: "13.5"}},
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
		// None of them names a runtime; what is compressed with zstd asks for a driver by itself.
		zstd := v.Driver != nil && v.Driver.Version == "550.54.14" && v.Driver.CUDA == "12.4"
		if v.Newer != want.newer || jit != want.jit || (v.Driver != nil || strings.HasSuffix(name, "zstd")) != zstd {
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
	if diff := cmp.Diff("7.5=sm_75 8.6=sm_86 8.9=sm_86 9.0=compute_86 10.0=compute_86 10.3=compute_86 12.0=compute_86",
		runs(v)); diff != "" {
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

// NVIDIA's nvcc document: what is compressed with zstd is not for drivers before CUDA 12.4's;
// minor version compatibility begins at 525.60.13 for all else of CUDA 12.
func TestDriverOfCompression(t *testing.T) {
	const host = "const char *name = \"cudaErrorCudartUnloading\"; const char *f(void) { return name; }\n"
	for file, want := range map[string]string{
		"cuda-13.5-zstd": "580.65.06", "cuda-11.8-lz4": "450.80.02",
		"cuda-11.8-none": "450.80.02",
	} {
		f, err := inspect.Inspect(embed(t, map[string][]string{".nv_fatbin": {file + ".fatbin"}}, host))
		if err != nil {
			t.Fatal(err)
		}
		if v := inspect.Judge(f); v.Driver == nil || v.Driver.Version != want {
			t.Errorf("%s: %+v, want %s", file, v.Driver, want)
		}
		// As a library of CUDA 12 has it.
		f.CUDA.Static, f.CUDA.Runtime, f.CUDA.Toolkits = false, "12", []string{"12.4"}
		want = "525.60.13"
		if strings.HasSuffix(file, "zstd") {
			want = "550.54.14"
		}
		if v := inspect.Judge(f); v.Driver.Version != want {
			t.Errorf("%s with libcudart.so.12: %+v, want %s", file, v.Driver, want)
		}
	}
	for toolkit, want := range map[string]string{
		"11.8": "450.80.02", "12.4": "525.60.13", "12.8": "550.54.14",
		"12.9": "550.54.14", "13.0": "580.65.06",
	} {
		if d := inspect.ToolkitDriver(toolkit, false); d.Version != want {
			t.Errorf("built with %s: %+v, want %s", toolkit, d, want)
		}
	}
}

// What else of a fatbin asks for a driver: PTX that is compressed with zstd, whatever its version;
// machine code of a newer CUDA than the runtime's; LZ4 asks for nothing.
func TestDriverOfFeatures(t *testing.T) {
	for name, c := range map[string]struct {
		compression, isa, runtime, toolkit string
		driver, jit                        string
	}{
		"PTX of CUDA 11.8 in zstd":                    {"zstd", "7.8", "12", "12.4", "550.54.14", "550.54.14"},
		"PTX of CUDA 11.8 in LZ4":                     {"lz4", "7.8", "12", "12.4", "525.60.13", "520.61.05"},
		"PTX of CUDA 12.9 in zstd":                    {"zstd", "8.8", "12", "12.9", "550.54.14", "575.51.03"},
		"PTX of an unknown CUDA in zstd":              {"zstd", "9.9", "12", "12.4", "550.54.14", ""},
		"machine code of CUDA 13":                     {"lz4", "", "12", "13.0", "580.65.06", "none"},
		"of CUDA 13 in zstd":                          {"zstd", "", "12", "13.0", "580.65.06", "none"},
		"PTX of an ISA that no document has, in zstd": {"zstd", "10.0", "12", "12.4", "550.54.14", ""},
		"machine code of CUDA 14":                     {"lz4", "", "12", "14.0", "", "none"},
		"of CUDA 14 in zstd":                          {"zstd", "", "12", "14.0", "", "none"},
		"a runtime of CUDA 14":                        {"zstd", "", "14", "12.4", "", "none"},
		"of CUDA 12 with its runtime":                 {"none", "", "12", "12.9", "525.60.13", "none"},
		"of CUDA 11 with 12's runtime":                {"none", "", "12", "11.8", "525.60.13", "none"},
	} {
		f := parse(t, read(t, "cuda-11.8-lz4.fatbin"))
		f.CUDA.Runtime, f.CUDA.Toolkits = c.runtime, []string{c.toolkit}
		f.CUDA.Code = []inspect.Code{{Arch: "sm_86", Kind: "cubin", Compression: []string{c.compression}}}
		if c.isa != "" {
			f.CUDA.Code = append(f.CUDA.Code,
				inspect.Code{Arch: "compute_86", Kind: "ptx", ISA: c.isa, Compression: []string{c.compression}})
		}
		v := inspect.Judge(f)
		jit := "none"
		if v.JIT != nil {
			jit = v.JIT.Version
		}
		if v.Driver == nil || v.Driver.Version != c.driver || jit != c.jit || len(v.Notes) > 0 {
			t.Errorf("%s: %+v and PTX %+v, want %s and %s; %q", name, v.Driver, v.JIT, c.driver, c.jit, v.Notes)
		}
	}
}

// What no table has is said to be unknown, with what is known of it.
func TestUnknownDriver(t *testing.T) {
	f := parse(t, read(t, "cuda-11.8-lz4.fatbin"))
	f.CUDA.Runtime, f.CUDA.Toolkits = "12", []string{"14.0"}
	f.CUDA.Code = []inspect.Code{{Arch: "compute_86", Kind: "ptx", ISA: "10.0", Compression: []string{"zstd"}}}
	v := inspect.Judge(f)
	if got := v.Driver.String(); got != "one for CUDA 14.0 or later, as nvidia-smi shows it" {
		t.Errorf("%s: %s", got, v.Driver.Why)
	}
	if got := v.JIT.String() + " (" + v.JIT.Why; !strings.HasPrefix(got, "of an unknown version (PTX 10.0") ||
		!strings.Contains(got, "; 550.54.14 or later at least: code compressed with zstd") {
		t.Error(got)
	}
}

// Which driver loads machine code for a family no document of NVIDIA's says: what is known is
// said, and nothing of code for one card alone, which the card's own driver loads.
func TestFamilyDriver(t *testing.T) {
	v := inspect.Judge(parse(t, read(t, "cuda-13.5-zstd.fatbin"))) // sm_90a, sm_100f, sm_120a and PTX for 120f
	if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "sm_100f") || !strings.Contains(v.Notes[0], "575.51.03") {
		t.Errorf("%q", v.Notes)
	}
	for code, want := range map[string]bool{"sm_100f": true, "sm_100a": false, "compute_120f": false, "PTX": false} {
		if inspect.OfFamily(code) != want {
			t.Errorf("%s: %v", code, !want)
		}
	}
}

// A driver that is too old for a build serves one with an older CUDA.
func TestElder(t *testing.T) {
	for _, c := range []struct {
		toolkit, here string
		ptx           bool
		want          string
	}{
		{"12.4", "470.82.01", false, "CUDA 11, which driver 450.80.02"},
		{"13.0", "535.54.03", false, "CUDA 12, which driver 525.60.13"},
		{"12.8", "535.54.03", false, "CUDA 12.2, which driver 535.54.03"}, // of CUDA 12 all but what is compressed with zstd
		{"12.4", "535.54.03", true, "CUDA 12.2, which driver 535.54.03"},
		{"11.8", "470.82.01", true, "CUDA 11.4, which driver 470.42.01"},
		{"11.8", "440.33", false, ""},
		{"13.0", "", false, ""},
	} {
		got := inspect.ToolkitDriver(c.toolkit, c.ptx).Elder(c.ptx, c.here)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s, PTX %v, on %q: %q, want %q", c.toolkit, c.ptx, c.here, got, c.want)
		}
	}
}
