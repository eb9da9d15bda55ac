//go:build real

package cli_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

var llamaBuild = flag.String("llama-build", "",
	"the build folder of a finished llama.cpp with GGML_BACKEND_DL, to break a kernel of")

// TestGivenBrokenKernel breaks a kernel in a build that is there already.
func TestGivenBrokenKernel(t *testing.T) {
	if *llamaBuild == "" {
		t.Skip("no -llama-build=DIR: only TestReal breaks a kernel, in the build that it makes")
	}
	brokenKernel(t, *llamaBuild)
}

var loadedVariant = regexp.MustCompile(`loaded CPU backend from (\S+)`)

// brokenKernel compiles one object of the CPU library that this machine loads
// with the smallest error that a float can have, and has same-tokens find it. A
// build that differs in nothing is not to be found.
func brokenKernel(t *testing.T, dir string) {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	copied, broken := filepath.Join(t.TempDir(), "copied"), filepath.Join(t.TempDir(), "broken")
	for _, to := range []string{copied, broken} {
		sh(t, dir, "cp -a "+quoted(bin)+" "+quoted(to))
	}
	m := loadedVariant.FindStringSubmatch(sh(t, dir, quoted(filepath.Join(bin, "llama-server"))+" --version 2>&1"))
	if m == nil {
		t.Fatal("the server does not say which CPU library it loads")
	}
	lib := filepath.Base(m[1])
	commands := strings.Split(strings.TrimSpace(sh(t, dir, "ninja -t commands bin/"+lib)), "\n")
	object := regexp.MustCompile(`-o (\S*` + regexp.QuoteMeta(strings.TrimSuffix(strings.TrimPrefix(lib, "lib"), ".so")) +
		`\.dir/ggml-cpu/ops\.cpp\.o) .*-c (\S+)`)
	var compile string
	var at []string
	for _, c := range commands {
		if at = object.FindStringSubmatch(c); at != nil {
			compile = c
			break
		}
	}
	if compile == "" {
		t.Fatalf("no command of %d makes ops.cpp.o of %s", len(commands), lib)
	}
	source := at[2]
	if !filepath.IsAbs(source) {
		source = filepath.Join(dir, source)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const right, wrong = "const float scale = 1.0f/sqrtf(mean + eps);", "const float scale = 1.0000001f/sqrtf(mean + eps);"
	if !strings.Contains(string(text), right) {
		t.Fatalf("%s has no %q", source, right)
	}
	work := t.TempDir()
	changed, made := filepath.Join(work, "ops.cpp"), filepath.Join(work, "ops.o")
	if err := os.WriteFile(changed, []byte(strings.ReplaceAll(string(text), right, wrong)), 0o644); err != nil {
		t.Fatal(err)
	}
	compile = strings.Replace(compile, "-o "+at[1], "-o "+quoted(made), 1)
	compile = strings.Replace(compile, "-c "+at[2], "-I"+quoted(filepath.Dir(source))+" -c "+quoted(changed), 1)
	// Its list of headers would be taken for that of the real object.
	compile = regexp.MustCompile(`-MF \S+`).ReplaceAllString(compile, "-MF "+quoted(filepath.Join(work, "ops.d")))
	sh(t, dir, compile)
	link := strings.Replace(commands[len(commands)-1], at[1], quoted(made), 1)
	sh(t, dir, strings.Replace(link, "-o bin/"+lib, "-o "+quoted(filepath.Join(broken, lib)), 1))

	for name, tc := range map[string]struct {
		bin  string
		want smoke.Verdict
	}{"the same": {copied, smoke.Passed}, "one kernel": {broken, smoke.Failed}} {
		t.Run(name, func(t *testing.T) {
			for _, model := range []string{"f16", "q8_0"} {
				r, err := smoke.Run(t.Context(), smoke.Options{
					Bin: tc.bin, Stock: bin, Work: t.TempDir(),
					Checks: []spec.Check{{Name: "same-tokens", Args: map[string]any{"model": model}}},
				})
				var failed *smoke.FailedChecks
				if r == nil || r.Checks[0].Verdict != tc.want || errors.As(err, &failed) != (tc.want == smoke.Failed) {
					t.Fatalf("%s: got %v, want %s", model, err, tc.want)
				}
				c := r.Checks[0]
				if tc.want == smoke.Failed && c.Fault != smoke.FaultTokens {
					t.Errorf("%s: fault %q", model, c.Fault)
				}
				t.Logf("%s: %s: %s", model, c.Verdict, c.Detail)
			}
		})
	}
}

// sh runs a shell command in a folder and returns what it printed.
func sh(t *testing.T, dir, command string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", command)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// quoted is a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
