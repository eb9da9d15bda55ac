package build

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/spec"
)

// boxInput is a plan's input for a Windows machine.
func boxInput(t *testing.T, target, toolchain, name string) Input {
	t.Helper()
	in := inputFor(t, target, name)
	in.Toolchain = repo(t).Toolchains[toolchain]
	if in.Toolchain.VisualStudio == 0 {
		t.Fatalf("no toolchain %s", toolchain)
	}
	in.Facts = BoxFacts(in.Toolchain)
	return in
}

var boxFiles = []SourceFile{
	{"src/a b.c", strings.Repeat("1", 40)},
	{"Z.h", strings.Repeat("3", 40)},
	{"it's 100% é 🦙.txt", strings.Repeat("2", 40)},
}

func powerShell(t *testing.T, p Plan, s BoxScript) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.PowerShell(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The scripts of real plans, in full; and that each says Windows 7 to every compiler.
func TestGoldenPowerShell(t *testing.T) {
	for file, in := range map[string]Input{
		"win7-cpu-b8390.ps1":            boxInput(t, "win7-cpu", "win7-x64-msvc", "b8390"),
		"win7-vxkex-cuda11.4-b8833.ps1": boxInput(t, "win7-vxkex-cuda11.4", "win7-x64-msvc-cuda", "b8833"),
	} {
		p := mustPlan(t, in)
		text := powerShell(t, p, BoxScript{Files: boxFiles, DiskMiB: in.Recipe.DiskMiB})
		golden.Check(t, filepath.Join("testdata", file), text)
		for _, want := range []string{
			"'CFLAGS', '/D_WIN32_WINNT=0x0601", "'CXXFLAGS', '/D_WIN32_WINNT=0x0601",
			"'NINJA_STATUS'", "-DCMAKE_C_COMPILER=cl", p.Digest, p.Tree,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", file, want)
			}
		}
		if strings.Contains(text, in.Source) || strings.Contains(text, "CMAKE_C_FLAGS") ||
			strings.Contains(text, "$ORIGIN") || strings.Contains(text, "file-prefix-map") {
			t.Errorf("%s holds what is for another compiler, or names a folder of this machine", file)
		}
		if _, ok := in.Toolchain.Programs["nvcc"]; ok && (!strings.Contains(text, "('-DCMAKE_CUDA_COMPILER=' + "+
			"$tool['nvcc'])") || !strings.Contains(text,
			"'CUDAFLAGS', '-D_WIN32_WINNT=0x0601 -DWINVER=0x0601 -DGGML_CUDA_POOL_TRIM_DEFAULT=1'")) {
			t.Errorf("%s does not lead CMake to nvcc", file)
		}
	}
	if err := mustPlan(t, realInput(t, "b8833")).PowerShell(&bytes.Buffer{}, BoxScript{}); err == nil ||
		!strings.Contains(err.Error(), "not for a Windows machine") {
		t.Errorf("a plan for Linux: %v", err)
	}
	// The digest does not hang on what the machine is called.
	in := boxInput(t, "win7-cpu", "win7-x64-msvc", "b8390")
	was := mustPlan(t, in).Digest
	in.Facts = boxFacts(in.Toolchain, remoteSays{cores: 12, memoryMiB: 40000})
	in.Facts.Remote = &RemoteFact{Name: "box", Dir: "C:/llpatch/b8390", OS: box.os}
	p := mustPlan(t, in)
	if p.Digest != was || p.Jobs != 12 {
		t.Errorf("digest %s, then %s; %d jobs", was, p.Digest, p.Jobs)
	}
	if text := powerShell(t, p, BoxScript{}); !strings.Contains(text, "'-S',\n\t$Source,\n\t'-B',\n\t$Build,") {
		t.Errorf("the script for a machine names its folders:\n%s", text)
	}
}

// parsePowerShell reads scripts with tree-sitter's grammar and returns where it does
// not take them; false where it is not here.
func parsePowerShell(t *testing.T, scripts ...string) ([]string, bool) {
	t.Helper()
	const program = `
import json, sys, tree_sitter, tree_sitter_powershell
parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
bad = []
for number, text in enumerate(json.load(sys.stdin)):
    def look(node):
        if node.type == "ERROR" or node.is_missing:
            bad.append("%d:%d:%d: %s" % (number, node.start_point[0] + 1, node.start_point[1] + 1, node.text.decode()[:80]))
        for child in node.children:
            look(child)
    look(parser.parse(text.encode()).root_node)
json.dump(bad, sys.stdout)
`
	in, err := json.Marshal(scripts)
	if err != nil {
		t.Fatal(err)
	}
	if exec.Command("python3", "-c", "import tree_sitter, tree_sitter_powershell").Run() != nil {
		return nil, false
	}
	c := exec.Command("python3", "-c", program)
	c.Stdin = bytes.NewReader(in)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	if err := json.Unmarshal(out, &bad); err != nil {
		t.Fatal(err)
	}
	return bad, true
}

// Every script is PowerShell to a parser, where there is one.
func TestPowerShellParses(t *testing.T) {
	scripts := []string{
		powerShell(t, mustPlan(t, boxInput(t, "win7-cpu", "win7-x64-msvc", "v0.5.0")), BoxScript{Files: boxFiles}),
		powerShell(t, mustPlan(t, boxInput(t, "win7-vxkex-cuda11.4", "win7-x64-msvc-cuda", "b8833")),
			BoxScript{Files: boxFiles, DiskMiB: 5}),
	}
	for _, command := range boxCommands() {
		scripts = append(scripts, decoded(t, command))
	}
	for _, s := range []string{"it's", "a `$b\" \\", "é🦙\n", "‘’", ""} {
		scripts = append(scripts, "$x = "+psQuote(s)+"\n")
	}
	bad, there := parsePowerShell(t, scripts...)
	if !there {
		t.Skip("NOT RUN: python3 has no tree_sitter and tree_sitter_powershell; make powershell fetches them")
	}
	if len(bad) > 0 {
		t.Errorf("not PowerShell: %q", bad)
	}
	if bad, _ = parsePowerShell(t, "if ($a { 'b }"); len(bad) == 0 {
		t.Error("the parser takes anything")
	}
}

// Whatever a toolchain calls its programs, none of it becomes a line of the script.
func TestPowerShellNames(t *testing.T) {
	in := boxInput(t, "win7-cpu", "win7-x64-msvc", "b8390")
	in.Toolchain.Programs = maps.Clone(in.Toolchain.Programs)
	cmake := in.Toolchain.Programs["cmake"]
	cmake.Names = []string{"cmake'\nInvoke-Odd"}
	in.Toolchain.Programs["cmake"] = cmake
	in.Toolchain.Programs["it's"] = spec.Tool{Names: []string{"odd\u2019\r\nInvoke-Odd"}}
	in.Facts = BoxFacts(in.Toolchain)
	text := powerShell(t, mustPlan(t, in), BoxScript{Files: boxFiles})
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "Invoke-Odd") || strings.ContainsRune(line, '\r') {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(text, `cmake'\nInvoke-Odd`) || !strings.Contains(text, "$tool['it''s']") {
		t.Error("the names are not there")
	}
	if bad, there := parsePowerShell(t, text); there && len(bad) > 0 {
		t.Errorf("%v", bad)
	}
}

// A source that Windows cannot hold as it is, is said to be so before anything is copied.
func TestBoxNames(t *testing.T) {
	p := mustPlan(t, boxInput(t, "win7-cpu", "win7-x64-msvc", "b8390"))
	for names, want := range map[string]string{
		"a/b c/aux2.c it's.txt con2/x+y": "",
		"a/x a/y b/x":                    "",
		"README Readme":                  `"README" and "Readme" are one to Windows`,
		"docs/a Docs/b":                  `"docs" and "Docs" are one to Windows`,
		"x/docs/a x/Docs":                `"x/docs" and "x/Docs" are one to Windows`,
		"X/a/b x/a/c":                    `"X/a" and "x/a" are one to Windows`,
		"\u00c9.txt \u00e9.txt":          "are one to Windows",
		"a/aux.c":                        `"a/aux.c" has a name that Windows gives no file`,
		"nul/a":                          `"nul" has a name that Windows gives no file`,
		"a:b":                            "that Windows gives no file",
		"a./b":                           `"a." has a name`,
	} {
		var files []SourceFile
		for name := range strings.FieldsSeq(names) {
			files = append(files, SourceFile{strings.ReplaceAll(name, "+", " "), strings.Repeat("1", 40)})
		}
		err := p.PowerShell(&bytes.Buffer{}, BoxScript{Files: files})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", names, err)
		}
	}
}

// boxCommands are all commands for a Windows machine, with long arguments.
func boxCommands() map[string]string {
	dir := "C:/Users/somebody with a long name/" + strings.Repeat("folder/", 8) + "b8390/win7-vxkex-cuda11.4"
	sum := strings.Repeat("0123456789abcdef", 4)
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("bin/ggml-cpu-sapphirerapids-%d.dll", i)
	}
	return map[string]string{
		"hello": box.hello(dir), "list": box.list(dir), "room": box.room(dir), "take": box.take(dir, "abcdefgh", sum),
		"step":    box.step(dir, Configure, sum, sum, 8),
		"outputs": box.outputs(dir), "give": box.give(dir, "abcdefgh", names), "tidy": box.tidy(dir, "abcdefgh"),
	}
}

func decoded(t *testing.T, command string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(command[strings.LastIndexByte(command, ' ')+1:])
	if err != nil {
		t.Fatal(err)
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = uint16(raw[2*i]) | uint16(raw[2*i+1])<<8
	}
	return string(utf16.Decode(units))
}

// cmd.exe and PowerShell read each command alike, and it fits into cmd.exe's line.
func TestBoxCommands(t *testing.T) {
	for name, command := range boxCommands() {
		if len(command) > 8191 { // Microsoft: "Command prompt line string limitation"
			t.Errorf("%s: %d letters", name, len(command))
		}
		if strings.Trim(command, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=-. ") != "" {
			t.Errorf("%s holds a letter that a shell may read: %s", name, command)
		}
		if !strings.Contains(decoded(t, command), "$a0 = 'C:/Users/somebody with a long name/") {
			t.Errorf("%s: %s", name, decoded(t, command))
		}
	}
}

// What is run on a Windows machine, in full: how PowerShell is called, and with what script.
func TestGoldenBoxCommands(t *testing.T) {
	dir, sum := "C:/llpatch/b8390", strings.Repeat("0123456789abcdef", 4)
	for name, command := range map[string]string{
		"hello": box.hello(dir), "list": box.list(dir), "room": box.room(dir), "take": box.take(dir, "abcdefgh", sum),
		"step":    box.step(dir, Compile, sum, sum, 8),
		"outputs": box.outputs(dir), "give": box.give(dir, "abcdefgh", []string{"bin/a.exe", "bin/b.dll"}),
		"tidy": box.tidy(dir, "abcdefgh"),
	} {
		call := command[:strings.LastIndexByte(command, ' ')]
		golden.Check(t, filepath.Join("testdata", "box", name+".ps1"), "# "+call+"\n"+decoded(t, command))
	}
}

// unquote reads what psQuote writes, by the rules of about_Quoting_Rules.
func unquote(t *testing.T, s string) string {
	t.Helper()
	s = strings.TrimSuffix(strings.TrimPrefix(s, "("), ")")
	var units []uint16
	for s != "" {
		switch {
		case strings.HasPrefix(s, "[char]0x"):
			n, err := strconv.ParseUint(s[8:12], 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			units, s = append(units, uint16(n)), s[12:]
		case s[0] == '\'':
			for s = s[1:]; s[0] != '\'' || strings.HasPrefix(s, "''"); s = s[1:] {
				if s[0] == '\'' {
					s = s[1:]
				}
				units = append(units, uint16(s[0]))
			}
			s = s[1:]
		default:
			t.Fatalf("no expression: %s", s)
		}
		s = strings.TrimPrefix(s, " + ")
	}
	return string(utf16.Decode(units))
}

func FuzzPSQuote(f *testing.F) {
	for _, s := range []string{
		"", "a b", "it's", "''", `a"b\`, "$HOME `x", "é", "🦙 llama", "‘x’", "\t\n", "a\nb'c",
		"(x)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.ContainsAny(s, "()") && (strings.HasPrefix(s, "(") || strings.HasSuffix(s, ")")) {
			return
		}
		q := psQuote(s)
		if got := unquote(t, q); got != s {
			t.Errorf("%q: %s is %q", s, q, got)
		}
		if strings.ContainsFunc(q, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q: %s is not ASCII", s, q)
		}
	})
}

func TestPSWords(t *testing.T) {
	vars := []variable{{"Build", "/a/b/build"}, {"Source", "/a/b"}, {"tool['nvcc']", "nvcc"}}
	for in, want := range map[string]string{
		"/a/b":                  "$Source",
		"/a/b/it's":             "([string]$Source + '/it''s')",
		"/a/b/build":            "$Build",
		"/a/bc":                 "'/a/bc'",
		"-DX=/a/b:/a/b/build/c": "('-DX=' + $Source + ':' + $Build + '/c')",
		"-DC=nvcc":              "('-DC=' + $tool['nvcc'])",
		"-DC=nvcc-wrapper":      "'-DC=nvcc-wrapper'",
		"":                      "''",
		"é":                     "('' + [char]0x00E9)",
	} {
		if got := psWords(in, vars); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// The ids in a script are git's.
func TestBlobID(t *testing.T) {
	c := exec.Command("git", "hash-object", "--stdin")
	c.Stdin = strings.NewReader("some\r\ntext")
	out, err := c.Output()
	if got := blobID([]byte("some\r\ntext")); err != nil || strings.TrimSpace(string(out)) != got {
		t.Errorf("got %s, git says %s, %v", got, out, err)
	}
	in := smallInput(t, t.TempDir())
	write(t, in.Source, map[string]string{".llpatch-checkout": "x", "sub/.llpatch": "y"})
	files, err := sourceFiles(t.Context(), in.Source)
	if err != nil || len(files) != len(small)+1 {
		t.Errorf("%v, %v", files, err)
	}
	if err := os.Symlink("nowhere", filepath.Join(in.Source, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := sourceFiles(t.Context(), in.Source); err == nil ||
		!strings.Contains(err.Error(), "link is a symbolic link") {
		t.Errorf("a link: %v", err)
	}
}

// A compiler that CMake found by its name is the one that was asked for.
func TestSameCompiler(t *testing.T) {
	for got, same := range map[string]bool{
		"C:/Program Files/VC/bin/cl.exe": true, "cl": true, "C:/x/nvcl.exe": false,
		"C:/x/cl.exe/y": false,
	} {
		if sameValue(got, "cl") != same {
			t.Errorf("%s: %v", got, !same)
		}
	}
	p := Plan{Options: []Option{{"CMAKE_C_COMPILER", "cl", ""}}}
	if err := p.checkOptions(nil, map[string]string{"CMAKE_C_COMPILER": "C:/VC/cl.exe"}); err != nil {
		t.Error(err)
	}
}

func TestBoxFault(t *testing.T) {
	in := boxInput(t, "win7-cpu", "win7-x64-msvc", "b8390")
	in.Facts.OS = "linux"
	if _, err := NewPlan(in); err == nil || !strings.Contains(err.Error(), "it runs on windows/amd64") {
		t.Errorf("%v", err)
	}
	in = boxInput(t, "win7-vxkex-cuda11.4", "win7-x64-msvc", "b8833")
	if _, err := NewPlan(in); err == nil || !strings.Contains(err.Error(), "it brings no program nvcc") {
		t.Errorf("%v", err)
	}
	for _, year := range spec.VisualStudios {
		if studioVersions[year].Range == "" || studioVersions[year].Toolset == "" {
			t.Errorf("Visual Studio %d: no version is known", year)
		}
	}
}

// Also llpatch on Windows makes such a plan, the same one: its own folders have a drive
// and backslashes.
func TestBoxPlanAnywhere(t *testing.T) {
	in := boxInput(t, "win7-cpu", "win7-x64-msvc", "b8390")
	in.Source, in.Dir = filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "build")
	p := mustPlan(t, in)
	kept, err := os.ReadFile(filepath.Join("testdata", "win7-cpu-b8390.ps1"))
	if err != nil {
		t.Fatal(err)
	}
	if got := powerShell(t, p, BoxScript{
		Files:   boxFiles,
		DiskMiB: in.Recipe.DiskMiB,
	}); got != strings.ReplaceAll(string(kept), "\r\n", "\n") {
		t.Errorf("another script than the kept one:\n%s", got)
	}
}
