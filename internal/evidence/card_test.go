package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/memory"
)

const oneSecond = `
[[run]]
name = "bench"
program = "llama-bench"
under = ["sh", "-c", "sleep 1; exec \"$@\"", "sh"]
[run.aim.all]
rc = "any"
`

// A tool that prints garbage where a name is expected fills no record with it.
func TestCardOfGarbage(t *testing.T) {
	dir, bin := builds(t, "stock", "ours"), t.TempDir()
	script := `#!/bin/sh
case "$1" in
--query-gpu=name) printf 'Card \033[31mone\001\377\n\nCard two\n'; i=0; while [ $i -lt 50 ]; do head -c 4000 /dev/zero | tr '\0' x; echo; i=$((i+1)); done ;;
--query-gpu=driver_version) head -c 5000 /dev/zero | tr '\0' 5 ;;
--query-*) exit 1 ;;
*) printf 'CUDA Version:'; head -c 5000 /dev/zero | tr '\0' 9 ;;
esac
`
	if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	o := plan(t, dir, oneSecond)
	o.Env = append(o.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	o.Source = "nvidia-smi"
	res, err := record(t, o)
	if err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(res.Card, "Card [31mone, Card two, xxx") || len(res.Card) > 1600 ||
		strings.Count(res.Card, ", ") != maxCards {
		t.Errorf("card %q", res.Card)
	}
	if len(res.Driver) > 90 || len(res.CUDA) > 90 {
		t.Errorf("driver %q, CUDA %q", res.Driver, res.CUDA)
	}
}

// VRAM that was asked for by name and cannot be had leaves something untold, as
// with llpatch leak; and the record does not tell the caller's PATH.
func TestNamedCardThatIsNotThere(t *testing.T) {
	dir := builds(t, "stock", "ours")
	for _, named := range []bool{true, false} {
		o := plan(t, dir, oneSecond)
		o.Out = filepath.Join(t.TempDir(), "r.json")
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		o.Env = slices.DeleteFunc(slices.Clone(o.Env), func(e string) bool { return strings.HasPrefix(e, "PATH=") })
		o.Env = append(o.Env, "PATH=/usr/bin:/bin:"+elsewhere)
		o.Probe, o.Source, o.Named = memory.NvidiaSMI(o.Env), "nvidia-smi", named
		res, err := record(t, o)
		var not *NotRun
		if errors.As(err, &not) != named || named && !strings.Contains(err.Error(), "pair 1: nvidia-smi is not installed") {
			t.Errorf("named %v: %v", named, err)
		}
		for _, n := range append(res.Notes, res.Runs[0].Notes...) {
			if strings.Contains(n, "elsewhere") || strings.Contains(n, "/bin") {
				t.Errorf("the record tells the PATH: %s", n)
			}
		}
		if !slices.Contains(res.Notes, "nvidia-smi does not name the card: it is not on the PATH") {
			t.Errorf("%q", res.Notes)
		}
	}
}

// The records of the first day were kept by hand.
func TestOlderRecord(t *testing.T) {
	files, err := filepath.Glob("../../docs/evidence/2026-11-28-h100-*.json")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if _, err := ReadRecord(f); err == nil || !strings.Contains(err.Error(), filepath.Base(f)+
			": a record of an older form") {
			t.Errorf("%s: %v", f, err)
		}
	}
}
