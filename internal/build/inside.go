package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// RootFact is the build root that a plan's commands run in.
type RootFact struct {
	Name   string `json:"name"`   // of the buildenv
	Digest string `json:"digest"` // of what the root holds
	Dir    string `json:"dir"`    // where it lies, on this machine
}

// question is what ProbeInside asks of llpatch in the root.
type question struct {
	Toolchain spec.Toolchain `json:"toolchain"`
	Name      string         `json:"name"` // of the recipe; the rest is what Probe reads of it
	Backends  []string       `json:"backends"`
	Headers   []string       `json:"headers"`
	CUDA      *spec.CUDA     `json:"cuda"`
	HIP       *spec.HIP      `json:"hip"`
}

func ask(tc spec.Toolchain, rec spec.Recipe) question {
	q := question{Toolchain: tc, Name: rec.Name, Backends: rec.Backends, CUDA: rec.Verify.CUDA, HIP: rec.Verify.HIP}
	for _, o := range rec.Optional {
		q.Headers = append(q.Headers, o.Header)
	}
	return q
}

func (q question) recipe() spec.Recipe {
	rec := spec.Recipe{Name: q.Name, Backends: q.Backends, Verify: spec.Verify{CUDA: q.CUDA, HIP: q.HIP}}
	for _, h := range q.Headers {
		rec.Optional = append(rec.Optional, spec.Optional{Header: h})
	}
	return rec
}

// answer is what comes back: facts, or one of Probe's errors.
type answer struct {
	Facts   Facts         `json:"facts"`
	Missing *MissingTools `json:"missing,omitempty"`
	Toolkit *BadToolkit   `json:"toolkit,omitempty"`
	Fault   *Fault        `json:"fault,omitempty"`
	Other   string        `json:"other,omitempty"`
}

// InsideCommand is the argument with which ProbeInside starts llpatch in the root;
// it must then call AnswerProbe with its standard input and output.
const InsideCommand = "probe-inside"

// AnswerProbe is the side of ProbeInside that runs in the root.
func AnswerProbe(ctx context.Context, in io.Reader, out io.Writer) error {
	var q question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("%s is for llpatch itself: %w", InsideCommand, err)
	}
	var a answer
	var err error
	if a.Facts, err = look(ctx, q.Toolchain, q.recipe()); err != nil {
		switch {
		case errors.As(err, &a.Missing), errors.As(err, &a.Toolkit), errors.As(err, &a.Fault):
		default:
			a.Other = err.Error()
		}
	}
	return json.NewEncoder(out).Encode(a)
}

func (a answer) err() error {
	switch {
	case a.Missing != nil:
		return a.Missing
	case a.Toolkit != nil:
		return a.Toolkit
	case a.Fault != nil:
		return a.Fault
	case a.Other != "":
		return errors.New(a.Other)
	}
	return nil
}

// ProbeInside is Probe for a build root: llpatch runs there once more and looks
// around, so that every path is as it is inside. Processors and memory are this
// machine's. The folders of CUDA's libraries are where they lie outside.
func ProbeInside(ctx context.Context, e *buildenv.Entered, tc spec.Toolchain, rec spec.Recipe) (Facts, error) {
	self := filepath.Join(e.Temp(), "llpatch")
	if err := copyProgram(self); err != nil {
		return Facts{}, fmt.Errorf("llpatch for buildenv %s: %w", e.Name, err)
	}
	text, err := json.Marshal(ask(tc, rec))
	if err != nil {
		return Facts{}, err
	}
	vars := []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	for _, name := range append([]string{"HOME"}, tc.Inherit...) {
		// TMPDIR names a folder of this machine; inside it is /tmp.
		if v, ok := os.LookupEnv(name); ok && name != "TMPDIR" {
			vars = append(vars, name+"="+v)
		}
	}
	c, err := e.Wrap(run.Cmd{
		Argv: []string{"/tmp/llpatch", InsideCommand}, Env: vars, Stdin: bytes.NewReader(text), Timeout: 10 * time.Minute,
	})
	if err != nil {
		return Facts{}, err
	}
	out, err := run.Output(ctx, c)
	if err != nil {
		return Facts{}, fmt.Errorf("look around in buildenv %s: %w", e.Name, err)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		return Facts{}, fmt.Errorf("look around in buildenv %s: %w", e.Name, err)
	}
	f := a.Facts
	f.Cores, f.MemoryMiB = runtime.GOMAXPROCS(0), FreeMemory()
	f.Root = &RootFact{Name: e.Name, Digest: e.Digest, Dir: filepath.Dir(e.Root)}
	for _, libs := range [][]string{f.CUDA.Libs, f.HIP.Libs} {
		for i := range libs {
			libs[i] = filepath.Join(e.Root, libs[i])
		}
	}
	// sccache's server would be out of reach, as every network is.
	if filepath.Base(f.Launcher) != "ccache" || !canCache(f.Env) {
		f.Launcher = ""
	}
	return f, a.err()
}

func copyProgram(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return regular.Copy(context.Background(), self, to, 0o755)
}

// canCache reports whether ccache can write into its folder.
func canCache(vars map[string]string) bool {
	folders := cacheFolders(vars)
	if len(folders) == 0 {
		return false
	}
	f, err := os.CreateTemp(folders[0], ".llpatch-")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}

// cacheFolders are where ccache keeps its files and its settings, made if need
// be: inside it finds them at the same places.
func cacheFolders(vars map[string]string) []string {
	or := func(v, below string) string {
		if v != "" || vars["HOME"] == "" {
			return v
		}
		return filepath.Join(vars["HOME"], below)
	}
	cache := vars["CCACHE_DIR"]
	if cache == "" {
		// ccache's own order of places.
		cache = or("", ".ccache")
		if st, err := os.Stat(cache); err != nil || !st.IsDir() {
			cache = or(vars["XDG_CACHE_HOME"], ".cache")
			if cache != "" {
				cache = filepath.Join(cache, "ccache")
			}
		}
	}
	if cache == "" || os.MkdirAll(cache, 0o755) != nil {
		return nil
	}
	folders := []string{filepath.Clean(cache)}
	settings := filepath.Join(or(vars["XDG_CONFIG_HOME"], ".config"), "ccache")
	if st, err := os.Stat(settings); err == nil && st.IsDir() && filepath.IsAbs(settings) {
		folders = append(folders, settings)
	}
	return folders
}

// Where a plan's source and build folder are in a build root, wherever they lie
// outside (ADR 10): nvcc puts a hash of the source's path into what it makes, and compiler caches
// look at paths too.
const (
	InsideSource  = "/llpatch/src"
	InsideDir     = "/llpatch/build"
	InsideLibrary = "/llpatch/library"
)

// library is the folder of the toolchain's library as a plan's commands see it.
func (in Input) library() string {
	if in.Facts.Root != nil {
		return InsideLibrary
	}
	return in.Facts.Library.Dir
}

// source and dir are the plan's folders as its commands see them.
func (p Plan) source() string {
	switch {
	case p.Root != nil:
		return InsideSource
	case p.Remote != nil:
		return p.Remote.Dir + "/src"
	}
	return p.Source
}

func (p Plan) dir() string {
	switch {
	case p.Root != nil:
		return InsideDir
	case p.Remote != nil:
		return p.Remote.Dir + "/build"
	}
	return p.Dir
}

// Folders are the source and the build folder, and that of the toolchain's library, for a
// build root.
func (p Plan) Folders() []buildenv.Folder {
	folders := []buildenv.Folder{{Outside: p.Source, Inside: InsideSource}, {Outside: p.Dir, Inside: InsideDir}}
	if p.Library.Dir != "" {
		folders = append(folders, buildenv.Folder{Outside: p.Library.Dir, Inside: InsideLibrary})
	}
	return folders
}

// insideFolders are what a plan's commands need of this machine.
func (p Plan) insideFolders() []buildenv.Folder {
	folders := p.Folders()
	if !strings.Contains(strings.Join(p.Steps[0].Argv, " "), "_COMPILER_LAUNCHER=") {
		return folders
	}
	vars := map[string]string{}
	for _, kv := range p.Steps[0].Env {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	return append(folders, buildenv.Same(cacheFolders(vars)...)...)
}

// enter puts one of the plan's commands into its root.
func (b *builder) enter(c run.Cmd) (run.Cmd, error) {
	switch root := b.plan.Root; {
	case root == nil:
		return c, nil
	case b.o.Inside == nil || b.o.Inside.Digest != root.Digest:
		return c, fmt.Errorf("the plan is for buildenv %s with digest %s, and that is not open", root.Name, root.Digest)
	}
	if _, ok := b.plan.Tools["llpatch"]; ok {
		if err := copyProgram(filepath.Join(b.o.Inside.Temp(), "llpatch")); err != nil {
			return c, fmt.Errorf("llpatch for buildenv %s: %w", b.plan.Root.Name, err)
		}
	}
	return b.o.Inside.Wrap(c, b.plan.insideFolders()...)
}
