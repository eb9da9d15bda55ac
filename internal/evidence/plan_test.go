package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestPlanFaults(t *testing.T) {
	const head = "what = \"w\"\n[[build]]\nname = \"stock\"\ndir = \"{B}/stock\"\n" // lines 1 to 4
	const bench = head + "[[run]]\nname = \"r\"\nprogram = \"llama-bench\"\n"       // lines 5 to 7
	const server = head + "[[run]]\nname = \"r\"\nprogram = \"llama-server\"\n[run.server]\n"
	for text, want := range map[string]string{
		"":                                      "what is missing",
		"what = 1":                              "p.toml:1:8: this is a integer; the key takes string",
		"what = \"w\"\nwhen = 1":                `p.toml:2:1: unknown key "when"`,
		"what = \"w\"":                          "there is no [[build]]",
		head:                                    "there is no [[run]]",
		"baseline = \"x\"\n" + bench:            `p.toml:1:1: baseline is "x"; there is no`,
		strings.ReplaceAll(bench, "{B}", "{C}"): "p.toml:4:1: {C} has no value: give it with --var C=VALUE",
		strings.ReplaceAll(bench, "{B}/stock", "{E}"):           "p.toml:4:1: dir is missing or empty",
		"tag = \"{C}\"\n" + bench:                               "p.toml:1:1: {C} has no value",
		strings.Replace(bench, "stock\"\ndir", "all\"\ndir", 1): `name "all" is taken`,
		bench + "pairs = -1":                                    "p.toml:8:1: pairs is -1",
		bench + "timeout = \"soon\"":                            `p.toml:8:1: "soon" is no length of time`,
		bench + "builds = [\"x\"]":                              `p.toml:8:1: there is no build "x"`,
		bench + "builds = [\"stock\", \"stock\"]": "p.toml:8:1: build \"stock\" " +
			"is there twice",
		bench + "keep = [\"(\"]": "p.toml:8:1: \"(\" is no " +
			"regular expression",
		bench + "args = [\"{M}/m.gguf\"]": "p.toml:8:1: {M} has no value",
		bench + "[run.env]\nA = \"{M}\"":  "p.toml:9:1: {M} has no value",
		bench + "[run.build-env.x]\nA = \"1\"": "p.toml:8:2: there is no " +
			"build \"x\"",
		bench + "[run.server]\nclients = 1": "p.toml:8:2: only llama-server is asked",
		bench + "[run.aim.x]\nrc = 0": "is neither \"all\" nor a " +
			"build of this run",
		bench + "[run.aim.all]\nrc = \"maybe\"":      "p.toml:9:1: rc is \"maybe\"",
		bench + "[run.aim.all]\npp-ratio-min = nan":  "p.toml:9:1: pp-ratio-min is NaN",
		bench + "[run.aim.all]\ntg-ratio-min = +inf": "p.toml:9:1: tg-ratio-min is +Inf",
		bench + "[run.aim.all]\nrc = 1.5":            "p.toml:9:1: rc is 1.5",
		bench + "[run.aim.all]\ntokens = \"same\"": "p.toml:9:1: tokens is " +
			"\"same\"; it can be \"equal\"",
		bench + "[run.aim.all]\nrss = \"flat\"":   "judged for a llama-server only",
		bench + "[run.aim.all]\nkept = \"equal\"": "p.toml:9:1: kept needs keep",
		bench + "[run.aim.all]\nhas = [\"[\"]": "p.toml:9:1: \"[\" is no " +
			"regular expression",
		bench + "[[run]]\nname = \"r\"\nprogram = \"x\"":   "p.toml:9:1: name \"r\" is taken",
		bench + "[[run]]\nname = \"q\"\nprogram = \"a/b\"": "p.toml:10:1: program is \"a/b\"",
		head + "[[run]]\nname = \"r\"\nprogram = \"llama-server\"": "a llama-server needs a " +
			"[run.server]",
		head + "[[run]]\nname = \"r\"\nprogram = \"x\"\n[run.aim.all]\npp-ratio-min = 1.0": "speed is known of llama-bench and llama-server only",
		server + "prompt = [9, 3]":          "p.toml:9:1: prompt is [9 3]",
		server + "clients = -1":             "p.toml:9:1: clients is -1",
		server + "prefills = { count = 3 }": "p.toml:9:1: prefills needs both",
		server + "ready = \"-1s\"":          "p.toml:9:1: \"-1s\" is no length of time",
		"baseline = \"b\"\n" + bench + "[[build]]\nname = \"b\"\ndir = \"b\"\n[[run]]\nname = \"q\"\nprogram = " +
			"\"llama-bench\"\nbuilds = [\"stock\"]\n[run.aim.stock]\npp-ratio-min = 0.9": "does not take part",
	} {
		_, err := ParsePlan("p.toml", []byte(text), map[string]string{"B": "/b", "E": ""})
		var e *spec.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n-- %v\n-- want %s", text, err, want)
		}
	}
}

func TestPlanDefaults(t *testing.T) {
	p, err := ParsePlan("p.toml", []byte("tag = \"{T}\"\n"+twoBuilds+`
[[run]]
name = "a"
program = "llama-server"
args = ["-m", "{B}/m.gguf", "{stock}/x", "{build}/y", '{"json":1}']
pairs = 3
[run.server]
[run.aim.all]
rc = "any"
peak-vram-mib-max = 5
has = ["a"]
[run.aim.ours]
rc = 0
has = ["b"]
[[run]]
name = "b"
program = "test-backend-ops"
`), map[string]string{"B": "/b", "T": "b8833"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Tag != "b8833" {
		t.Errorf("tag %q", p.Tag)
	}
	r := p.Runs[0]
	if want := []string{"-m", "/b/m.gguf", "/b/stock/x", "{build}/y", `{"json":1}`}; !slices.Equal(r.Args, want) {
		t.Errorf("%q", r.Args)
	}
	s := r.Server
	if s.First != 8 || s.Clients != 1 || s.Predict != 32 || s.Prompt[1] != 256 || s.ready != 5*time.Minute ||
		r.limit != 10*time.Minute {
		t.Errorf("%+v", r)
	}
	ours, stock := r.aim("ours"), r.aim("stock")
	if ours.RC != int64(0) || *ours.PeakVRAM != 5 || len(ours.has) != 2 || stock.RC != "any" || len(stock.has) != 1 {
		t.Errorf("%+v %+v", ours, stock)
	}
	if !r.warm() || p.Runs[1].warm() || p.Baseline != "stock" || p.Runs[1].Pairs != 1 {
		t.Errorf("%+v", p)
	}
	var orders []string
	for pair := range 4 {
		orders = append(orders, strings.Join(r.order(pair), " "))
	}
	if got := strings.Join(orders, ", "); got != "stock ours, stock ours, ours stock, stock ours" {
		t.Error(got)
	}
	if err := p.Only([]string{"b", "c"}); err == nil || !strings.Contains(err.Error(), `no run "c"; it has a, b`) {
		t.Error(err)
	}
	if err := p.Only([]string{"b"}); err != nil || len(p.Runs) != 1 || p.Runs[0].Name != "b" {
		t.Errorf("%v %+v", err, p.Runs)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(twoBuilds + "[[run]]\nname = \"a\"\nprogram = \"llama-server\"\n[run.server]\nclients = 3\nprefills = " +
		"{count = 2, tokens = 5}\n[run.aim.ours]\nrc = \"any\"\n"))
	f.Add([]byte(twoBuilds + "[[run]]\nname = \"a\"\nprogram = \"x\"\nunder = [\"{build}\"]\n[run.build-env.ours]\nA = " +
		"\"{stock}\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePlan("p.toml", data, map[string]string{"B": "/b"})
		if err != nil {
			var e *spec.Error
			if !errors.As(err, &e) {
				t.Errorf("%T %v", err, err)
			}
			return
		}
		for i := range p.Runs {
			r := &p.Runs[i]
			if len(r.Builds) == 0 || r.Pairs < 1 || r.limit <= 0 {
				t.Errorf("%+v", r)
			}
			for _, b := range r.Builds {
				p.build(b)
				r.aim(b)
			}
			newHider(p, nil).text(p.Text)
		}
	})
}

// The plans that the repository keeps are plans.
func TestKeptPlans(t *testing.T) {
	t.Parallel()
	plans, err := filepath.Glob("../../docs/evidence/plans/*.toml")
	if err != nil || len(plans) == 0 {
		t.Fatal(plans, err)
	}
	for _, name := range plans {
		p, err := ReadPlan(name, map[string]string{
			"BUILDS": "b", "MODELS": "m", "SHIM": "s", "CPUS": "0-3", "JEMALLOC": "j", "SCRIPTS": "s", "WORK": "w",
			"REPO": "../..",
			"NAME": "3836", "FLASH": "-fa", "POOL": "b3236", "BALLAST": "b", "FREE": "1", "ENOUGH": "2",
			"TAG": "b1", "WITH": "w", "WITHOUT": "o",
		})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, b := range p.Builds {
			if b.Patches == nil {
				t.Errorf("%s does not say which patches the build %s has", name, b.Name)
				continue
			}
			for _, patch := range *b.Patches {
				if _, err := os.Stat(patch); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
