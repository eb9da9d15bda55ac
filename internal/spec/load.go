package spec

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/buildenv"
)

// Repo is a loaded and valid set of declarations.
type Repo struct {
	FS         fs.FS // what they were read from: patch files are read through it
	Fixes      []Fix // in the order of patches/series
	Recipes    map[string]Recipe
	Toolchains map[string]Toolchain
	Buildenvs  map[string]buildenv.Decl // the buildenvs
	Sources    []Source
	Marks      map[string][]string // by upstream: what tells its trees from another's
	Advisories Advisories
	Lock       Lock
	Revisions  Revisions
	Pages      map[string][]PagePlace // by upstream
	PageTools  PageTools
	PageLock   PageLock
}

// Files of a set of declarations, below its root.
const (
	SeriesFile    = "patches/series"
	RevisionsFile = "patches/llpatch.lock"
	SourcesFile   = "recipes/sources.toml"
	LockFile      = "recipes/tags.lock"
)

// loader collects every error, so that one run shows all there is to mend.
type loader struct {
	fsys       fs.FS
	errs       []error
	ids        []string // of the series, whether their fix is valid or not
	toolchains []string // files, likewise
	studios    []string // names of those with visual-studio
	recipes    []string
}

// Load reads every declaration below fsys and checks it. The error joins one
// *Error per fault.
func Load(fsys fs.FS) (*Repo, error) {
	l := &loader{fsys: fsys}
	r := &Repo{FS: fsys, Recipes: map[string]Recipe{}, Toolchains: map[string]Toolchain{}}
	r.Fixes = l.fixes()
	r.Advisories = l.advisories()
	l.cures(r.Fixes, &r.Advisories)
	l.toolchains = l.glob("toolchains", ".toml")
	for _, name := range l.toolchains {
		if tc, ok := l.toolchain(name); ok {
			r.Toolchains[tc.Name] = tc
		}
	}
	var upstreams []Upstream
	l.recipes = l.glob("recipes", ".toml")
	for _, name := range l.recipes {
		if name == AdvisoriesFile {
			continue
		}
		if name == SourcesFile {
			upstreams = l.sources(r)
			continue
		}
		if rec, ok := l.recipe(name); ok {
			r.Recipes[rec.Name] = rec
		}
	}
	r.shared(upstreams)
	r.Buildenvs = l.buildenvs()
	for _, name := range sortedKeys(r.Toolchains) {
		if d := r.Buildenvs[r.Toolchains[name].Library]; r.Toolchains[name].Library != "" && d.Kind() != buildenv.Rust {
			l.fail(ErrorAt(fsys, path.Join("toolchains", name+".toml"), "library",
				"there is no buildenv %q that is a library alone", r.Toolchains[name].Library))
		}
	}
	for _, name := range sortedKeys(r.Recipes) {
		if from := r.Recipes[name].Bundle.Libraries; from != "" && r.Buildenvs[from].Name == "" {
			l.fail(ErrorAt(fsys, path.Join("recipes", name+".toml"), "bundle.libraries", "there is no buildenv %q", from))
		}
		for _, f := range r.Fixes {
			if f.OptIn && slices.Contains(r.Recipes[name].Fixes.IDs, f.ID) {
				l.fail(ErrorAt(fsys, path.Join("recipes", name+".toml"), "fixes",
					"%s is opt-in: no recipe takes it, --with %[1]s does", f.ID))
			}
		}
	}
	r.Lock = l.lock()
	r.PageLock = l.pageLock()
	r.Revisions = l.levels()
	if err := r.CheckBounds(); err != nil {
		l.fail(err)
	}
	if err := errors.Join(l.errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// Recipe returns the target of that name, or an error that lists the targets.
func (r *Repo) Recipe(name string) (Recipe, error) {
	if rec, ok := r.Recipes[name]; ok {
		return rec, nil
	}
	return Recipe{}, &Unknown{
		What: "target", Name: name, Known: slices.Sorted(maps.Keys(r.Recipes)),
		List: "llpatch targets",
	}
}

func (l *loader) fail(err error) {
	l.errs = append(l.errs, err)
}

func (l *loader) read(name string) ([]byte, bool) {
	data, err := readFile(l.fsys, name)
	if err != nil {
		l.fail(&Error{File: name, Msg: "cannot be read: " + cause(err)})
		return nil, false
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		l.fail(&Error{File: name, Line: 1, Col: 1, Msg: "starts with a byte order mark; save it as plain UTF-8"})
		return nil, false
	}
	return data, true
}

// readFile is fs.ReadFile for what may be no file: opening a named pipe would
// wait for somebody who writes to it.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	st, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() && !st.IsDir() { // reading a folder has its own error
		return nil, errors.New("it is not a regular file")
	}
	return fs.ReadFile(fsys, name)
}

// cause drops the operation and the path that fs errors carry: the message has the path already.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

func (l *loader) glob(dir, suffix string) []string {
	entries, err := fs.ReadDir(l.fsys, dir)
	if err != nil {
		l.fail(&Error{File: dir, Msg: "cannot be read: " + cause(err)})
		return nil
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names
}

// file is one TOML document with the places of its keys.
type file struct {
	l    *loader
	name string
	data []byte
	at   map[string]position
	bad  bool
}

// decode reads name into v; it returns nil when the document itself is wrong.
func (l *loader) decode(name string, v any) *file {
	data, ok := l.read(name)
	if !ok {
		return nil
	}
	if err := decodeTOML(name, data, v); err != nil {
		l.fail(err)
		return nil
	}
	return &file{l: l, name: name, data: data, at: positions(data)}
}

// fail reports a fault at a key, or at the nearest table above it that is there.
func (f *file) fail(key, format string, args ...any) {
	f.bad = true
	p, ok := f.at[key]
	for !ok && key != "" {
		cut := strings.LastIndexByte(key, '.')
		key = key[:max(cut, 0)]
		p, ok = f.at[key]
	}
	f.l.fail(errorAt(f.name, f.data, p, format, args...))
}

// refuse is fail where something is wrong.
func (f *file) refuse(wrong bool, key, format string, args ...any) {
	if wrong {
		f.fail(key, format, args...)
	}
}

func (f *file) required(values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		f.refuse(strings.TrimSpace(values[key]) == "", key, "%s is missing or empty", key)
	}
}

func (f *file) oneOf(key, value string, allowed ...string) {
	switch {
	case value == "":
		f.fail(key, "%s is missing or empty; it must be one of %s", key, strings.Join(allowed, ", "))
	case !slices.Contains(allowed, value):
		f.fail(key, "%s is %q; it must be one of %s", key, value, strings.Join(allowed, ", "))
	}
}

func upstreamOrDefault(s string) string {
	if s == "" {
		return LlamaCpp
	}
	return s
}
