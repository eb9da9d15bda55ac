package binary

import (
	"fmt"
	"strings"
	"testing"
)

func TestRunsOn(t *testing.T) {
	for _, c := range []struct {
		code, card string
		cubin, ptx bool
	}{
		{"sm_80", "8.6", true, true},
		{"sm_86", "8.0", false, false}, // a lower minor number
		{"sm_86", "8.7", false, true},  // a Jetson module
		{"sm_87", "8.9", false, true},
		{"sm_89", "9.0", false, true}, // another major number
		{"sm_90a", "9.0", true, true},
		{"sm_90a", "10.0", false, false}, // PTX with a is for its own only
		{"sm_100f", "10.3", true, true},
		{"sm_103f", "10.0", false, false},
		{"sm_100f", "12.0", false, false},
		{"sm_120a", "12.1", false, false},
		{"sm_120", "12.1", true, true},
		{"sm_101", "10.3", false, true}, // in no table: nothing is promised
	} {
		a, ptx, err := parseArch(c.code)
		if err != nil || ptx {
			t.Fatalf("%s: %v", c.code, err)
		}
		for _, k := range cards {
			if k.cc.Capability() != c.card {
				continue
			}
			if a.runsOn(k) != c.cubin || a.compilesFor(k) != c.ptx {
				t.Errorf("%s on %s: machine code %v, PTX %v", c.code, c.card, a.runsOn(k), a.compilesFor(k))
			}
		}
	}
	for _, bad := range []string{"", "86", "sm_", "sm_8", "sm_a", "sm_86x", "compute_", "compute_9999999", "sm_-86"} {
		if a, _, err := parseArch(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, a)
		}
	}
}

// Every number that a verdict can name is in the tables, and they fit together: a
// toolkit's own driver is never older than what serves its major version, but for
// 11.0, whose first driver NVIDIA's table of minor versions leaves out.
func TestDriverTables(t *testing.T) {
	for isa := range ptxToolkits {
		d := ptxDriver(isa)
		if d.CUDA == "" || d.Version == "" && d.CUDA != "12.7" { // there was no public 12.7
			t.Errorf("PTX %s: %+v", isa, d)
		}
	}
	for toolkit, driver := range toolkitDrivers {
		d := runtimeDriver(toolkit, "test")
		if d.Version == "" || Less(driver, d.Version) && toolkit != "11.0" {
			t.Errorf("CUDA %s came with %s, and needs %+v", toolkit, driver, d)
		}
	}
	for runtime, want := range map[string]string{
		"12": "525.60.13", "11.0": "450.80.02", "10.2": "440.33", "14": "",
		"x": "",
	} {
		if d := runtimeDriver(runtime, "test"); d.Version != want || d.Why == "" {
			t.Errorf("runtime %s: %+v", runtime, d)
		}
	}
	if d := ptxDriver("10.0"); d.Version != "" || d.CUDA != "" || d.Why == "" {
		t.Errorf("unknown PTX: %+v", d)
	}
}

// Of code of one number that with a suffix is nearer, wherever it stands, and of two numbers
// the higher one.
func TestBest(t *testing.T) {
	arch := func(name string) Arch {
		a, _, err := parseArch(name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range [][3]string{ // the card, and what is farther and nearer
		{"9.0", "sm_90", "sm_90a"},
		{"10.0", "sm_100", "sm_100f"},
		{"10.3", "sm_100f", "sm_103"},
		{"8.9", "sm_80", "sm_86"},
		{"9.0", "compute_90", "compute_90a"},
		{"10.0", "compute_89", "compute_90"},
		{"10.0", "compute_100", "compute_100f"},
		{"10.0", "compute_90", "sm_100"},
	} {
		card, known := cardOf(arch("sm_" + strings.ReplaceAll(c[0], ".", "")))
		if !known {
			t.Fatalf("no card has %s", c[0])
		}
		for _, order := range [][]string{{c[1], c[2]}, {c[2], c[1]}} {
			var s codeSet
			for _, name := range order {
				if strings.HasPrefix(name, "compute_") {
					s.archs = append(s.archs, arch(name))
				} else {
					s.cubins = append(s.cubins, arch(name))
				}
			}
			if by, jit := s.best(card); by != c[2] || jit != strings.HasPrefix(by, "compute_") {
				t.Errorf("%s of %v runs %s, by PTX %v, want %s", c[0], order, by, jit, c[2])
			}
		}
	}
}

// Code is listed by its kind, then by number and suffix, then by the version of PTX.
func TestCodeOrder(t *testing.T) {
	var want []string
	g := gather{c: &CUDA{}, code: map[string]*Code{}}
	for _, c := range []Code{
		{Kind: "cubin", Arch: "sm_86"},
		{Kind: "cubin", Arch: "sm_90"},
		{Kind: "cubin", Arch: "sm_90a"},
		{Kind: "cubin", Arch: "sm_100"},
		{Kind: "cubin", Arch: "sm_100f"},
		{Kind: "cubin", Arch: "sm_103"},
		{Kind: "ptx", Arch: "compute_75", ISA: "7.8"},
		{Kind: "ptx", Arch: "compute_75", ISA: "8.0"},
	} {
		name := c.Kind + " " + c.Arch + " " + c.ISA
		want = append(want, name)
		g.code[name] = &c
	}
	// In another order than it stands here, by keys that sort the other way round.
	for i, name := range want {
		g.code[fmt.Sprint(99-i)] = g.code[name]
		delete(g.code, name)
	}
	g.finish()
	for i, c := range g.c.Code {
		if got := c.Kind + " " + c.Arch + " " + c.ISA; got != want[i] {
			t.Errorf("at %d: %s, want %s", i, got, want[i])
		}
	}
	if len(g.c.Code) != len(want) {
		t.Errorf("%d kinds of code, want %d", len(g.c.Code), len(want))
	}
}
