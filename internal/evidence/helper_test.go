package evidence

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

// programs holds what the tests build.
var programs string

func TestMain(m *testing.M) {
	run.Supervise()
	dir, err := os.MkdirTemp("", "evidence-test")
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// fakeProgram builds the tests' program once. It is one of its own, without the race
// detector, whose own records grow with every request.
var fakeProgram = sync.OnceValues(func() (string, error) {
	name := filepath.Join(programs, "fake")
	out, err := exec.Command("go", "build", "-o", name, "testdata/fake/main.go").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return name, err
})

// builds makes a folder with the builds' folders in it, each with both programs.
func builds(t *testing.T, names ...string) string {
	t.Helper()
	self, err := fakeProgram()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, b := range names {
		if err := os.Mkdir(filepath.Join(dir, b), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{llamaBench, llamaServer} {
			if err := os.Symlink(self, filepath.Join(dir, b, p)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, b, "libggml.so"), []byte("\x7fELF "+b), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, b, "notes.txt"), []byte("no program"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const twoBuilds = `
what = "a test"
[[build]]
name = "stock"
dir = "{B}/stock"
[[build]]
name = "ours"
dir = "{B}/ours"
`

func plan(t *testing.T, dir, text string) Options {
	t.Helper()
	vars := map[string]string{"B": dir}
	p, err := ParsePlan("plan.toml", []byte(twoBuilds+text), vars)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Plan: p, Vars: vars, Env: os.Environ(), Work: t.TempDir(),
		Out: filepath.Join(dir, "out.json"), Command: []string{"llpatch", "evidence", dir + "/plan.toml"}, Version: "test",
	}
}

// record runs a plan, reads the file back, and makes sure that it says nothing of
// this machine's folders.
func record(t *testing.T, o Options) (*Result, error) {
	t.Helper()
	_, err := Record(t.Context(), o)
	data, rerr := os.ReadFile(o.Out)
	if rerr != nil {
		t.Fatalf("%v; %v", rerr, err)
	}
	for _, hidden := range []string{filepath.Dir(o.Plan.Builds[0].Dir), o.Work, os.TempDir() + "/"} {
		if i := strings.Index(string(data), hidden); i >= 0 {
			t.Errorf("the record has %s: %s", hidden, data[max(0, i-80):min(len(data), i+160)])
		}
	}
	res, perr := Parse(data)
	if perr != nil {
		t.Fatal(perr)
	}
	return res, err
}
