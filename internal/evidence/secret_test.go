package evidence

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Neither keys nor folders get into a record, wherever they stand.
func TestRecordHides(t *testing.T) {
	dir := builds(t, "stock", "ours")
	path := "/home/somebody/" // {path}/ in the record
	o := plan(t, dir, `
[[build]]
name = "third"
dir = "{B}/stock"
note = "made in `+path+`tree"
[build.env]
LLAMA_API_KEY = "plankey1"
FAKE = "needs {build}"
[[run]]
name = "r"
program = "llama-bench"
args = ["--api-key", "plankey2", "--hf-token=tok", "-I`+path+`inc"]
[run.env]
MY_PASSWORD = 'p4'
GIVEN = "plankey1"
[run.aim.all]
lacks = ["^load_backend"]
rc = "any"
`)
	o.Plan.Runs[0].Under = []string{
		"env", "HF_TOKEN=plankey3", "sh", "-c",
		`echo "tok $HF_TOKEN $GIVEN" >&2; shift; exec "$@"`, "-o", "json",
	}
	o.Plan.Runs[0].Builds = []string{"stock", "third"}
	o.Plan.What += " of " + path + "what"
	o.Env = append(o.Env, "LLAMA_ARG_API_KEY=callerskey", "LLAMA_API_KEY=otherkey", "GGML_X=1", "LD_DEBUG_OUTPUT=/x")
	res, _ := record(t, o)
	data, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"plankey1", "plankey2", "plankey3", "callerskey", "otherkey", "'p4'", `"p4"`,
		"hf-token=tok\"", "/home/somebody", "LD_DEBUG",
	} {
		if i := strings.Index(string(data), s); i >= 0 {
			t.Errorf("the record has %s: %s", s, data[max(0, i-80):min(len(data), i+80)])
		}
	}
	if res.Machine.Env["LLAMA_ARG_API_KEY"] != hidden || res.Machine.Env["GGML_X"] != "1" ||
		res.Builds["third"].Env["LLAMA_API_KEY"] != hidden {
		t.Errorf("%v %v", res.Machine.Env, res.Builds["third"].Env)
	}
	if res.Builds["third"].Note != "made in {path}/tree" || !strings.HasSuffix(res.What, " of {path}/what") {
		t.Errorf("%q %q", res.Builds["third"].Note, res.What)
	}
	if v := res.Builds["third"].Version; v != "version: 8390 (abc)" {
		t.Errorf("{build} is not put in for --version: %q %q", v, res.Notes)
	}
	// Its own -o json is added although the program above it has one.
	r := find(t, res, "r", "stock", 1)
	if !slices.Equal(r.Argv[len(r.Argv)-2:], []string{"-o", "json"}) || r.PP == nil {
		t.Errorf("%q", r.Argv)
	}
	// An aim was missed: the line is quoted without the folder, and the tail is kept.
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.State == Missed })
	if i < 0 || r.Checks[i].Got != "load_backend: loaded from {stock}/llama-bench" || len(r.Tail) == 0 {
		t.Errorf("%+v %q", r.Checks, r.Tail)
	}
}

// A folder that is not there ends before anything is written.
func TestRecordWrongDir(t *testing.T) {
	dir := builds(t, "stock", "ours")
	o := plan(t, dir, "[[run]]\nname = \"r\"\nprogram = \"llama-bench\"\n")
	o.Plan.Builds[1].Dir = filepath.Join(dir, "nowhere")
	if _, err := Record(t.Context(), o); err == nil || !strings.Contains(err.Error(), "build ours") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a record is there")
	}
}
