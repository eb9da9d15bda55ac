//go:build linux

package leak

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What nsys stats 2022.4 made of a capture's database; CUDA's tables in it were filled
// by hand, for no machine had it and a card.
func TestNsysSummary(t *testing.T) {
	calls, err := parseNsys(read(t, "nsys-cudaapisum.csv"), "Num Calls")
	if err != nil || len(calls) != 10 {
		t.Fatalf("%v, %v", calls, err)
	}
	moved, err := parseNsys(read(t, "nsys-gpumemsizesum.csv"), "Count")
	if err != nil || len(moved) != 3 {
		t.Fatalf("%v, %v", moved, err)
	}
	f := Finding{Tool: "nsys", Files: []string{"nsys.nsys-rep"}, Calls: calls, Moved: moved}
	said := strings.Join(f.nsysEvidence(), "\n")
	for _, want := range []string{
		"a capture was made: nsys.nsys-rep", "take device memory: 69, that give it back: 12",
		"take pinned host memory: 3, that give it back: 3",
		"take graphs: 9, that give it back: 2", "[CUDA memcpy HtoD] 100 times",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if calls, err := parseNsys(nil, "Num Calls"); err != nil || calls != nil { // nothing of the kind was seen
		t.Errorf("%v, %v", calls, err)
	}
	for _, bad := range []string{
		"Segmentation fault", "Name,Num Calls\ncudaMalloc,many\n",
		"Name,Num Calls\ncudaMalloc,-1\n", "Name,Num Calls\n\"cuda", "Name,Num Calls\na,1,2\n",
	} {
		if calls, err := parseNsys([]byte(bad), "Num Calls"); err == nil {
			t.Errorf("%q: %v", bad, calls)
		}
	}
}

func FuzzNsys(f *testing.F) {
	f.Add(read(f, "nsys-cudaapisum.csv"), "Num Calls")
	f.Add(read(f, "nsys-gpumemsizesum.csv"), "Count")
	f.Fuzz(func(t *testing.T, b []byte, count string) {
		calls, err := parseNsys(b, count)
		if err != nil {
			return
		}
		finding := Finding{Calls: calls, Files: []string{""}}
		for _, c := range calls {
			if c.N < 0 || c.Name == "" {
				t.Errorf("%+v", c)
			}
		}
		for _, e := range finding.nsysEvidence() {
			if strings.Contains(e, ": -") {
				t.Error(e)
			}
		}
		firstListed(b, apiSum)
	})
}

// standIn is a nsys of our own: it runs the program and leaves the files that the real
// one does, or not.
func standIn(t *testing.T, capture, stats string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
case $1 in
profile)
	while [ "$1" != -o ]; do shift; done
	base=$2; shift 2
	"$@"; code=$?
	` + capture + `
	exit $code ;;
stats)
	if [ "$2" = --help-reports ]; then
		printf '\nThe following built-in reports are available:\n\n  cudaapisum -- CUDA API Summary\n  gpumemsizesum -- GPU Memory Operations Summary (by Size)\n'
		exit 1
	fi
	while [ "$1" != --output ]; do shift; done
	base=$2; data=` + data + `
	` + stats + ` ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "nsys"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + ":" + os.Getenv("PATH")
}

func TestNsys(t *testing.T) {
	const capture = `echo nsys >"$base.nsys-rep"`
	const stats = `cp "$data/nsys-cudaapisum.csv" "${base}_cudaapisum.csv"; cp "$data/nsys-gpumemsizesum.csv" "${base}_gpumemsizesum.csv"`
	for name, c := range map[string]struct {
		capture, stats string
		text, err      string
	}{
		"whole":            {capture, stats, "take device memory: 69, that give it back: 12", ""},
		"an older capture": {`echo nsys >"$base.qdrep"`, stats, "nsys.qdrep\n", ""},
		"no calls": {
			capture, `: >"${base}_cudaapisum.csv"; : >"${base}_gpumemsizesum.csv"`,
			"no call of CUDA is in the capture", "",
		},
		"no summary": {
			capture, `echo "ERROR: $5 is no report"; exit 1`, "a capture, but no summary of it: nsys stats",
			"",
		},
		"garbage": {
			capture, `echo '@@@@ ,,,' >"${base}_cudaapisum.csv"`,
			"a capture, but no summary of it: its cudaapisum: it has no columns Num Calls and Name", "",
		},
		"no capture":       {`echo 'Importer error status: The importer binary and its dependencies were not found.'; echo raw >"$base.qdstrm"`, "", "", "it wrote no report: The importer binary and its dependencies were not found.; what it recorded is in "},
		"an empty capture": {`: >"$base.nsys-rep"; code=1`, stats, "", "nsys: the report that it wrote is empty"},
		"stops":            {`kill -9 $$`, "", "", "nsys: it wrote no report"},
		"hangs": {
			"sleep 60", "", "",
			"nsys: it did not finish its report within 1s of the program's end, and was stopped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, "flat")
			o.Argv = []string{"/bin/sleep", "1.6"}
			o.Env = []string{standIn(t, c.capture, c.stats)}
			o.With, o.toolPatience = []string{"nsys"}, time.Second
			res, err := Run(t.Context(), o)
			var n *NotRun
			if c.err == "" && err != nil || c.err != "" && (!errors.As(err, &n) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if res == nil || !strings.Contains(res.Text(), c.text) {
				t.Errorf("no %q in\n%s", c.text, res.Text())
			}
		})
	}
}

// The real one, where it is installed: a program of the host has no call of CUDA.
func TestRealNsys(t *testing.T) {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	want := "no call of CUDA is in the capture"
	if file, err := exec.LookPath("nsys"); err != nil {
		t.Log("there is no nsys here: the stand-in is judged")
		env = []string{standIn(t, `echo nsys >"$base.nsys-rep"`,
			`: >"${base}_cudaapisum.csv"; : >"${base}_gpumemsizesum.csv"`)}
	} else {
		t.Log(file)
	}
	o := options(t, "flat")
	o.Workload, o.Requests, o.With = "requests", 60, []string{"nsys"}
	o.Env = append(env, "HELPER=flat")
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(res.Text(), want) || len(res.Tools) != 1 || res.Tools[0].Requests != toolRequests {
		t.Errorf("no %q in\n%s", want, res.Text())
	}
	if st, err := os.Stat(filepath.Join(o.Work, "nsys", "nsys.nsys-rep")); err != nil || st.Size() == 0 {
		t.Errorf("the capture: %v", err)
	}
	noProcess(t, mark(t))
}
