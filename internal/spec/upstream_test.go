package spec_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

const (
	ikOld = "d60c8f4d3bdde9357dc192c86726ddb41d08bec6"
	ikNew = "8337e4cd3861406fc04e0854b1409cd1b027fbc9"
)

// twoUpstreams are the good declarations and a fix with variants for both, whose
// build numbers overlap.
func twoUpstreams(t *testing.T, fix string) (*spec.Repo, error) {
	t.Helper()
	m := files(t, "testdata/good.txtar")
	m["patches/series"].Data = append([]byte("both\n"), m["patches/series"].Data...)
	m["patches/both/fix.toml"] = &fstest.MapFile{Data: []byte(fix)}
	for _, name := range []string{"main", "ik"} {
		m["patches/both/"+name+".patch"] = &fstest.MapFile{Data: []byte(name)}
	}
	m["recipes/ik.toml"] = &fstest.MapFile{Data: append([]byte("upstream = \"ik_llama.cpp\"\n"),
		m["recipes/everything.toml"].Data...)}
	return spec.Load(m)
}

const both = `
summary  = "Both"
why      = "Both have it."
reports  = ["https://example.com/1"]
status   = "ours"
proof    = "build"

[[defect]]
since    = 1
commit   = "1a87dcdc452de056a66796b679e4ba7071488cf7"
why      = "it brings the fault"
fixed-in = 8900
fixed-by = "7b95ea5d110241cf8b0fb6936927387f63f18a32"

[[defect]]
upstream = "ik_llama.cpp"
since    = 8700
commit   = "101fe54797e8029b727af5f522aba49848c3a7d8"
why      = "it takes the fault over"

[[variant]]
range = ">= 1, < 8900"
patch = "main.patch"

[[variant]]
upstream = "ik_llama.cpp"
range    = ">= 8800"
patch    = "ik.patch"
`

// A variant is chosen by the build numbers of its own upstream only: the same
// number is another commit in the other.
func TestBuildNumbersDoNotCross(t *testing.T) {
	r, err := twoUpstreams(t, both)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target string
		build  int
		patch  string
		reason string
	}{
		{"everything", 8833, "patches/both/main.patch", ""},
		{"everything", 8900, "", "upstream cured the defect in build 8900"},
		{"ik", 8833, "patches/both/ik.patch", ""},
		{"ik", 8900, "patches/both/ik.patch", ""}, // fixed-in counts llama.cpp's builds
		{"ik", 8699, "", "the defect came with build 8700"},
		{"ik", 8700, "", "no variant is for build 8700"},
	} {
		rec, err := r.Recipe(c.target)
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Choose(rec, "x", spec.Pin{Build: c.build})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, in := range s.In {
			if in.Fix == "both" {
				got = in.Patch
			} else if c.target == "ik" {
				t.Errorf("%s has %s, which is for llama.cpp", c.target, in.Fix)
			}
		}
		if got != c.patch {
			t.Errorf("%s, build %d: patch %q, want %q", c.target, c.build, got, c.patch)
		}
		for _, out := range s.Out {
			if out.Fix == "both" && !strings.Contains(out.Reason, c.reason) {
				t.Errorf("%s, build %d: out because %q, want %q", c.target, c.build, out.Reason, c.reason)
			}
			if c.target == "ik" && out.Fix != "both" && out.Reason != "it is for llama.cpp, and the target builds ik_llama.cpp" {
				t.Errorf("%s is out because %q", out.Fix, out.Reason)
			}
		}
	}
}

func TestVariantsOfOneUpstreamOverlap(t *testing.T) {
	const old = `upstream = "ik_llama.cpp"` + "\nrange"
	for name, want := range map[string]string{
		"llama.cpp": `overlaps ">= 1, < 8900" of variant 1`,
		"ik":        `upstream is "ik"; it must be one of llama.cpp, ik_llama.cpp`,
	} {
		if _, err := twoUpstreams(t, strings.Replace(both, old, `upstream = "`+name+`"`+"\nrange", 1)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v, want %q", name, err, want)
		}
	}
}

func TestCheckTag(t *testing.T) {
	r, err := twoUpstreams(t, both)
	if err != nil {
		t.Fatal(err)
	}
	r.Lock[spec.IkLlamaCpp] = map[string]spec.Pin{ikNew: {Commit: ikNew, Build: 4840}, ikOld: {Commit: ikOld, Build: 3835}}
	for _, c := range []struct {
		upstream, tag string
		want          []string // of the error; nil: none
	}{
		{spec.LlamaCpp, "b8833", nil},
		{spec.LlamaCpp, "v0.5.0", nil},
		{spec.LlamaCpp, strings.Repeat("0", 40), nil},
		{spec.IkLlamaCpp, ikOld, nil},
		{spec.IkLlamaCpp, strings.Repeat("0", 40), nil},
		{spec.LlamaCpp, ikOld, []string{
			"is a commit of ik_llama.cpp (build 3835 there), and llama.cpp was asked for",
			"targets that build ik_llama.cpp: ik",
		}},
		{spec.IkLlamaCpp, "b3835", []string{
			"b3835 is a name of llama.cpp's",
			"targets that build llama.cpp: everything, named, other", ikOld + " (build 3835)\n  " + ikNew + " (build 4840)",
		}},
		{spec.IkLlamaCpp, "v0.5.0", []string{"ik_llama.cpp has no releases"}},
	} {
		err := r.CheckTag(c.upstream, tag.MustParse(c.tag))
		if (err != nil) != (c.want != nil) || err != nil && !errors.As(err, new(*spec.WrongUpstream)) {
			t.Errorf("%s %s: %v", c.upstream, c.tag, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s %s: %q does not say %q", c.upstream, c.tag, err, w)
			}
		}
	}
}

// The lock of an upstream without releases holds commits only: b3835 would be
// llama.cpp's number.
func TestLockOfCommits(t *testing.T) {
	const pin = `{"commit":"` + ikOld + `","tree":"` + ikOld + `","build":3835,"time":"2025-08-09T12:50:30Z"}`
	if _, err := spec.ParseLock("tags.lock", []byte(`{"ik_llama.cpp": {"`+ikOld+`": `+pin+`}}`)); err != nil {
		t.Error(err)
	}
	_, err := spec.ParseLock("tags.lock", []byte(`{"ik_llama.cpp": {"b3835": `+pin+`}}`))
	if err == nil || !strings.Contains(err.Error(), "ik_llama.cpp b3835: ik_llama.cpp has no releases of such names") {
		t.Error(err)
	}
}
