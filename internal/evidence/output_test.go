package evidence

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The output is what the program printed: a last line without an end is part of
// it, and the command line above it is not, however many lines that has.
func TestOutputOfUnendedLine(t *testing.T) {
	dir := builds(t, "stock", "ours")
	o := plan(t, dir, `
[[run]]
name = "words"
program = "llama-bench"
args = ["-p", "a\nmarker\nlast words"]
keep = ["words$", "marker", "exit code"]
[run.env]
FAKE = "no line end"
[run.aim.all]
rc = 3
has = ["^last words$"]
lacks = ["marker", "exit code"]
`)
	res, err := record(t, o)
	if err != nil {
		t.Errorf("%v", err)
	}
	if r := find(t, res, "words", "ours", 1); !slices.Equal(r.Kept, []string{"last words"}) {
		t.Errorf("%q", r.Kept)
	}
}

// Names with hyphens do not put two runs into one log.
func TestLogNames(t *testing.T) {
	dir := builds(t, "stock", "ours")
	o := plan(t, dir, `
[[build]]
name = "ours-off"
dir = "{B}/ours"
[[build]]
name = "off"
dir = "{B}/ours"
[[run]]
name = "q8"
program = "llama-bench"
builds = ["ours-off"]
[[run]]
name = "q8-ours"
program = "llama-bench"
builds = ["off"]
`)
	if _, err := record(t, o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"q8/ours-off-1.log", "q8-ours/off-1.log"} {
		if _, err := os.Stat(filepath.Join(o.Work, filepath.FromSlash(name))); err != nil {
			t.Error(err)
		}
	}
}
