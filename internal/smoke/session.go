package smoke

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/wine"
)

// session is what the checks of one run share.
type session struct {
	o       Options
	report  *Report
	base    gguf.Model // Options.Model as it was given: a check may change it for itself
	current spec.Check
	side    side                  // whose programs run
	server  *server               // nil: none is running
	wine    *wine.Windows         // nil: programs run without it
	device  *device               // the current check's own, simulated; nil: it has none
	helps   map[string]string     // path of a program -> its --help
	models  map[gguf.Model]string // -> its file
	asked   map[string]string     // build and place -> why the build does not see the device there, or ""
	broken  map[string]string     // how a server is started -> the check that found it does not start
}

func newSession(o Options, r *Report) (*session, error) {
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, fmt.Errorf("programs: %w", err)
	}
	work, err := filepath.Abs(o.Work)
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	if o.Stock != "" {
		if o.Stock, err = filepath.Abs(o.Stock); err != nil {
			return nil, fmt.Errorf("stock programs: %w", err)
		}
	}
	o.Bin, o.Work = bin, work
	if len(o.Checks) == 0 {
		return nil, errors.New("the recipe names no smoke check")
	}
	cache := filepath.Join(work, "cache") // a model that an earlier run fetched would hide that this one fetches none
	if err := errors.Join(os.RemoveAll(cache), os.MkdirAll(cache, 0o755)); err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	old, err := fs.Glob(os.DirFS(work), "*.log")
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	for _, f := range old {
		// Logs are appended to, and an earlier run's lines would mislead.
		if err := os.Remove(filepath.Join(work, f)); err != nil {
			return nil, fmt.Errorf("work folder: %w", err)
		}
	}
	s := &session{
		o: o, report: r, base: o.Model,
		helps: map[string]string{}, models: map[gguf.Model]string{}, broken: map[string]string{}, asked: map[string]string{},
	}
	s.side = s.patched()
	return s, nil
}

// side is one of the two sets of programs.
type side struct {
	name string // patched or stock
	bin  string
}

func (s *session) patched() side { return side{"patched", s.o.Bin} }
func (s *session) stock() side   { return side{"stock", s.o.Stock} }

// program returns the path of a program of the build.
func (s *session) program(name string) (string, error) {
	if runtime.GOOS == "windows" || s.o.Wine != nil {
		name += ".exe"
	}
	path := filepath.Join(s.side.bin, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not in the %s build: %w", name, s.side.name, err)
	}
	return path, nil
}

// model returns the path of the seeded model in the given type, made for at
// least context tokens, and writes it the first time.
func (s *session) model(ctx context.Context, typ gguf.Type, context int) (string, error) {
	m := s.o.Model
	m.Type = typ
	m.Context = max(m.Context, context)
	if path := s.models[m]; path != "" {
		return path, nil
	}
	name := "model-" + strings.ToLower(typ.String())
	if context > s.o.Model.Context {
		name += fmt.Sprintf("-%d", context)
	}
	if m.Layers != s.base.Layers {
		name += fmt.Sprintf("-%d-layers", m.Layers)
	}
	if m.Experts != s.base.Experts {
		name += fmt.Sprintf("-%d-experts", m.Experts)
	}
	path := filepath.Join(s.o.Work, name+".gguf")
	info, err := gguf.WriteFile(ctx, path, m, s.o.Progress)
	if err != nil {
		return "", err
	}
	s.report.Models = append(s.report.Models, ModelInfo{Model: m, Info: info, Path: path})
	s.models[m] = path
	return path, nil
}

// env is what programs get: nothing is inherited, since LLAMA_ARG_* and GGML_*
// variables of the user's would change what is judged.
func (s *session) env() []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + s.o.Work,
		"LANG=C",
		"LLAMA_CACHE=" + filepath.Join(s.o.Work, "cache"),
	}
	if s.wine != nil {
		env = append(env, s.wine.Env()...)
	}
	env = append(env, s.o.Env...)
	switch s.o.deviceOf(s.current) {
	case spec.Sim:
		env = append(env, s.o.SimEnv...)
	case spec.Card:
		env = append(env, s.o.CardEnv...)
	default:
		env = append(env, s.o.HostEnv...)
	}
	for _, k := range slices.Sorted(maps.Keys(s.current.Env)) {
		env = append(env, k+"="+s.current.Env[k])
	}
	return env
}

// threads is how many threads a program gets: a tiny model gains nothing from
// more, and they only wait for one another.
func threads() int { return min(runtime.NumCPU(), 8) }
