package broken

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// Every variant is of a fix that is there, and named by it is a check that the fix's
// proof has on a device that the variant is for.
func TestAll(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	llama, ik := []int{8390, 8833, 9842, 10068, 10361}, []int{3836, 4840}
	for _, v := range all {
		i := slices.IndexFunc(repo.Fixes, func(f spec.Fix) bool { return f.ID == v.Fix })
		if i < 0 {
			t.Errorf("%s: there is no such fix", v.ID())
			continue
		}
		builds := llama
		if repo.Fixes[i].Upstream == spec.IkLlamaCpp {
			builds = ik // no build of llama.cpp that npm has is below
		}
		named := v.Check == Model && v.Fix == "graph-cache-lru"
		for _, build := range builds {
			checks := append(smoke.ProofChecks(repo.Fixes[i].Proof, build, false),
				smoke.HIPProofChecks(repo.Fixes[i].Proof, build)...)
			if repo.Fixes[i].Upstream == spec.IkLlamaCpp {
				checks = smoke.IKProofChecks(repo.Fixes[i].Proof, build)
			}
			named = named || v.Fits(build) && slices.ContainsFunc(checks, func(c smoke.ProofCheck) bool {
				return v.Noticed(c.Check.Name, c.Case)
			})
		}
		if !named {
			t.Errorf("%s: no build's proof has a check %s, case %q", v.ID(), v.Check, v.Case)
		}
		if !slices.Contains([]string{"", "sim", "sim-hip"}, v.Device) {
			t.Errorf("%s: device %s", v.ID(), v.Device)
		}
		if !slices.ContainsFunc(builds, v.Fits) {
			t.Errorf("%s is for none of the builds that are tried", v.ID())
		}
	}
}

// What does not fit, or is there already, is an error and changes nothing.
func TestIn(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(v Variant) bool { return v.Name == "trim-skipped" })
	v := all[i]
	const fix = "        if (trim) {\n            // Every idle buffer is too small. The larger ones were outgrown; " +
		"small ones serve other operations.\n" +
		"            release_idle(size/4);\n        }\n        void * ptr;\n"
	gone := strings.Replace(fix, "            release_idle(size/4);\n", "", 1)
	for name, tc := range map[string]struct{ before, after, want string }{
		"fits":       {fix, gone, ""},
		"twice":      {fix + fix, fix + fix, "it does not fit any more: "},
		"other text": {strings.Replace(fix, "size/4", "size/2", 1), "", "it does not fit any more: "},
		"there":      {gone, gone, "has hunk 1 already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, cudaFile)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tc.before), 0o644); err != nil {
				t.Fatal(err)
			}
			mend, err := v.In(dir)
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), v.ID())) {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			got, _ := os.ReadFile(file)
			if err != nil && string(got) != tc.before || err == nil && string(got) != tc.after {
				t.Errorf("%s", got)
			}
			if err != nil {
				return
			}
			if err := mend(); err != nil {
				t.Fatal(err)
			}
			if got, _ = os.ReadFile(file); string(got) != tc.before {
				t.Errorf("mended: %s", got)
			}
		})
	}
}
