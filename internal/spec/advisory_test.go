package spec_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/spec"
)

const knownToml = `
date    = "2026-11-29"
through = { "llama.cpp" = 400 }

[[advisory]]
id        = "crash"
needs     = ["request"]
component = "server"
effect    = "it crashes"
impact    = "crash"
score     = 9.9
scored-by = "somebody"
state     = "sure"
avoid     = "stay away"

[[advisory]]
id        = "outside"
aliases   = ["CVE-2026-1234", "o/r#7"]
needs     = ["model", "rpc"]
only      = "with a flag"
component = "src"
effect    = "it writes outside"
impact    = "memory"
since     = 60
fixed-in  = 300
fixed-by  = ["7b95ea5d110241cf8b0fb6936927387f63f18a32"]
state     = "disputed"
avoid     = "stay away"

[[advisory]]
id        = "reads"
needs     = ["model"]
component = "src"
effect    = "it reads outside"
impact    = "read"
since     = 250
state     = "reading"

[[advisory]]
id        = "later"
needs     = ["model"]
component = "src"
effect    = "it writes outside"
impact    = "memory"
since     = 500
fixed-in  = 600
fixed-by  = ["7b95ea5d110241cf8b0fb6936927387f63f18a32"]
state     = "sure"
`

const cureToml = `
group    = "security"
cures    = ["outside"]
status   = "upstream"
proof    = "build"
unproven = "No."

[[variant]]
range  = ">= 100, < 200"
commit = "7b95ea5d110241cf8b0fb6936927387f63f18a32"
except = ["tests/"]
`

func known(t *testing.T) (*spec.Repo, spec.Recipe) {
	t.Helper()
	m := files(t, "testdata/good.txtar")
	m["recipes/advisories.toml"] = &fstest.MapFile{Data: []byte(knownToml)}
	m["patches/cure/fix.toml"] = &fstest.MapFile{Data: []byte(cureToml)}
	m["patches/series"].Data = append(m["patches/series"].Data, "cure\n"...)
	r, err := spec.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := r.Recipe("everything")
	if err != nil {
		t.Fatal(err)
	}
	return r, rec
}

// What a build has, what a series cures of it, and what it was left without.
func TestKnown(t *testing.T) {
	r, rec := known(t)
	ids := func(all []spec.Judged) string {
		var s []string
		for _, a := range all {
			s = append(s, a.ID+a.By)
		}
		return strings.Join(s, " ")
	}
	judge := func(build int, rec spec.Recipe) (spec.Known, *spec.Series) {
		s, err := r.Choose(rec, "x", spec.Pin{Build: build})
		if err != nil {
			t.Fatal(err)
		}
		return r.Advisories.Of(rec.Upstream, build, s, spec.Contents{}), s
	}
	k, s := judge(150, rec)
	if ids(k.Open) != "crash" || ids(k.Cured) != "outsidecure" || k.Beyond || len(k.Lacks) != 0 {
		t.Errorf("%+v", k)
	}
	if want := "Security: known defects of build 150: 2, cured here: 1, open: 1 (data of 2026-11-29)."; k.Head() != want {
		t.Errorf("%s", k.Head())
	}
	cure := s.In[len(s.In)-1]
	if cure.Fix != "cure" || cure.Summary != "it writes outside" || cure.Group != spec.Security ||
		cure.Except[0] != "tests/" ||
		cure.Why != "It writes outside. An attacker needs: a crafted model, or access to rpc-server (with a flag)." ||
		strings.Join(cure.Reports, " ") != "https://www.cve.org/CVERecord?id=CVE-2026-1234 https://github.com/o/r/issues/7 "+
			"https://github.com/ggml-org/llama.cpp/commit/7b95ea5d110241cf8b0fb6936927387f63f18a32" {
		t.Errorf("%+v", cure)
	}
	// No variant reaches there: worst first, and what to avoid is said once.
	k, _ = judge(250, rec)
	if ids(k.Open) != "outside reads crash" || len(k.Cured) != 0 || strings.Join(k.Avoids(), "|") != "stay away" {
		t.Errorf("%+v", k)
	}
	if lines := k.Lines(1); len(lines) != 4 || !strings.HasSuffix(lines[2], "(with a flag); disputed") ||
		lines[3] != "open: 2 more" {
		t.Errorf("%q", lines)
	}
	k = r.Advisories.Of(rec.Upstream, 401, nil, spec.Contents{})
	if !k.Beyond || !strings.Contains(k.Head(), "newer than build 400") || ids(k.Open) != "reads crash" {
		t.Errorf("%+v", k)
	}
	// An entry newer than the data and than every tag that is locked counts for builds that have it alone.
	for build, want := range map[int]string{
		499: "reads crash", 500: "later reads crash", 599: "later reads crash",
		600: "reads crash",
	} {
		if k = r.Advisories.Of(rec.Upstream, build, nil, spec.Contents{}); !k.Beyond || ids(k.Open) != want {
			t.Errorf("build %d: %+v", build, k)
		}
	}
	if k = r.Advisories.Of(spec.IkLlamaCpp, 150, nil, spec.Contents{}); !strings.Contains(k.Head(), "not looked up") {
		t.Errorf("%+v", k)
	}
	if k = (spec.Advisories{Date: "2026-11-29", Through: map[string]int{"llama.cpp": 9}}).Of("llama.cpp", 5, nil,
		spec.Contents{}); k.Head() != "Security: no defect of build 5 is known (data of 2026-11-29)." {
		t.Errorf("%s", k.Head())
	}
}

// A group is left out on request, a cure where its commit is not at hand, and so is what needs it.
func TestCuresLeftOut(t *testing.T) {
	r, rec := known(t)
	if err := r.LeaveOut(&rec, []string{"speed"}); err == nil || !strings.Contains(err.Error(), "group of fixes") {
		t.Errorf("%v", err)
	}
	lack := rec
	if err := r.LeaveOut(&rec, []string{"security", "security"}); err != nil || len(rec.Groups) != 1 {
		t.Fatal(err, rec.Groups)
	}
	lack.Lacks = spec.Reasons{"cure": "nobody has it"}
	for _, c := range []struct {
		rec   spec.Recipe
		is    spec.Case
		lacks int
	}{{rec, spec.LeftOut, 0}, {lack, spec.NotAtHand, 1}} {
		s, err := r.Choose(c.rec, "x", spec.Pin{Build: 150})
		if err != nil {
			t.Fatal(err)
		}
		k := r.Advisories.Of(rec.Upstream, 150, s, spec.Contents{})
		if o := s.Out[len(s.Out)-1]; o.Fix != "cure" || o.Case != c.is || len(k.Lacks) != c.lacks || len(k.Cured) != 0 {
			t.Errorf("%+v %+v", o, k)
		}
	}
}

// The defects that llpatch comes with: each name is one thing, and the headline tag has what the data says.
func TestOwnAdvisories(t *testing.T) {
	r, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	k := r.Advisories.Of(spec.LlamaCpp, 8833, nil, spec.Contents{})
	if k.Total() != 42 || k.Through < 10573 || k.Open[0].ID != "chat-parser-use-after-free" {
		t.Errorf("%d known, the first %s", len(k.Open), k.Open[0].ID)
	}
	rec, err := r.Recipe("linux-cpu")
	if err != nil {
		t.Fatal(err)
	}
	for build, want := range map[int]string{ // docs/manual/defects.md has them
		8833:  "42 known, 16 cured, 5 absent, 21 open",
		9210:  "38 known, 13 cured, 5 absent, 20 open",
		9842:  "33 known, 12 cured, 5 absent, 16 open",
		11146: "12 known, 0 cured, 3 absent, 9 open",
	} {
		s, err := r.Choose(rec, "x", spec.Pin{Build: build})
		if err != nil {
			t.Fatal(err)
		}
		k := r.Advisories.Of(spec.LlamaCpp, build, s, rec.Contents())
		if got := fmt.Sprintf("%d known, %d cured, %d absent, %d open", k.Total(), len(k.Cured), len(k.Absent),
			len(k.Open)); got != want {
			t.Errorf("build %d: %s", build, got)
		}
	}
	for _, f := range r.Fixes {
		if f.Group == spec.Security && (f.Summary == "" || f.Why == "" || len(f.Reports) == 0 ||
			f.Defect(spec.LlamaCpp).FixedIn == 0) {
			t.Errorf("%+v", f)
		}
	}
}

// A defect in code that was not built is neither open nor cured, and its cure is not missed.
func TestDefectsNotBuilt(t *testing.T) {
	all := spec.Contents{Files: []string{"bin/llama-server.exe", "libggml-rpc.so"}}
	bench := spec.Contents{Files: []string{"llama-bench"}}
	dropIn := spec.Contents{Files: []string{"libggml-hip.so"}, DropIn: "libggml-hip.so"}
	for _, c := range []struct {
		in        spec.Contents
		component string
		absent    string // words of the reason
	}{
		{spec.Contents{}, "gguf-py", "Python"},
		{spec.Contents{}, "gguf-py/gguf", "Python"},
		{spec.Contents{}, "server", ""},
		{spec.Contents{}, "ggml/src/ggml-rpc", ""},
		{all, "gguf-py", "Python"},
		{all, "server", ""},
		{all, "tools/mtmd", ""},
		{all, "ggml/src/ggml-rpc", ""},
		{spec.Contents{Files: []string{"llama-server"}}, "ggml/src/ggml-rpc", "GGML_RPC"},
		{
			spec.Contents{Files: []string{"llama-server"}, Options: map[string]string{"GGML_RPC": "OFF"}},
			"ggml-rpc",
			"GGML_RPC",
		},
		{spec.Contents{Files: []string{"llama-server"}, Options: map[string]string{"GGML_RPC": "ON"}}, "ggml-rpc", ""},
		{bench, "server", "none of which"},
		{bench, "tools/mtmd/clip.cpp", "none of which"},
		{bench, "src/llama-vocab.cpp", ""},
		{bench, "common", ""},
		{dropIn, "src/llama-vocab.cpp", "the package that libggml-hip.so goes into"},
		{dropIn, "ggml/src/gguf.cpp", "the package"},
		{dropIn, "ggml/src/ggml-cuda", ""},
		{spec.Contents{DropIn: "ggml-cuda.dll"}, "ggml/src/ggml-cuda/cpy.cu", ""},
		{spec.Contents{DropIn: "ggml-cuda.dll"}, "ggml/src/ggml-cuda-x", "the package"},
	} {
		if why := c.in.Without(c.component); (why == "") != (c.absent == "") || !strings.Contains(why, c.absent) {
			t.Errorf("%+v has %s: %q", c.in, c.component, why)
		}
	}

	r, rec := known(t)
	rec.Lacks = spec.Reasons{"cure": "nobody has it"}
	s, err := r.Choose(rec, "x", spec.Pin{Build: 150})
	if err != nil {
		t.Fatal(err)
	}
	k := r.Advisories.Of(rec.Upstream, 150, s, spec.Contents{DropIn: "libggml-cuda.so"})
	want := "Security: known defects of build 150: 2, cured here: 0, not in these programs: 2, open: 0 (data of " +
		"2026-11-29)."
	if lines := k.Lines(0); len(k.Lacks) != 0 || len(lines) != 2 || lines[0] != want ||
		lines[1] != "not in these programs, but in the package that libggml-cuda.so goes into: outside, crash" {
		t.Errorf("%q, lacks %+v", lines, k.Lacks)
	}
	if k = r.Advisories.Of(rec.Upstream, 150, s, rec.Contents()); len(k.Lacks) != 1 {
		t.Errorf("%+v", k)
	}
}

// What a target builds is what its recipe says, whatever the tag.
func TestContents(t *testing.T) {
	rec := spec.Recipe{
		Programs: []string{"llama-server"}, CMake: spec.Options{"A": true, "B": false, "C": 1},
		CMakeFor: []spec.CMakeFor{{Set: spec.Options{"D": true}}}, Shared: []spec.CMakeFor{{Set: spec.Options{"E": true}}},
	}
	c := rec.Contents()
	if got := fmt.Sprint(c.Files, c.Options); got != "[llama-server] map[A:ON D:ON E:ON]" {
		t.Error(got)
	}
}
