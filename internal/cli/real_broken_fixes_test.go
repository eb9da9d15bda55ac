//go:build real

package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/broken"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

var (
	brokenTags = flag.String("broken-tags", "",
		"tags on which every broken fix must be noticed, with blanks between them")
	brokenDist   = flag.String("broken-dist", "", "folder that keeps the builds of TestBrokenFixes for the next run")
	brokenSource = flag.String("broken-source", "", "where the tags are taken from, as --source has it")
	brokenRecord = flag.String("broken-record", "", "file that gets what came of it, as JSON")
	brokenIK     = flag.String("broken-ik", "",
		"commit of ik_llama.cpp on which prefill-reserve's broken variants must be noticed, from -broken-source")
	brokenOnly = flag.String("broken-only", "", "only variants with this in FIX/NAME")
)

// simulations are the devices on which proofs run, by name, with the headers that each
// takes besides NVIDIA's.
var simulations = []struct{ name, headers string }{{"sim", ""}, {"sim-hip", "HIP_HEADERS"}}

// kill is what became of one broken fix.
type kill struct {
	Tag     string  `json:"tag"`
	Device  string  `json:"device"`
	Variant string  `json:"variant"`
	Check   string  `json:"check"` // and the case, where the proof has several of its name
	Want    string  `json:"want"`
	Fault   string  `json:"fault,omitempty"` // that was found; the same where the variant was killed
	Detail  string  `json:"detail"`
	Seconds float64 `json:"seconds"` // of the check
	Killed  bool    `json:"killed"`
}

// judge takes what one check found.
func (k *kill) judge(one smoke.ProofCheck, c smoke.Result) {
	k.Check, k.Fault, k.Detail = one.Check.Name, c.Fault, c.Detail
	if one.Case != "" {
		k.Check += " (" + one.Case + ")"
	}
	if one.Same && c.Verdict == smoke.Passed { // stock has the fault, and so must this
		k.Fault = smoke.FaultUnasked
	}
	k.Killed = k.Fault == k.Want && (!one.Same || k.Fault != one.Fault)
}

// subject is a built tag whose fixes can be broken.
type subject struct {
	tag, src, bin, dir string // dir keeps the device's objects
	build              int
	fixes              []spec.Fix
}

// library makes the device and the tree's ggml-cuda as they are now.
func (b subject) library(t *testing.T, device, hip string) (*sim.Library, error) {
	t.Helper()
	return sim.Build(t.Context(), sim.Options{
		Src: b.src, Out: filepath.Join(b.dir, device, "patched"), Headers: os.Getenv("CUDA_HEADERS"), HIP: hip, NoVMM: true,
	})
}

// checks are those of a fix's proof on a device.
func (b subject) checks(fix, device string) []smoke.ProofCheck {
	for _, f := range b.fixes {
		if f.ID == fix {
			list := smoke.ProofChecks(f.Proof, b.build, false)
			if device == "sim-hip" {
				list = append(list, smoke.HIPProofChecks(f.Proof, b.build)...)
			}
			return list
		}
	}
	return nil
}

// check runs one check on what library made.
func (b subject) check(t *testing.T, lib *sim.Library, one smoke.ProofCheck) smoke.Result {
	t.Helper()
	r, err := smoke.Run(t.Context(), smoke.Options{
		Bin: b.bin, Work: t.TempDir(), Device: spec.Sim, SimEnv: lib.Env(), Checks: []spec.Check{one.Check},
	})
	var failed *smoke.FailedChecks
	var not *smoke.NotRun
	if err != nil && !errors.As(err, &failed) && !errors.As(err, &not) {
		t.Fatal(err)
	}
	return r.Checks[0]
}

// healthy tells whether an unbroken fix would come to this: a case in which it is asked
// for nothing has stock's fault.
func healthy(one smoke.ProofCheck, c smoke.Result) bool {
	return c.Verdict == smoke.Passed || one.Same && c.Verdict == smoke.Failed && c.Fault == one.Fault
}

// whole has every check that must notice one of the variants find nothing in the unbroken tree.
func (b subject) whole(t *testing.T, device, hip string, variants []broken.Variant) {
	t.Helper()
	lib, err := b.library(t, device, hip)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for _, v := range variants {
		for _, one := range b.checks(v.Fix, device) {
			name := v.Fix + " " + one.Check.Name + " " + one.Case
			if done[name] || !v.Noticed(one.Check.Name, one.Case) {
				continue
			}
			done[name] = true
			c := b.check(t, lib, one)
			t.Logf("%s on %s, unbroken: %s: %s: %s %s", b.tag, device, name, c.Verdict, c.Fault, c.Detail)
			if !healthy(one, c) {
				t.Errorf("%s on %s, unbroken: %s: %s: %s %s", b.tag, device, name, c.Verdict, c.Fault, c.Detail)
			}
		}
	}
}

// kills breaks the tree in one way and says what its fix's proof finds.
func (b subject) kills(t *testing.T, v broken.Variant, device, hip string) kill {
	t.Helper()
	k := kill{Tag: b.tag, Device: device, Variant: v.ID(), Want: v.Fault}
	mend, err := v.In(b.src)
	if err != nil {
		t.Fatalf("%s: %v", b.tag, err)
	}
	defer func() {
		if err := mend(); err != nil {
			t.Fatal(err)
		}
	}()
	lib, err := b.library(t, device, hip)
	if err != nil {
		t.Fatalf("%s: %s: %v", b.tag, v.ID(), err)
	}
	ran := 0
	for _, one := range b.checks(v.Fix, device) {
		if !v.Noticed(one.Check.Name, one.Case) {
			continue
		}
		ran++
		began := time.Now()
		c := b.check(t, lib, one)
		k.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
		if k.judge(one, c); k.Killed || !healthy(one, c) {
			break
		}
	}
	if ran == 0 {
		t.Fatalf("%s: the proof of %s has no check %s on %s", v.ID(), v.Fix, v.Check, device)
	}
	word := "survives"
	if k.Killed {
		word = "killed"
	}
	t.Logf("%s on %s: %s: %s by %s: %q: %s (%d compiled, %v s)", b.tag, device, v.ID(), word, k.Check, k.Fault, k.Detail,
		lib.Compiled, k.Seconds)
	return k
}

// brokenFixes breaks a built tag in every way that pick takes, on one device. Each must
// be noticed, and the unbroken fixes must pass.
func brokenFixes(t *testing.T, b subject, device, hip string, pick func(broken.Variant) bool) (list []kill) {
	t.Helper()
	all, err := broken.All()
	if err != nil {
		t.Fatal(err)
	}
	var variants []broken.Variant
	for _, v := range all {
		if v.Check != broken.Model && v.Fits(b.build) && (v.Device == "" || v.Device == device) && pick(v) {
			variants = append(variants, v)
		}
	}
	b.whole(t, device, hip, variants)
	for _, v := range variants {
		k := b.kills(t, v, device, hip)
		if list = append(list, k); !k.Killed {
			t.Errorf("%s on %s: %s is not noticed: %q, want %s: %s", k.Tag, k.Device, k.Variant, k.Fault, k.Want, k.Detail)
		}
	}
	return list
}

// repository reads the fixes of this clone.
func repository(t *testing.T) []spec.Fix {
	t.Helper()
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	return repo.Fixes
}

// TestBrokenFixes: every broken variant of a fix turns the fix's proof red, with the
// fault that its header names, and the fix itself does not.
func TestBrokenFixes(t *testing.T) {
	if *brokenTags == "" {
		t.Skip("no -broken-tags: make broken-fixes names them")
	}
	tags, err := pinnedTags(*brokenTags)
	if err != nil {
		t.Fatal(err) // before an hour's work, not after it
	}
	dist := *brokenDist
	if dist == "" {
		dist = t.TempDir()
	}
	dist, err = filepath.Abs(dist)
	if err != nil {
		t.Fatal(err)
	}
	record := newBrokenRecord(t, fmt.Sprintf("-run TestBrokenFixes ./internal/cli -args -broken-tags %q", *brokenTags))
	for _, tag := range tags {
		b, before := smallBuild(t, dist, tag), len(record.Kills)
		pick := func(v broken.Variant) bool { return strings.Contains(v.ID(), *brokenOnly) }
		for _, s := range simulations {
			hip := os.Getenv(s.headers)
			if s.headers != "" && hip == "" {
				t.Logf("NOT RUN: the broken fixes of %s on %s, for want of %s", tag, s.name, s.headers)
				continue
			}
			record.Kills = append(record.Kills, brokenFixes(t, b, s.name, hip, pick)...)
		}
		if tag == "b8390" && *brokenOnly == "" {
			publishedPurge(t, b, filepath.Join(dist, "cache"))
		}
		if len(record.Kills) == before && *brokenOnly == "" {
			t.Errorf("%s: no variant was tried", tag)
		}
	}
	record.finish(t)
}

// killRecord is what one run of broken fixes came to.
type killRecord struct {
	Command  string `json:"command"`
	Date     string `json:"date"`
	Commit   string `json:"commit"`
	Compiler string `json:"compiler"`
	Killed   int    `json:"killed"`
	All      int    `json:"all"`
	Kills    []kill `json:"kills"`
}

// newBrokenRecord is that of a run with these arguments, in which no folder of this machine may stand.
func newBrokenRecord(t *testing.T, args string) *killRecord {
	t.Helper()
	if *brokenOnly != "" {
		args += " -broken-only " + *brokenOnly
	}
	return &killRecord{
		Command: "go test -tags real " + args, Date: time.Now().UTC().Format(time.DateOnly),
		Commit:   strings.TrimSpace(sh(t, "../..", "git describe --always --dirty")),
		Compiler: firstLine(sh(t, ".", "$(ls /usr/bin/clang++-[0-9]* | sort -V | tail -1) --version")),
	}
}

// finish counts, and writes the file that was asked for.
func (record *killRecord) finish(t *testing.T) {
	t.Helper()
	record.All = len(record.Kills)
	for _, k := range record.Kills {
		if k.Killed {
			record.Killed++
		}
	}
	t.Logf("killed %d of %d", record.Killed, record.All)
	if record.All == 0 {
		t.Error("no variant was tried")
	}
	if *brokenRecord != "" {
		text, err := json.MarshalIndent(record, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*brokenRecord, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBrokenIK: the same for prefill-reserve, each half of whose proof has programs of its own. A broken
// variant is one fix more in a copy of the declarations.
func TestBrokenIK(t *testing.T) {
	if *brokenIK == "" || *brokenSource == "" {
		t.Skip("no -broken-ik and -broken-source: make proof-ik names them")
	}
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	dist := *brokenDist
	if dist == "" {
		dist = t.TempDir()
	}
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	pin, known := repo.Lock[spec.IkLlamaCpp][*brokenIK]
	if !known {
		t.Fatalf("recipes/tags.lock does not pin the commit %q of ik_llama.cpp", *brokenIK)
	}
	// proofs are those of prefill-reserve, with a broken variant or, where that is "", without.
	proofs := func(variant string) []*smoke.Proof {
		declarations := filepath.Join(t.TempDir(), "declarations")
		sh(t, "../..", fmt.Sprintf("mkdir -p %[1]s && cp -r buildenv patches recipes toolchains %[1]s", quoted(declarations)))
		// The others' proofs are make proof-ik's own.
		sh(t, declarations, `for f in $(cat patches/series); do [ "$f" = prefill-reserve ] || rm -r "patches/$f"; done
			echo prefill-reserve >patches/series && find recipes -name '*.toml' ! -name ik-linux-cpu.toml ! -name sources.toml -delete`)
		if variant != "" {
			sh(t, "../..", fmt.Sprintf("mkdir %[1]s/patches/broken && cp internal/broken/testdata/%[2]s.patch "+
				"%[1]s/patches/broken/ && echo broken >>%[1]s/patches/series", quoted(declarations), variant))
			toml := fmt.Sprintf(`summary  = "One thing wrong"
why      = "A proof must notice it."
reports  = ["https://example.invalid/"]
status   = "ours"
upstream = "ik_llama.cpp"
requires = ["prefill-reserve"]
backends = []
proof    = "build"
unproven = "It is broken."
[[defect]]
since  = %[1]d
commit = %[2]q
why    = "none"
[[variant]]
range = ">= %[1]d, < %[3]d"
patch = %[4]q
why   = "none"
`, pin.Build, pin.Commit, pin.Build+1, filepath.Base(variant)+".patch")
			if err := os.WriteFile(filepath.Join(declarations, "patches/broken/fix.toml"), []byte(toml), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.CommandContext(t.Context(), self, "-C", declarations, "--out", dist, "smoke", *brokenIK, "ik-linux-cpu",
			"--device", "sim", "--source", *brokenSource, "--json")
		c.Env = append(os.Environ(), "LLPATCH_CACHE="+filepath.Join(dist, "cache"))
		c.Stderr = os.Stderr
		out, err := c.Output()
		var p chain.Proofs
		if jerr := json.Unmarshal(out, &p); jerr != nil {
			t.Fatalf("%s: %v: %s: %v", variant, jerr, out, err)
		}
		return slices.DeleteFunc(p.Proofs, func(p *smoke.Proof) bool { return p.Fix != "prefill-reserve" })
	}
	whole := proofs("")
	if len(whole) == 0 {
		t.Fatal("prefill-reserve has no proof")
	}
	for _, p := range whole {
		if t.Logf("unbroken: %s: %s: %s", p.Name(), p.Verdict, p.Detail); p.Verdict != smoke.Passed {
			t.Errorf("unbroken: %s: %s: %s", p.Name(), p.Verdict, p.Detail)
		}
	}
	all, err := broken.All()
	if err != nil {
		t.Fatal(err)
	}
	record := newBrokenRecord(t, "-run TestBrokenIK ./internal/cli -args -broken-ik "+*brokenIK)
	for _, v := range all {
		if v.Fix != "prefill-reserve" || !v.Fits(pin.Build) || !strings.Contains(v.ID(), *brokenOnly) {
			continue
		}
		began := time.Now()
		k := kill{Tag: *brokenIK, Device: "sim", Variant: v.ID(), Want: v.Fault}
		for _, p := range proofs(v.ID()) {
			if p.Patched == nil || k.Killed || !v.Noticed(p.Patched.Checks[0].Name, p.Case) {
				continue
			}
			c := p.Patched.Checks[0]
			k.judge(smoke.ProofCheck{
				Check: spec.Check{Name: c.Name}, Case: p.Case, Fault: p.Fault,
				Same: p.Case == "not asked",
			}, c)
			if p.Verdict == smoke.Passed {
				k.Killed = false
			}
		}
		k.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
		record.Kills = append(record.Kills, k)
		if t.Logf("%s: killed %v by %s: %q: %s (%v s)", k.Variant, k.Killed, k.Check, k.Fault, k.Detail,
			k.Seconds); !k.Killed {
			t.Errorf("%s is not noticed: %q, want %s: %s", k.Variant, k.Fault, k.Want, k.Detail)
		}
	}
	record.finish(t)
}

// pinnedTags takes a list of tags apart, each of which recipes/tags.lock must pin.
func pinnedTags(list string) ([]string, error) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		return nil, err
	}
	tags := strings.Fields(list)
	if len(tags) == 0 {
		return nil, errors.New("-broken-tags names no tag")
	}
	for _, tag := range tags {
		if repo.Lock[spec.LlamaCpp][tag].Tree == "" {
			return nil, fmt.Errorf("-broken-tags: recipes/tags.lock does not pin %q; take tags with blanks between them, "+
				"such as \"b8390 b9842\"", tag)
		}
	}
	return tags, nil
}

// A wrong list of tags is told before anything is built.
func TestPinnedTags(t *testing.T) {
	for list, want := range map[string]string{
		"b8390": "", " b8390  v0.5.0 ": "",
		" ": "names no tag", "b8390,b9842": `does not pin "b8390,b9842"`, "b8390 b1": `"b1"`, "v0.6.0": `"v0.6.0"`,
		"../x": `"../x"`, "--help": `"--help"`,
	} {
		if _, err := pinnedTags(list); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// smallBuild compiles llama-server alone, for one kind of processor and hardly optimized:
// what is judged is in the device's library.
func smallBuild(t *testing.T, dist, tag string) subject {
	t.Helper()
	self, err := exec.LookPath("llpatch")
	if err != nil {
		t.Fatal(err)
	}
	declarations := filepath.Join(dist, "declarations")
	sh(t, "../..", fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s && cp -r buildenv patches recipes toolchains %[1]s",
		quoted(declarations)))
	recipe := filepath.Join(declarations, "recipes", "linux-cpu.toml")
	text, err := os.ReadFile(recipe)
	if err != nil {
		t.Fatal(err)
	}
	for old, small := range map[string]string{
		`programs  = ["llama-server", "llama-cli", "llama-bench", "llama-quantize"]`: `programs  = ["llama-server"]`,
		"GGML_CPU_ALL_VARIANTS = true": "GGML_CPU_ALL_VARIANTS = false\n" + `CMAKE_CXX_FLAGS_RELEASE = "-O0 -DNDEBUG"` +
			"\n" + `CMAKE_C_FLAGS_RELEASE = "-O2 -DNDEBUG"`,
	} {
		if strings.Count(string(text), old) != 1 {
			t.Fatalf("%s has no line %s", recipe, old)
		}
		text = []byte(strings.Replace(string(text), old, small, 1))
	}
	if err := os.WriteFile(recipe, text, 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-C", declarations, "--out", dist, "build", tag, "linux-cpu", "--locked"}
	if *brokenSource != "" {
		args = append(args, "--source", *brokenSource)
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), self, args...)
	c.Env = append(os.Environ(), "LLPATCH_CACHE="+filepath.Join(dist, "cache"))
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		t.Fatalf("llpatch %v: %v", args, err)
	}
	dir := filepath.Join(dist, tag, "linux-cpu")
	var built chain.Built
	readJSON(t, filepath.Join(dir, "artifacts.json"), &built)
	var patched struct{ Pin struct{ Build int } }
	readJSON(t, filepath.Join(dir, "patched.json"), &patched)
	return subject{
		tag: tag, src: filepath.Join(dir, "src"), bin: filepath.Join(built.Artifacts.Dir, "bin"), dir: dir,
		build: patched.Pin.Build, fixes: repository(t),
	}
}
