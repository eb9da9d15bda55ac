package build

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's object ids, not a signature
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
)

// BoxScript is what a plan's PowerShell script needs besides the plan.
type BoxScript struct {
	Files   []SourceFile // of the patched source, without what is not written
	DiskMiB int64        // room that a build takes; 0: not known
}

// SourceFile is a file of the source.
type SourceFile struct {
	Path string // with slashes
	Blob string // git object id
}

// PowerShell writes the plan as a script for Windows PowerShell 5.1 that finds Visual
// Studio and the tools, checks the source file by file, and compiles it. It is ASCII
// alone, and needs no llpatch and no git.
func (p Plan) PowerShell(w io.Writer, s BoxScript) error {
	if len(p.Steps) != 2 || p.Box == nil {
		return fmt.Errorf("plan %s %s: it is not for a Windows machine", p.Tag, p.Target)
	}
	if err := checkBoxNames(s.Files); err != nil {
		return fmt.Errorf("plan %s %s: the source cannot lie on a Windows machine: %w", p.Tag, p.Target, err)
	}
	d := boxData{Plan: p, Script: s}
	vars := []variable{{"Source", p.Source}, {"Build", p.Dir}}
	if p.Remote != nil {
		vars = []variable{{"Source", p.source()}, {"Build", p.dir()}}
	}
	slices.SortStableFunc(vars, func(a, b variable) int { return len(b.value) - len(a.value) })
	for _, role := range slices.Sorted(maps.Keys(p.Box.Programs)) {
		if role == "cc" || role == "cxx" {
			continue // Visual Studio's own, found by their name
		}
		t := p.Box.Programs[role]
		d.Tools = append(d.Tools, boxTool{Role: role, Tool: t})
		if role != "cmake" && role != "ninja" { // no option names those by their path
			vars = append(vars, variable{"tool[" + psQuote(role) + "]", t.Names[0]})
		}
	}
	for _, kv := range p.Steps[0].Env {
		k, v, _ := strings.Cut(kv, "=")
		d.Env = append(d.Env, variableDefault{k, v})
	}
	for _, a := range p.Steps[0].Argv[1:] {
		d.Config = append(d.Config, psWords(a, vars))
	}
	d.Files = sourceList(s.Files)
	var b bytes.Buffer
	if err := boxTemplate.Execute(&b, d); err != nil {
		return err
	}
	if i := bytes.IndexFunc(b.Bytes(), func(r rune) bool { return r > '~' }); i >= 0 {
		return fmt.Errorf("plan %s %s: the script has a letter that is not ASCII: %q", p.Tag, p.Target,
			b.Bytes()[i:min(b.Len(), i+20)])
	}
	_, err := w.Write(b.Bytes())
	return err
}

type boxData struct {
	Plan   Plan
	Script BoxScript
	Tools  []boxTool
	Env    []variableDefault
	Config []string
	Files  string
}

type boxTool struct {
	Role string
	spec.Tool
}

// BoxFact is what a plan for a Windows machine takes from its toolchain.
type BoxFact struct {
	Toolchain    string               `json:"toolchain"`
	VisualStudio int                  `json:"visual_studio"` // as it is sold: 2019
	Programs     map[string]spec.Tool `json:"programs"`      // by role: the script finds them
	JobMiB       int64                `json:"job_mib"`
}

// boxFact is nil for a toolchain of another system.
func boxFact(tc spec.Toolchain) *BoxFact {
	if tc.VisualStudio == 0 {
		return nil
	}
	return &BoxFact{Toolchain: tc.Name, VisualStudio: tc.VisualStudio, Programs: tc.Programs, JobMiB: tc.JobMiB}
}

// studioVersions are the versions that Visual Studio's installer knows (Microsoft's
// "Visual Studio 2019 release history" and its likes), and the first two numbers of the
// compilers' tool set that came with each.
var studioVersions = map[int]struct{ Range, Toolset string }{
	2017: {"[15.0,16.0)", "14.1"}, 2019: {"[16.0,17.0)", "14.2"}, 2022: {"[17.0,18.0)", "14.3"},
}

// BoxFacts are the facts of a Windows machine that nobody has looked at: the script of
// the plan finds out the rest.
func BoxFacts(tc spec.Toolchain) Facts { return boxFacts(tc, remoteSays{}) }

// sourceList has a line for each file: its id and its path, whose letters outside of
// printable ASCII, quotes and percent signs are escaped as in a URL.
func sourceList(files []SourceFile) string {
	lines := make([]string, len(files))
	for i, f := range files {
		segments := strings.Split(f.Path, "/")
		for j, s := range segments {
			segments[j] = strings.ReplaceAll(url.PathEscape(s), "'", "%27")
		}
		lines[i] = f.Blob + " " + strings.Join(segments, "/")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[41:], b[41:]) })
	return strings.Join(lines, "\n")
}

// sourceFiles lists the files below a folder that a checkout wrote, for Windows.
func sourceFiles(ctx context.Context, dir string) ([]SourceFile, error) {
	var files []SourceFile
	err := walkSource(ctx, dir, func(file, name string, d fs.DirEntry) error {
		if d.Type()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link, which Windows lets not everybody make", name)
		}
		data, err := regular.ReadFile(file)
		if err != nil {
			return err
		}
		files = append(files, SourceFile{Path: name, Blob: blobID(data)})
		return nil
	})
	return files, err
}

// blobID is git's object id of a file's content.
func blobID(data []byte) string {
	h := sha1.New() //nolint:gosec // as above
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(data))
	_, _ = h.Write(data) // never fails
	return hex.EncodeToString(h.Sum(nil))
}

//go:embed plan.ps1.tmpl
var boxText string

var boxTemplate = template.Must(template.New("plan.ps1").Funcs(template.FuncMap{
	"q": psQuote,
	"list": func(words []string) string {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = psQuote(w)
		}
		return "@(" + strings.Join(quoted, ", ") + ")"
	},
	"plain": func(s string) string { // for a comment
		return strings.TrimSuffix(strings.TrimPrefix(strconv.QuoteToASCII(s), `"`), `"`)
	},
	"join":     func(w []string) string { return strings.Join(w, ", ") },
	"lines":    func(w []string) string { return strings.Join(w, ",\n\t") },
	"versions": func(year int) string { return studioVersions[year].Range },
	"toolset":  func(year int) string { return studioVersions[year].Toolset },
}).Parse(boxText))

// msvc reports whether a toolchain is Visual Studio's on a Windows machine.
func msvc(tc spec.Toolchain) bool { return tc.VisualStudio != 0 }

// boxEnv is what the script sets; the rest is Visual Studio's and the machine's own.
func boxEnv(in Input) []string {
	env := map[string]string{
		"GIT_DIR":           "NUL", // as in planEnv
		"NINJA_STATUS":      ninjaStatus,
		"SOURCE_DATE_EPOCH": strconv.FormatInt(in.Time.Unix(), 10),
		"VSLANG":            "1033", // messages in English
	}
	maps.Copy(env, in.Toolchain.Env)
	if flags := in.Recipe.CUDAFlags; len(flags) > 0 {
		env["CUDAFLAGS"] = strings.TrimSpace(env["CUDAFLAGS"] + " " + strings.Join(flags, " "))
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
