package llpatch_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// setting is a variable that the fixes read, where its reading stands in a patch, and the
// program that prints what comes of it, twice.
type setting struct {
	variable string
	patches  string // a pattern
	// what is cut out of the added lines: a part ends with the first line that has no more indent
	// than its first
	parts  []string
	print  string // a C++ expression for printf's %s
	values []value
}

type value struct {
	text, want, warning string
}

const (
	neither = "is neither 0, off, false nor 1, on, true: it is off"
	noLimit = "is not a whole number: no limit is set"
)

var (
	onOrOff = []value{
		{"", "off", ""},
		{"0", "off", ""},
		{"off", "off", ""},
		{"Off", "off", ""},
		{"false", "off", ""},
		{"FALSE", "off", ""},
		{"1", "on", ""},
		{"on", "on", ""},
		{"ON", "on", ""},
		{"true", "on", ""},
		{"abc", "off", `="abc" ` + neither},
		{"2", "off", `="2" ` + neither},
		{"yes", "off", `="yes" ` + neither},
		{" 1", "off", `=" 1" ` + neither},
		{"00", "off", `="00" ` + neither},
		{"+1", "off", `="+1" ` + neither},
		{"0x1", "off", `="0x1" ` + neither},
		{"ｏｎ", "off", `="ｏｎ" ` + neither},
		{"\xff%s%n", "off", "=\"\xff%s%n\" " + neither},
		{strings.Repeat("on", 50_000), "off", neither},
	}
	numbers = []value{
		{"", "0", ""},
		{"0", "0", ""},
		{"off", "0", ""},
		{"False", "0", ""},
		{"1", "1", ""},
		{"64", "64", ""},
		{"18446744073709551615", "18446744073709551615", ""},
		{"99999999999999999999", "18446744073709551615", ""},
		{"abc", "0", `="abc" ` + noLimit},
		{"8G", "0", `="8G" ` + noLimit},
		{"-1", "0", `="-1" ` + noLimit},
		{"1.5", "0", `="1.5" ` + noLimit},
		{" 8", "0", `=" 8" ` + noLimit},
		{"007", "7", ""},
		{strings.Repeat("0", 50_000) + "7", "7", ""},
		{strings.Repeat("9", 50_000), "18446744073709551615", ""},
		{"+5", "0", `="+5" ` + noLimit},
		{"0x10", "0", `="0x10" ` + noLimit},
		{"1e3", "0", `="1e3" ` + noLimit},
		{"1,000", "0", `="1,000" ` + noLimit},
		{"٣", "0", `="٣" ` + noLimit},
		{"-99999999999999999999", "0", noLimit},
		{"%s%n", "0", `="%s%n" ` + noLimit},
	}
	trims = []value{
		{"", "grow", ""},
		{"0", "off", ""},
		{"off", "off", ""},
		{"OFF", "off", ""},
		{"false", "off", ""},
		{"grow", "grow", ""},
		{"Grow", "grow", ""},
		{"1", "grow", ""},
		{"on", "grow", ""},
		{"true", "grow", ""},
		{"ubatch", "grow", `="ubatch" is neither off nor grow: it is grow, this build's default`},
		{"abc", "grow", `="abc" is neither off nor grow: it is grow, this build's default`},
		{"8G", "grow", `="8G" is neither off nor grow`},
		{"2", "grow", `="2" is neither off nor grow`},
		{"grow ", "grow", `="grow " is neither off nor grow`},
		{"%s%n", "grow", `="%s%n" is neither off nor grow`},
	}
	// Upstream's own: any value but ours for off is on.
	unified = []value{
		{"", "on", ""},
		{"0", "off", ""},
		{"off", "off", ""},
		{"False", "off", ""},
		{"1", "on", ""},
		{"on", "on", ""},
		{"abc", "on", ""},
		{"2", "on", ""},
	}
)

const (
	word     = "static std::string ggml_cuda_env_word(const char * name) {"
	onSwitch = "static bool ggml_cuda_env_switch(const char * name) {"
)

var settings = []setting{
	{"GGML_CUDA_POOL_STATS", "ubatch-pool-purge/*", []string{word, onSwitch}, switchOf("GGML_CUDA_POOL_STATS"), onOrOff},
	{"GGML_CUDA_ALLOC_FALLBACK_MANAGED", "managed-fallback/*", nil, switchOf("GGML_CUDA_ALLOC_FALLBACK_MANAGED"), onOrOff},
	{"GGML_CUDA_POOL_USE_MANAGED", "managed-fallback/b*", nil, switchOf("GGML_CUDA_POOL_USE_MANAGED"), onOrOff},
	{
		"GGML_CUDA_POOL_TRIM", "ubatch-pool-purge/*",
		[]string{word, "static bool ggml_cuda_pool_trim() {"},
		`ggml_cuda_pool_trim() ? "grow" : "off"`, trims,
	},
	{
		"GGML_CUDA_GRAPH_CACHE_MAX", "graph-cache-lru/*",
		[]string{"static size_t ggml_cuda_graph_cache_max() {"},
		"std::to_string(ggml_cuda_graph_cache_max()).c_str()", numbers,
	},
	// The functions that these need are of the other fix.
	{
		"GGML_CUDA_MANAGED_MAX_MIB", "managed-fallback/*",
		[]string{"static const size_t max_mib = []() -> size_t {"},
		"std::to_string(max_mib).c_str()", numbers,
	},
	{
		"GGML_CUDA_ENABLE_UNIFIED_MEMORY", "managed-fallback/*",
		[]string{"static bool ggml_cuda_unified_memory() {"},
		`ggml_cuda_unified_memory() ? "on" : "off"`, unified,
	},
	{
		"LLAMA_PREFILL_RESERVE", "prefill-reserve/*",
		[]string{"static const bool prefill_reserve = [] {"},
		`prefill_reserve ? "on" : "off"`, onOrOff,
	},
}

// A switch is read once, so that a warning comes once.
const readOnce = `static const bool enabled = ggml_cuda_env_switch("`

func switchOf(name string) string {
	return "[] { " + readOnce + name + `"); return enabled; }() ? "on" : "off"`
}

// What a variable may say, in every patch that reads it: the patch's own lines, compiled
// alone and run. A value that says nothing is warned about once.
func TestSettings(t *testing.T) {
	t.Parallel()
	base, err := os.ReadFile("patches/ubatch-pool-purge/b7821.patch")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		files, err := filepath.Glob("patches/" + s.patches + ".patch")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", s.patches, err)
		}
		programs := map[string]string{} // text -> program: most variants have the same one
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(s.print, readOnce) && !strings.Contains(string(text), readOnce+s.variable+`");`) {
				t.Errorf("%s does not read %s once and as a switch", file, s.variable)
			}
			var parts string
			if strings.HasPrefix(s.patches, "managed-fallback") {
				parts = cut(t, "ubatch-pool-purge", base, word) + cut(t, "ubatch-pool-purge", base, onSwitch)
			}
			for _, p := range s.parts {
				parts += cut(t, file, text, p)
			}
			if programs[parts] == "" {
				programs[parts] = compileSetting(t, parts, s.print)
			}
			t.Run(s.variable+" "+strings.TrimPrefix(file, "patches/"), func(t *testing.T) {
				for _, v := range append(s.values, value{"unset", "", ""}) {
					cmd := exec.CommandContext(t.Context(), programs[parts])
					cmd.Env = []string{s.variable + "=" + v.text}
					if v.text == "unset" {
						cmd.Env, v.want = []string{}, s.values[0].want
						if s.variable == "GGML_CUDA_ENABLE_UNIFIED_MEMORY" {
							v.want = "off"
						}
					}
					var out, said bytes.Buffer
					cmd.Stdout, cmd.Stderr = &out, &said
					if err := cmd.Run(); err != nil {
						t.Fatalf("%q: %v", v.text, err)
					}
					if got := out.String(); got != v.want+"\n"+v.want+"\n" {
						t.Errorf("%q is %q, and was to be %q", v.text, got, v.want)
					}
					lines := strings.Count(said.String(), "\n")
					if !strings.Contains(said.String(), v.warning) || (lines != 0) != (v.warning != "") || lines > 1 {
						t.Errorf("%q: it says %q, and was to say %q once", v.text, said.String(), v.warning)
					}
					if lines == 1 && !strings.Contains(said.String(), s.variable) {
						t.Errorf("%q: the warning names no variable: %q", v.text, said.String())
					}
				}
			})
		}
	}
}

// cut returns a part of what a patch adds.
func cut(t *testing.T, file string, patch []byte, first string) string {
	t.Helper()
	var part strings.Builder
	indent := -1
	for line := range strings.Lines(string(patch)) {
		line, added := strings.CutPrefix(line, "+")
		bare := strings.TrimLeft(line, " ")
		if indent < 0 && (!added || !strings.HasPrefix(bare, first)) {
			continue
		}
		part.WriteString(line)
		if indent < 0 {
			indent = len(line) - len(bare)
		} else if bare != "\n" && bare[0] != '#' && len(line)-len(bare) <= indent {
			return part.String()
		}
	}
	t.Fatalf("%s adds no %q", file, first)
	return ""
}

func compileSetting(t *testing.T, parts, print string) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "setting.cpp"), filepath.Join(dir, "setting")
	text := `#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#define GGML_LOG_WARN(...) fprintf(stderr, __VA_ARGS__)
#define GGML_CUDA_LOG_WARN GGML_LOG_WARN
#define GGML_CUDA_POOL_LOG(level, ...) GGML_LOG_##level(__VA_ARGS__)
#define LLAMA_LOG_WARN GGML_LOG_WARN
#define GGML_CUDA_NAME "CUDA"
#define GGML_CUDA_POOL_TRIM_DEFAULT 1
` + parts + "static void show() {\n    puts(" + print + ");\n}\nint main() {\n    show();\n    show();\n}\n"
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "c++", "-std=c++17", "-Wall", "-Wno-unused-function", "-Werror", "-o",
		program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	return program
}
