package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

// elsewhere starts a script that burns a core, under its own name and below nobody of the
// test's own, and returns its process number.
func elsewhere(t *testing.T, name string) int {
	t.Helper()
	script := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(script, []byte("#!/bin/sh\nwhile :; do :; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("setsid", "sh", "-c", `"$1" --token 123456 >/dev/null 2>&1 & echo $!`, "sh", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	})
	return pid
}

// A record says what else ran on the host, by name alone, and not what llpatch started.
func TestBeside(t *testing.T) {
	pid := elsewhere(t, "burns-a-core")
	dir, bin := builds(t, "stock", "ours"), t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case "$1" in
--query-gpu=name) echo A card ;;
--query-compute-apps=*) printf '%d, 512\n99999999, [N/A]\n[Insufficient Permissions]\n' ;;
*) exit 1 ;;
esac
`, pid)
	if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	o := plan(t, dir, strings.Replace(oneSecond, "sleep 1;", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done;", 1))
	o.Env = append(o.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	o.Source = "nvidia-smi"
	res, err := record(t, o)
	if err != nil {
		t.Error(err)
	}
	for _, r := range res.Runs {
		b := r.Beside
		if b == nil || len(b.Load) != 2 {
			t.Fatalf("%+v", b)
		}
		// Its share depends on what else the machine does.
		if i := slices.IndexFunc(b.Busy, func(p Busy) bool {
			return p.Name == "burns-a-core"
		}); i < 0 || b.Busy[i].Share < leastShare || b.Busy[i].Share > 1.1 {
			t.Errorf("%+v", b.Busy)
		}
		if !slices.Equal(b.Card, []Holder{{"burns-a-core", 512}, {"not named", 0}}) {
			t.Errorf("%+v", b.Card)
		}
	}
	data, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"--token", "123456", "/burns-a-core"} {
		if bytes.Contains(data, []byte(s)) {
			t.Errorf("the record has %q", s)
		}
	}
	if len(res.Machine.Boot) != 12 || len(res.Program) != 64 || res.LLPatch != "test" {
		t.Errorf("boot %q, llpatch %q", res.Machine.Boot, res.Program)
	}
}

// What llpatch starts, and what ended before the second look, is not beside.
func TestBesideOwn(t *testing.T) {
	r := &recorder{res: &Result{}, hide: &hider{secrets: []string{"hunter2"}}}
	from := view{used: map[int]run.ProcStat{
		1: {Name: "a", Began: 5, Ticks: 100}, 2: {Name: "ended", Began: 5, Ticks: 0},
		3: {Name: "reused", Began: 5, Ticks: 900},
	}}
	to := view{at: from.at.Add(10e9), used: map[int]run.ProcStat{
		1: {Name: "a", Began: 5, Ticks: 150},             // 0.5 s of 10
		3: {Name: "reused", Began: 700, Ticks: 200},      // another process
		4: {Name: "a", Began: 700, Ticks: 100},           // one more of that name
		5: {Name: "idle", Began: 5, Ticks: 49},           // below the least
		6: {Name: "hunter2/x\n", Began: 700, Ticks: 100}, // a name may hold anything
	}, load: []float64{2}}
	b := r.beside(from, to)
	if want := []Busy{{"reused", 0.2}, {"a", 0.15}, {"x", 0.1}}; !slices.Equal(b.Busy, want) ||
		!slices.Equal(b.Load, []float64{2}) {
		t.Errorf("%+v, want %v", b, want)
	}
}

// The patches of a build are those of its BUILD_INFO.json, or those that the plan names.
func TestPatches(t *testing.T) {
	dir := builds(t, "stock", "ours", "info")
	if err := os.WriteFile(filepath.Join(dir, "fix.patch"), []byte("a change\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	info := map[string]any{"series": map[string]any{"in": []map[string]string{
		{"fix": "one", "patch": "patches/one/b1.patch", "sha256": "11"}, {"fix": "two", "sha256": "22"},
	}}}
	data, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "info", "BUILD_INFO.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	text := `
what = "a test"
[[build]]
name = "stock"
dir = "{B}/stock"
patches = []
[[build]]
name = "ours"
dir = "{B}/ours"
patches = ["{B}/fix.patch"]
[[build]]
name = "info"
dir = "{B}/info"
[[build]]
name = "silent"
dir = "{B}/ours"
[[run]]
name = "bench"
program = "llama-bench"
builds = ["stock"]
`
	vars := map[string]string{"B": dir}
	o := plan(t, dir, oneSecond)
	if o.Plan, err = ParsePlan("plan.toml", []byte(text), vars); err != nil {
		t.Fatal(err)
	}
	res, err := record(t, o)
	if err != nil {
		t.Error(err)
	}
	for build, want := range map[string]map[string]string{
		"stock":  {},
		"ours":   {"{B}/fix.patch": "af97a346b112885c9b847d7b6b281d51fba3d8d872975f6d87cd2d94b28f15f1"},
		"info":   {"patches/one/b1.patch": "11", "two": "22"},
		"silent": nil,
	} {
		if got := res.Builds[build].Patches; !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", build, got, want)
		}
	}
	if !slices.Contains(res.Notes, "build silent: neither a BUILD_INFO.json nor the plan says which patches it has") {
		t.Errorf("%q", res.Notes)
	}
	(*o.Plan.Builds[1].Patches)[0] = filepath.Join(dir, "none.patch")
	if _, err := Record(t.Context(), o); err == nil || !strings.Contains(err.Error(),
		"build ours: a patch that the plan names: ") {
		t.Errorf("%v", err)
	}
}
