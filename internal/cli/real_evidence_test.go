//go:build real

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/evidence"
	"github.com/llpatch/llpatch/internal/gguf"
)

// recordEvidence runs a build beside itself: the tokens must be equal, and every
// figure that a real llama-bench and llama-server give must be there.
func recordEvidence(t *testing.T, bin string) {
	t.Helper()
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := gguf.Model{Layers: 2, Embd: 256, Heads: 4, KVHeads: 4, FF: 512, Context: 4096, Type: gguf.F16, Seed: 1}
	if _, err := gguf.WriteFile(t.Context(), filepath.Join(dir, "m.gguf"), m, nil); err != nil {
		t.Fatal(err)
	}
	const plan = `
what = "a build beside itself"
[[build]]
name = "stock"
dir = "{BIN}"
[[build]]
name = "ours"
dir = "{BIN}"
[[run]]
name = "bench"
program = "llama-bench"
args = ["-m", "{DIR}/m.gguf", "-p", "128", "-n", "8", "-r", "1"]
pairs = 2
[[run]]
name = "serve"
program = "llama-server"
args = ["-m", "{DIR}/m.gguf", "-c", "2048", "-np", "2"]
keep = ["model loaded"]
[run.server]
clients = 2
requests = 20
prefills = { count = 2, tokens = 500 }
[run.aim.all]
tokens = "equal"
kept = "equal"
[[run]]
name = "no-model"
program = "llama-server"
args = ["-m", "{DIR}/none.gguf"]
[run.server]
[run.aim.all]
rc = "nonzero"
`
	if err := os.WriteFile(filepath.Join(dir, "plan.toml"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "evidence", "run", "plan.toml", "-o", "r.json", "--vram", "none", "--var",
		"BIN="+bin, "--var", "DIR="+dir)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), dir) || strings.Contains(string(data), bin) {
		t.Error("the record names a folder of this machine")
	}
	res, err := evidence.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Inputs["{DIR}/m.gguf"]) != 64 || !strings.HasPrefix(res.Builds["stock"].Version, "version:") ||
		len(res.Builds["stock"].SHA256["llama-server"]) != 64 {
		t.Errorf("%+v %+v", res.Inputs, res.Builds["stock"])
	}
	for _, r := range res.Runs {
		if r.Name != "no-model" && (r.RC != 0 || r.PP == nil || r.TG == nil || r.RSS == nil || len(r.Sample.RSS) == 0) {
			t.Errorf("%+v", r)
		}
		if r.Name == "serve" && (r.Requests != 30 || r.Tokens != 8*32 || len(r.Kept) == 0) {
			t.Errorf("%+v %q", r.Served, r.Kept)
		}
	}
}
