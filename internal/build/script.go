package build

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/llpatch/llpatch/internal/run"
)

// Script is what a plan's script needs to make the source by itself.
type Script struct {
	URL     string        // git repository that has Ref; empty: the script asks for a source instead
	Ref     string        // refs/tags/b8833, or a full commit id
	Tree    string        // git tree id of the tag, before the patches
	Patches []ScriptPatch // in order
	// what a command is put behind to run in the plan's root, as env.Prefix gives it; empty: it has
	// none
	Enter []string
	Temp  string // the folder that is /tmp there
}

// ScriptPatch is one patch file, as `git apply` reads it.
type ScriptPatch struct {
	Name string
	Data []byte
}

// Script writes the plan as a POSIX shell script that needs git, CMake, Ninja
// and the compilers, and no llpatch. `sh plan.sh [SRC [BUILD]]` fetches and
// patches the source where SRC is not there, checks both tree ids, and compiles
// into BUILD: the same bytes as Run makes with the same compilers.
func (p Plan) Script(w io.Writer, s Script) error {
	if len(p.Steps) != 2 || len(s.Tree) < 40 {
		return fmt.Errorf("plan %s %s: a script needs the plan's steps and the tag's tree id", p.Tag, p.Target)
	}
	if (p.Root != nil) != (len(s.Enter) > 0) {
		return fmt.Errorf("plan %s %s: its script needs the way into its build root, and no other", p.Tag, p.Target)
	}
	d := scriptData{Plan: p, Script: s}
	for i, patch := range s.Patches {
		text, err := hereDoc(patch, i)
		if err != nil {
			return fmt.Errorf("plan %s %s: %w", p.Tag, p.Target, err)
		}
		d.Texts = append(d.Texts, text)
	}
	d.steps()
	var b bytes.Buffer
	if err := scriptTemplate.Execute(&b, d); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

type scriptData struct {
	Plan   Plan
	Script Script
	Texts  []hereText
	Tools  []variableDefault
	Env    []string
	Config []string
	Build  []string
	Ninja  string
	Enter  []string
	Root   string
}

type variableDefault struct{ Name, Value string }

type hereText struct{ File, End, Text string }

// hereDoc makes a patch fit for a quoted here-document, which keeps every byte
// but can hold no NUL and always ends with a line's end.
func hereDoc(p ScriptPatch, i int) (hereText, error) {
	switch {
	case bytes.IndexByte(p.Data, 0) >= 0:
		return hereText{}, fmt.Errorf("patch %s holds a NUL byte, which a script cannot", p.Name)
	case len(p.Data) == 0 || p.Data[len(p.Data)-1] != '\n':
		return hereText{}, fmt.Errorf("patch %s does not end with a line end", p.Name)
	}
	lines := strings.Split(string(p.Data), "\n")
	end := "END_OF_PATCH"
	for slices.Contains(lines, end) {
		end += "_"
	}
	return hereText{File: fmt.Sprintf("%04d.patch", i+1), End: end, Text: string(p.Data)}, nil
}

// steps puts variables where the machine's own paths stand.
func (d *scriptData) steps() {
	p := d.Plan
	vars := []variable{{"SRC", p.Source}, {"BUILD", p.Dir}}
	if p.Remote != nil {
		vars = []variable{{"SRC", p.source()}, {"BUILD", p.dir()}}
	}
	for _, t := range []struct{ name, role string }{
		{"CMAKE", "cmake"},
		{"NINJA", "ninja"},
		{"CC", "cc"},
		{"CXX", "cxx"},
		{"RC", "rc"},
		{"NVCC", "nvcc"},
	} {
		if path := p.Tools[t.role].Path; path != "" {
			vars = append(vars, variable{t.name, path})
			d.Tools = append(d.Tools, variableDefault{t.name, run.Quote(path)})
		}
	}
	if p.Root != nil {
		vars = append(vars, variable{"ENVROOT", p.Root.Dir}, variable{"ENVTMP", d.Script.Temp})
		d.Root = run.Quote(p.Root.Dir)
	}
	// A folder that lies in another one must be found first.
	slices.SortStableFunc(vars, func(a, b variable) int { return len(b.value) - len(a.value) })

	for _, kv := range p.Steps[0].Env {
		k, v, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(p.Inherited, k): // of the machine that runs the script
			d.Env = append(d.Env, "${"+k+"+"+k+`="$`+k+`"}`)
		case k == "PATH":
			d.Env = append(d.Env, `PATH="$TOOLS"`)
		case k == "CC" || k == "CXX":
			d.Env = append(d.Env, k+`="$`+k+`"`)
		default:
			d.Env = append(d.Env, k+"="+run.Quote(v))
		}
	}
	for _, a := range d.Script.Enter {
		d.Enter = append(d.Enter, words(a, vars))
	}
	for _, a := range p.Steps[0].Argv {
		// A compiler cache makes nothing else, and may be elsewhere or nowhere; the
		// CUDA toolkit is the one of $NVCC, whose folder is on the PATH.
		if name, _, _ := strings.Cut(a, "="); strings.HasSuffix(name, "_COMPILER_LAUNCHER") || name == "-DCUDAToolkit_ROOT" {
			continue
		}
		d.Config = append(d.Config, words(a, vars))
	}
	argv := p.Steps[1].Argv
	d.Ninja = words(argv[0], vars)
	for i, a := range argv {
		if i > 0 && argv[i-1] == "-j" {
			d.Build = append(d.Build, `"$JOBS"`)
			continue
		}
		d.Build = append(d.Build, words(a, vars))
	}
}

var scriptTemplate = template.Must(template.New("plan.sh").Funcs(template.FuncMap{
	"q":     run.Quote,
	"lines": func(w []string) string { return strings.Join(w, " \\\n\t") },
	"last":  func(i int, list []variableDefault) bool { return i == len(list)-1 },
	"list":  func(w []string) string { return strings.Join(w, ", ") },
}).Parse(`#!/bin/sh
# {{.Plan.Tag}} for {{.Plan.Target}}: fetches, patches and builds it without llpatch.
#
#   sh plan.sh [SRC [BUILD]]
#
# SRC is the patched source; where it is not there it is made. BUILD gets the
# programs in BUILD/bin. {{range $i, $t := .Tools}}{{if $i}}{{if last $i $.Tools}} and {{else}}, {{end}}{{end}}{{$t.Name}}{{end}} may be
# set to absolute paths, JOBS to a number, STEP to configure or build: only that.
# patched tree {{.Plan.Tree}}
# plan {{.Plan.Digest}}{{range .Plan.Off}}
# left out: {{.}}{{end}}
set -eu

SRC=${1:-{{printf "%s-%s" .Plan.Upstream .Plan.VersionCommit}}}
BUILD=${2:-{{printf "build-%s-%s" .Plan.Tag .Plan.Target}}}
{{range .Tools}}{{.Name}}=${ {{- .Name}}:-{{.Value}}}
{{end}}JOBS=${JOBS:-{{.Plan.Jobs}}}
TOOLS={{range .Tools}}${ {{- .Name}}%/*}:{{end}}/usr/bin:/bin

{{if .Enter}}# The steps run in this build root, whose paths the compilers' are.
ENVROOT=${ENVROOT:-{{.Root}}}
{{end}}die() {
	echo "plan.sh: $*" >&2
	exit 1
}

# Every step's whole environment.
clean() {
	env -i {{lines .Env}} \
{{- if .Enter}}
	{{lines .Enter}} \
{{- end}}
	"$@"
}

tmp=
part=
{{- if .Enter}}
ENVTMP=
{{- end}}
cleanup() {
{{- if .Enter}}
	if [ -n "$ENVTMP" ]; then rm -rf "$ENVTMP"; fi
{{- end}}
	if [ -n "$tmp" ]; then rm -rf "$tmp"; fi
	if [ -n "$part" ]; then rm -rf "$part"; fi
	tmp= part=
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
{{- if .Enter}}

[ -d "$ENVROOT/root/usr" ] || die "the build root $ENVROOT is not there: llpatch env create {{.Plan.Root.Name}} makes it, and ENVROOT may name another place"
lock=${ENVROOT%/*}/locks/${ENVROOT##*/}
if [ -e "$lock" ] && command -v flock >/dev/null; then
	exec 9<"$lock"
	flock -s 9 # llpatch env remove must wait
fi
{{- end}}

# git keeps its own files out of the source: llama.cpp would ask them for a version.
source_git() {
	GIT_DIR=$tmp/git GIT_WORK_TREE=$SRC GIT_INDEX_FILE=$tmp/index \
	git -c core.autocrlf=false -c core.safecrlf=false -c core.fileMode=true -c core.attributesFile=/dev/null "$@"
}

if [ ! -e "$SRC" ]; then
{{- if .Script.URL}}
	tmp=$(mktemp -d)
	rm -rf "$SRC.part"
	mkdir -p "$SRC.part"
	part=$(cd "$SRC.part" && pwd)
	SRC=$part
	git init -q --bare "$tmp/git"
	source_git fetch -q --depth 1 -- {{q .Script.URL}} {{q .Script.Ref}}
	tree=$(source_git rev-parse 'FETCH_HEAD^{tree}')
	[ "$tree" = {{.Script.Tree}} ] || die "{{.Plan.Tag}} has tree $tree, not {{.Script.Tree}}: it was moved, or this is another repository"
	source_git read-tree FETCH_HEAD
	source_git checkout-index -a -f -u
{{- range .Texts}}
	cat >"$tmp/{{.File}}" <<'{{.End}}'
{{.Text}}{{.End}}
	(cd "$SRC" && source_git apply --index --whitespace=nowarn "$tmp/{{.File}}")
{{- end}}
	tree=$(source_git write-tree)
	[ "$tree" = {{.Plan.Tree}} ] || die "the patched tree is $tree, not {{.Plan.Tree}}"
	SRC=${part%.part}
	mv "$part" "$SRC"
	part=
	cleanup
{{- else}}
	die "$SRC is not there. Make it: the tree {{.Script.Tree}} of {{.Plan.Tag}} with {{if .Plan.Series}}the fixes {{list .Plan.Series}}, which gives the tree {{.Plan.Tree}}{{else}}no fix{{end}}"
{{- end}}
fi
SRC=$(cd "$SRC" && pwd -P)
{{- with .Plan.Page}}

# The web page: its tree holds only the sources, which npm builds here.
page=$SRC/{{.Place.Dist}}
if [ ! -e "$page/index.html" ]; then
	command -v npm >/dev/null || die "the web page needs npm and Node ^20.19 or 22.12 and newer; or put its files into $page"
	mkdir "$SRC/.git" # else a .gitignore of a folder above decides what Tailwind reads
	(cd "$SRC/{{.Place.Sources}}" && npm ci --ignore-scripts && env {{range .Env}}{{q .}} {{end}}npm run build) >&2
	rmdir "$SRC/.git"
fi
rm -rf "$page/_gzip" # of a build before this one
sum=$(cd "$page" && find . -type f | sed 's|^\./||' | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum)
[ "${sum%% *}" = {{.SHA256}} ] || die "the web page in $page has the SHA-256 ${sum%% *}, not {{.SHA256}}"
find "$page" -type f -exec touch -d @{{.Time.Unix}} {} +
{{- end}}
mkdir -p "$BUILD"
BUILD=$(cd "$BUILD" && pwd -P)
case $SRC$BUILD{{if .Enter}}$ENVROOT{{end}} in
*[!A-Za-z0-9_./+,@%-]*) die "the folders $SRC and $BUILD must have plain names" ;;
esac
{{- if .Enter}}
ENVTMP=$(mktemp -d)
{{- end}}

cd "$SRC"
case ${STEP:=all} in
all | configure)
	clean {{lines .Config}}
	;;
esac
case $STEP in
all | build)
	clean {{lines .Build}}
	echo "$BUILD/bin"
	;;
targets | deps | cleandead) # what Ninja knows
	if [ "$STEP" = targets ]; then set -- targets all; else set -- "$STEP"; fi
	clean {{.Ninja}} -C "$BUILD" -t "$@"
	;;
configure) ;;
*) die "STEP is $STEP: it must be all, configure or build" ;;
esac
`))
