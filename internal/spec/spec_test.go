package spec_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

func files(t *testing.T, archives ...string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			m[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	return m
}

func good(t *testing.T) *spec.Repo {
	t.Helper()
	r, err := spec.Load(files(t, "testdata/good.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestErrors lays each testdata/errors/*.txtar over the good declarations: a
// file named "remove" lists files to leave out, and beside it stands the
// error's whole text.
func TestErrors(t *testing.T) {
	cases, err := filepath.Glob("testdata/errors/*.txtar")
	if err != nil || len(cases) < 20 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			m := files(t, "testdata/good.txtar", name)
			if r := m["remove"]; r != nil {
				for f := range strings.FieldsSeq(string(r.Data)) {
					delete(m, f)
				}
				delete(m, "remove")
			}
			_, err := spec.Load(m)
			var se *spec.Error
			if !errors.As(err, &se) {
				t.Fatalf("error %v is not a *spec.Error", err)
			}
			golden.Check(t, strings.TrimSuffix(name, ".txtar")+".golden", err.Error()+"\n")
		})
	}
}

func TestChoose(t *testing.T) {
	r := good(t)
	var b strings.Builder
	for _, target := range []string{"everything", "named", "other"} {
		for _, n := range []int{52, 60, 150, 250, 350} {
			rec, err := r.Recipe(target)
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Choose(rec, fmt.Sprintf("b%d", n), spec.Pin{Build: n})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s b%d\n", target, n)
			for _, c := range s.In {
				fmt.Fprintf(&b, "  in  %s %s%s sha256=%.8s compiled=%v %v: %s\n", c.Fix, c.Patch, c.Commit, c.SHA256, c.Compiled,
					c.Partly, c.Reason)
			}
			for _, o := range s.Out {
				fmt.Fprintf(&b, "  out %s, %s: %s\n", o.Fix, o.Case, o.Reason)
			}
		}
	}
	golden.Check(t, "testdata/choose.golden", b.String())

	rec := r.Recipes["everything"]
	if _, err := r.Choose(rec, "b10", spec.Pin{Build: 10}); err == nil ||
		!strings.Contains(err.Error(), "for build numbers >= 50") {
		t.Errorf("Choose below the recipe's range: %v", err)
	}
	if _, err := r.Recipe("nothing"); err == nil || !strings.Contains(err.Error(), "everything, named, other") {
		t.Errorf("unknown target: %v", err)
	}
}

// An opt-in fix is in no series but where somebody asks for it.
func TestAsk(t *testing.T) {
	for name, tc := range map[string]struct {
		ask        []string
		n          int
		in, refuse string // the fixes of the series; what Ask or Asked says
	}{
		"nobody asks":   {nil, 150, "alpha", ""},
		"asked":         {[]string{"beta"}, 150, "alpha beta", ""},
		"asked twice":   {[]string{"beta", "beta"}, 150, "alpha beta", ""},
		"unknown":       {[]string{"gamma"}, 150, "", `there is no opt-in fix "gamma"; there are: beta`},
		"not opt-in":    {[]string{"beta", "alpha"}, 150, "", `there is no opt-in fix "alpha"`},
		"what it needs": {[]string{"beta"}, 350, "", "beta is not covered on b350: it requires alpha, which is left out"},
	} {
		for _, target := range []string{"everything", "named"} {
			r := good(t)
			r.Fixes[1].OptIn = true
			rec := r.Recipes[target]
			err := r.Ask(&rec, tc.ask)
			var s *spec.Series
			if err == nil {
				if s, err = r.Choose(rec, fmt.Sprintf("b%d", tc.n), spec.Pin{Build: tc.n}); err != nil {
					t.Fatal(err)
				}
				err = s.Asked(rec)
			}
			if tc.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refuse) {
					t.Errorf("%s, %s: %v, want %s", name, target, err, tc.refuse)
				}
				continue
			}
			var in []string
			for _, c := range s.In {
				in = append(in, c.Fix)
			}
			if err != nil || strings.Join(in, " ") != tc.in {
				t.Errorf("%s, %s: %v, %v", name, target, in, err)
			}
			if tc.ask == nil && (len(s.Out) != 1 || s.Out[0].Case != spec.OnRequest ||
				!strings.Contains(s.Out[0].Reason, "build 150 is in >= 50, and --with beta takes it")) {
				t.Errorf("%s, %s: %+v", name, target, s.Out)
			}
		}
	}
}

// Of a tag whose number is known within bounds no reason names one number.
func TestChooseWithin(t *testing.T) {
	r := good(t)
	rec := r.Recipes["everything"]
	for _, choose := range []func(spec.Recipe, string, spec.Pin) (*spec.Series, error){r.Choose, r.ChooseNearest} {
		s, err := choose(rec, "v1.0.0", spec.Pin{Build: 150, Max: 157, Note: "a note"})
		if err != nil {
			t.Fatal(err)
		}
		if s.Build != 150 || s.BuildMax != 157 || s.Unpinned != "a note" {
			t.Errorf("%+v", s)
		}
		reasons := 0
		for _, c := range s.In {
			reasons += strings.Count(c.Reason, "150 to 157")
			if strings.Contains(strings.ReplaceAll(c.Reason, "150 to 157", ""), "150") {
				t.Errorf("%s: %s", c.Fix, c.Reason)
			}
		}
		for _, c := range s.Out {
			reasons += strings.Count(c.Reason, "150 to 157")
			if strings.Contains(strings.ReplaceAll(c.Reason, "150 to 157", ""), "build 150") {
				t.Errorf("%s: %s", c.Fix, c.Reason)
			}
		}
		if reasons == 0 {
			t.Errorf("%+v", s)
		}
	}
	rec.Range = tag.MustParseRange("< 100")
	if _, err := r.Choose(rec, "v1.0.0", spec.Pin{Build: 150, Max: 157}); err == nil ||
		!strings.Contains(err.Error(), "v1.0.0 is build 150 to 157") {
		t.Error(err)
	}
}

func TestChooseNearest(t *testing.T) {
	r := good(t)
	var b strings.Builder
	for _, n := range []int{52, 60, 150, 250, 350} {
		name := fmt.Sprintf("b%d", n)
		s, err := r.ChooseNearest(r.Recipes["everything"], name, spec.Pin{Build: n})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", name)
		for _, c := range s.In {
			fmt.Fprintf(&b, "  in  %s %s%s for %s: %s\n", c.Fix, c.Patch, c.Commit, c.Range, c.Reason)
		}
		for _, o := range s.Out {
			fmt.Fprintf(&b, "  out %s, %s: %s\n", o.Fix, o.Case, o.Reason)
		}
	}
	golden.Check(t, "testdata/choose-nearest.golden", b.String())
}

func TestOptions(t *testing.T) {
	rec := good(t).Recipes["everything"]
	for n, want := range map[int]string{99: "A=ON", 100: "A=OFF B=80;90-virtual", 150: "A=ON"} {
		var got []string
		o := optionsFor(rec, n)
		for _, k := range []string{"A", "B"} {
			if v, ok := o[k]; ok {
				s, err := spec.OptionValue(v)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, k+"="+s)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("options at %d: %q, want %q", n, got, want)
		}
	}
}

// No PTX at all and any PTX are two things that a recipe can ask for.
func TestVerifyCUDA(t *testing.T) {
	const recipe = `summary = "x"
range = ">= 50"
toolchain = "tc"
os = "linux"
arch = "x64"
backend = "cuda"
backends = ["cuda"]
fixes = "all"
programs = ["prog"]
[verify.cuda]
files = ["libggml-cuda.so"]
at-least = ["sm_86", "sm_120a"]
`
	for add, want := range map[string][]string{"": nil, "ptx = []\n": {}, "ptx = [\"compute_90a\"]\n": {"compute_90a"}} {
		m := files(t, "testdata/good.txtar")
		m["recipes/everything.toml"] = &fstest.MapFile{Data: []byte(recipe + add)}
		r, err := spec.Load(m)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Recipes["everything"].Verify.CUDA
		if diff := cmp.Diff(want, c.PTX); diff != "" {
			t.Errorf("%q: %s", add, diff)
		}
		if diff := cmp.Diff([]string{"sm_86", "sm_120a"}, c.AtLeast); diff != "" || c.Archs != nil {
			t.Errorf("%q: %s", add, diff)
		}
	}
}

// The repository's own declarations are valid, and each recipe can say what it
// does with every pinned tag that it builds.
func TestOwnDeclarations(t *testing.T) {
	r, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	chosen := 0
	for _, rec := range r.Recipes {
		for name, pin := range r.Lock[rec.Upstream] {
			if !rec.Range.Contains(pin.Build) {
				continue
			}
			s, err := r.Choose(rec, name, pin)
			if err != nil {
				t.Errorf("%s %s: %v", name, rec.Name, err)
				continue
			}
			chosen += len(s.In)
			if len(s.In)+len(s.Out) != len(r.Fixes) {
				t.Errorf("%s %s: %d fixes in, %d out, of %d", name, rec.Name, len(s.In), len(s.Out), len(r.Fixes))
			}
		}
	}
	if chosen == 0 {
		t.Error("no fix is chosen for any tag")
	}
}

func TestLockRoundTrip(t *testing.T) {
	data, err := fs.ReadFile(llpatch.Declarations, spec.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := spec.ParseLock(spec.LockFile, data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := lock.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(again)); diff != "" {
		t.Errorf("%s is not as llpatch writes it:\n%s", spec.LockFile, diff)
	}
}

func TestRevisions(t *testing.T) {
	v := spec.Revisions{}
	if n, ok := v.Find("llama.cpp", "b1", "cpu", "t1", "p1"); n != 1 || ok {
		t.Errorf("empty: %d %v", n, ok)
	}
	v.Add("llama.cpp", "b1", "cpu", spec.Revision{N: 1, Tree: "t1", Plan: "p1"})
	v.Add("llama.cpp", "b1", "cpu", spec.Revision{N: 2, Tree: "t2", Plan: "p1"})
	for _, c := range []struct {
		tree, plan string
		n          int
		ok         bool
	}{{"t1", "p1", 1, true}, {"t2", "p1", 2, true}, {"t1", "p2", 3, false}} {
		if n, ok := v.Find("llama.cpp", "b1", "cpu", c.tree, c.plan); n != c.n || ok != c.ok {
			t.Errorf("Find(%s, %s) = %d %v, want %d %v", c.tree, c.plan, n, ok, c.n, c.ok)
		}
	}
	text, err := v.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := spec.ParseRevisions("x", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, back); diff != "" {
		t.Error(diff)
	}
	if _, err := spec.ParseRevisions("x", []byte(`{"llama.cpp":{"b1":{"cpu":[{"n":2}]}}}`)); err == nil {
		t.Error("a lock with a gap is accepted")
	}
}

func FuzzLoad(f *testing.F) {
	a, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range a.Files {
		f.Add(file.Name, file.Data)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		m := fstest.MapFS{}
		for _, file := range a.Files {
			m[file.Name] = &fstest.MapFile{Data: file.Data}
		}
		if m[name] == nil {
			return
		}
		m[name] = &fstest.MapFile{Data: data}
		r, err := spec.Load(m)
		if err != nil {
			_ = err.Error()
			return
		}
		for _, rec := range r.Recipes {
			if s, err := r.Choose(rec, "b150", spec.Pin{Build: 150}); err == nil && len(s.In)+len(s.Out) != len(r.Fixes) {
				t.Fatalf("%d in, %d out, %d fixes", len(s.In), len(s.Out), len(r.Fixes))
			}
		}
	})
}

// A key below a table of a list stands in the last one of it.
func TestErrorIn(t *testing.T) {
	doc := []byte("[[run]]\nname = 1\n[run.server]\nseed = 2\n[[run]]\n[run.server]\nseed = 3\n[run.aim.all]\nrc = 4\n")
	for key, want := range map[string]string{
		"run[0].name": "2:1", "run[0].server.seed": "4:1", "run[1].server.seed": "7:1", "run[1].aim.all.rc": "9:1",
		"run[1].aim.all.x": "8:2", "run[1].x": "5:3", "run[0].server": "3:2",
	} {
		if got := spec.ErrorIn("p.toml", doc, key, "no").Error(); !strings.HasPrefix(got, "p.toml:"+want+": no") {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	var v struct{ Run []struct{ Name int } }
	if err := spec.Decode("p.toml", doc, &v); err == nil || !strings.Contains(err.Error(),
		`p.toml:3:2: unknown key "run.server"`) {
		t.Errorf("%v", err)
	}
}

// optionsFor are a recipe's options at build number n, later blocks over earlier ones.
func optionsFor(r spec.Recipe, n int) spec.Options {
	o := spec.Options{}
	maps.Copy(o, r.CMake)
	for _, c := range slices.Concat(r.Shared, r.CMakeFor) {
		if c.Range.Contains(n) {
			maps.Copy(o, c.Set)
		}
	}
	return o
}
