package spec

import (
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/llpatch/llpatch/internal/buildenv"
)

// BuildenvFolder holds the buildenvs, each a folder with these files.
const (
	BuildenvFolder        = "buildenv"
	BuildenvFile          = "env.toml"
	BuildenvLock          = "packages.lock"
	BuildenvContainerfile = "Containerfile"
)

// Buildenv returns the buildenv of that name, or an error that lists them.
func (r *Repo) Buildenv(name string) (buildenv.Decl, error) {
	if d, ok := r.Buildenvs[name]; ok {
		return d, nil
	}
	return buildenv.Decl{}, &Unknown{
		What: "buildenv", Name: name, Known: sortedKeys(r.Buildenvs),
		List: "llpatch env list",
	}
}

var (
	packageRE         = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`) // Debian policy 5.6.7
	buildenvVersionRE = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)
)

func (l *loader) buildenvs() map[string]buildenv.Decl {
	all := map[string]buildenv.Decl{}
	entries, err := fs.ReadDir(l.fsys, BuildenvFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return all
	}
	if err != nil {
		l.fail(&Error{File: BuildenvFolder, Msg: "cannot be read: " + cause(err)})
	}
	for _, e := range entries {
		if e.IsDir() {
			if d, ok := l.env(path.Join(BuildenvFolder, e.Name())); ok {
				all[d.Name] = d
			}
		}
	}
	for _, name := range sortedKeys(all) {
		switch r, there := all[all[name].Runtime]; {
		case all[name].Runtime == "":
		case !there:
			l.fail(ErrorAt(l.fsys, path.Join(BuildenvFolder, name, BuildenvFile), "runtime", "there is no buildenv %q",
				all[name].Runtime))
		case r.Arch != all[name].Arch:
			l.fail(ErrorAt(l.fsys, path.Join(BuildenvFolder, name, BuildenvFile), "runtime",
				"buildenv %s is of %s, and this one of %s", r.Name, r.Arch, all[name].Arch))
		}
	}
	l.libraries(all)
	return all
}

// libraries gives each buildenv whose library is another one's what that one declares.
func (l *loader) libraries(all map[string]buildenv.Decl) {
	own := maps.Clone(all) // as declared: one that has another's has none to give
	for _, name := range sortedKeys(own) {
		d := own[name]
		if d.Library == nil || d.Library.Of == "" {
			continue
		}
		of := own[d.Library.Of]
		if of.Kind() != buildenv.Debian || of.Library == nil || of.Library.Of != "" {
			l.fail(ErrorAt(l.fsys, path.Join(BuildenvFolder, name, BuildenvFile), "library.of",
				"there is no buildenv %q of Debian's packages with a library of its own", d.Library.Of))
			continue
		}
		d.Library = of.Library
		all[name] = d
	}
}

func (l *loader) env(dir string) (buildenv.Decl, bool) {
	var d buildenv.Decl
	f := l.decode(path.Join(dir, BuildenvFile), &d)
	if f == nil {
		return d, false
	}
	d.Name = path.Base(dir)
	f.refuse(!wordRE.MatchString(d.Name), "",
		"%q is not a fit name for a buildenv: lower-case letters, digits, dots and hyphens", d.Name)
	f.required(map[string]string{"summary": d.Summary})
	switch d.Kind() {
	case buildenv.Debian:
		f.debian(d)
	case buildenv.Rust:
		f.library(*d.Library)
		f.alone(d)
		f.refuse(len(d.Holds) > 0 || d.RoomMiB != 0, "holds", "holds and room-mib are for archives and wheels")
		// it names its one package itself
		d.Lock = &buildenv.Lock{Kind: buildenv.Rust, Suite: d.Library.Version, Arch: d.Arch}
	default:
		f.archives(d)
	}
	f.limits(d.Verify)
	f.rootGlobs("exclude", d.Exclude)
	f.rootGlobs("keep", d.Keep)
	for _, from := range sortedKeys(d.Links) {
		f.refuse(!rootPath(from) || d.Links[from] == "", "links",
			"link %q must be an absolute path in the root, and point somewhere", from)
	}
	for _, dir := range sortedKeys(d.Gather) {
		from := d.Gather[dir]
		switch within := func(a, b string) bool { return strings.HasPrefix(a+"/", b+"/") }; {
		case !rootPath(dir) || !rootPath(from) || strings.Contains(from, ","):
			f.fail("gather", "%q = %q must be two folders of the root, absolute ones", dir, from)
		case within(dir, from) || within(from, dir):
			f.fail("gather", "%s and %s must lie beside each other", dir, from)
		case len(d.Unpack) == 0 && len(d.From) == 0:
			f.fail("gather", "gather takes what packages of unpack have, and unpack is empty")
		}
	}
	if f.bad {
		return d, false
	}
	return d, l.buildenvLock(path.Join(dir, BuildenvLock), &d)
}

// debian checks what is said of a root of Debian's packages.
func (f *file) debian(d buildenv.Decl) {
	for key, words := range map[string][]string{"suite": {d.Suite}, "arch": {d.Arch}, "components": d.Components} {
		f.refuse(len(words) == 0, key, "%s is empty", key)
		for _, w := range words {
			f.refuse(!wordRE.MatchString(w), key, "%q is not a word of Debian's for %s", w, key)
		}
	}
	f.packages("base", d.Base)
	f.packages("unpack", d.Unpack)
	f.from(d)
	// A buildenv of libraries alone is not built in.
	libraries := len(d.Base) == 0 && len(d.Programs) == 0
	f.refuse(len(d.Base) == 0 && (!libraries || len(d.Unpack) == 0), "base",
		"base is empty: name the packages that are wanted with all that they depend on")
	for _, p := range d.Unpack {
		f.refuse(slices.Contains(d.Base, p), "unpack", "package %s is in base as well", p)
	}
	for _, role := range sortedKeys(d.Programs) {
		p := d.Programs[role]
		f.refuse(!rootPath(p.Path), "program."+role+".path", "path %q must be absolute in the root", p.Path)
		f.refuse(!buildenvVersionRE.MatchString(p.Version), "program."+role+".version",
			"version %q must be numbers with dots between them", p.Version)
	}
	f.refuse(len(d.Programs) == 0 && !libraries, "program", "no program is promised: a root is proven by running one")
	switch l := d.Library; {
	case l == nil:
	case l.Of == "":
		f.library(*l)
	default:
		f.refuse(!reflect.DeepEqual(*l, buildenv.Library{Of: l.Of}), "library", "of says all of a library that is another "+
			"buildenv's, and this one says more")
	}
	f.refuse(len(d.Holds) > 0 || d.RoomMiB != 0, "holds", "holds and room-mib are for archives and wheels")
}

// from checks what is said of packages of other suites.
func (f *file) from(d buildenv.Decl) {
	owner := map[string]string{}
	for _, p := range slices.Concat(d.Base, d.Unpack) {
		owner[p] = "the root's own suite"
	}
	for _, suite := range sortedKeys(d.From) {
		key, from := "from."+suite, d.From[suite]
		f.refuse(!wordRE.MatchString(suite), key, "%q is not a word of Debian's for a suite", suite)
		f.refuse(suite == d.Suite, key, "%s is the root's own suite: its packages are named in base or unpack", suite)
		f.refuse(len(d.Base) == 0, key, "base is empty: packages of another suite are laid over a root")
		f.refuse(len(from.Components) == 0, key, "components is empty")
		for _, w := range from.Components {
			f.refuse(!wordRE.MatchString(w), key+".components", "%q is not a word of Debian's for components", w)
		}
		f.refuse(len(from.Unpack) == 0, key, "unpack is empty: name the packages that are taken of %s", suite)
		f.packages(key+".unpack", from.Unpack)
		for _, p := range from.Unpack {
			f.refuse(owner[p] != "", key+".unpack", "package %s is taken of %s as well", p, owner[p])
		}
		for _, p := range from.Unpack {
			owner[p] = suite
		}
	}
}

// library checks what is said of a library that is built in a root.
func (f *file) library(l buildenv.Library) {
	f.refuse(!libraryRE.MatchString(l.Name), "library.name",
		"name %q must be what the library calls itself, with its version, such as OpenSSL 3.5.5", l.Name)
	f.refuse(!fs.ValidPath(l.Header) || l.Header == ".", "library.header",
		"header %q must be what a recipe's optional feature looks for, such as openssl/ssl.h", l.Header)
	f.refuse(!crateRE.MatchString(l.Crate), "library.crate", "%q is not the name of a crate", l.Crate)
	f.refuse(!crateVersionRE.MatchString(l.Version), "library.version",
		"%q is not the version of a crate, such as 300.5.5+3.5.5", l.Version)
	f.refuse(!sha256RE.MatchString(l.SHA256), "library.sha256", "%q is not a SHA-256 in lower case", l.SHA256)
	f.refuse(!fs.ValidPath(l.Dir), "library.dir", "dir %q must be a folder of the crate", l.Dir)
	f.refuse(!fs.ValidPath(l.License) || l.License == ".", "library.license", "license %q must be a file in dir",
		l.License)
	f.refuse(len(l.Steps) == 0, "library.steps", "steps is empty: name the commands that build it")
	for _, argv := range l.Steps {
		f.refuse(len(argv) == 0 || !rootPath(argv[0]), "library.steps",
			"a step begins with a program, by its absolute path in the root, and this is %q", argv)
	}
}

var (
	libraryRE      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._+-]* [0-9][0-9A-Za-z._+-]*$`)
	crateRE        = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)
	crateVersionRE = regexp.MustCompile(`^[0-9]+(\.[0-9]+){2}(\+[0-9A-Za-z.-]+)?$`)
	sha256RE       = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

var (
	releaseRE   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)
	componentRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_]*$`)
	wheelRE     = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*==[0-9][0-9a-z.]*$`)
	platformRE  = regexp.MustCompile(`^[a-z0-9][a-z0-9_]*$`)
)

// alone refuses what a buildenv has no place for that is no root of Debian's packages.
func (f *file) alone(d buildenv.Decl) {
	for key, said := range map[string]bool{
		"suite": d.Suite != "", "components": len(d.Components) > 0, "base": len(d.Base) > 0, "unpack": len(d.Unpack) > 0,
		"program": len(d.Programs) > 0, "verify": d.Verify != buildenv.Limits{}, "runtime": d.Runtime != "",
		"from": len(d.From) > 0, "gather": len(d.Gather) > 0, "redist": d.Redist != nil && d.Wheels != nil,
		"library": d.Library != nil && d.Kind() != buildenv.Rust,
	} {
		f.refuse(said, key, "%s has no place in a buildenv of %s", key, d.Kind())
	}
	f.refuse(d.Arch != "amd64", "arch", "arch is %q; archives and wheels are known for amd64", d.Arch)
}

// archives checks what is said of a root of NVIDIA's archives or of Python's wheels.
func (f *file) archives(d buildenv.Decl) {
	f.alone(d)
	f.refuse(d.RoomMiB <= 0, "room-mib", "room-mib is %d; it must be a bound, in MiB, for what is unpacked", d.RoomMiB)
	f.refuse(len(d.Holds) == 0, "holds", "holds is empty: a root is proven by what it must have")
	for _, h := range d.Holds {
		f.refuse(!fs.ValidPath(h) || h == ".", "holds", "%q must be a path in the root, with no slash before it", h)
	}
	list := func(key string, names []string, re *regexp.Regexp, what string) {
		for i, n := range names {
			f.refuse(!re.MatchString(n), key, "%q is not %s", n, what)
			f.refuse(slices.Contains(names[:i], n), key, "%s stands here twice", n)
		}
	}
	if r := d.Redist; r != nil {
		if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			f.fail("redist.url", "url %q must be the folder of NVIDIA's archives, http or https", r.URL)
		}
		f.refuse(!releaseRE.MatchString(r.Release), "redist.release",
			"release %q must be numbers with dots between them", r.Release)
		f.refuse(len(r.Linux)+len(r.Windows) == 0, "redist", "it names no component, neither in linux nor in windows")
		list("redist.linux", r.Linux, componentRE, "the name of a component")
		list("redist.windows", r.Windows, componentRE, "the name of a component")
	}
	if w := d.Wheels; w != nil {
		f.refuse(!platformRE.MatchString(w.Platform), "wheels.platform",
			"platform %q must be one of pip's, such as win_amd64", w.Platform)
		f.refuse(len(w.Packages) == 0, "wheels.packages", "packages is empty")
		list("wheels.packages", w.Packages, wheelRE, "a package and its version, joined by ==")
	}
}

// buildenvLock reads a buildenv's lock; that there is none is not a fault before
// somebody asks for the root.
func (l *loader) buildenvLock(name string, d *buildenv.Decl) bool {
	data, err := readFile(l.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		l.fail(&Error{File: name, Msg: "cannot be read: " + cause(err)})
		return false
	}
	if d.Lock, err = buildenv.ParseLock(data); err != nil {
		bad := &buildenv.LockError{Msg: err.Error()}
		errors.As(err, &bad)
		l.fail(ErrorOn(name, data, bad.Line, "%s", bad.Msg))
		return false
	}
	return true
}

func (f *file) packages(key string, names []string) {
	for i, p := range names {
		f.refuse(!packageRE.MatchString(p), key, "%q is not the name of a Debian package", p)
		f.refuse(slices.Contains(names[:i], p), key, "package %s stands here twice", p)
	}
}

func (f *file) rootGlobs(key string, globs []string) {
	for _, g := range globs {
		f.refuse(strings.HasPrefix(g, "/") || !doublestar.ValidatePattern(g), key,
			"%q must be a pattern of paths in the root, with no slash before it", g)
	}
}

func rootPath(p string) bool { return path.IsAbs(p) && path.Clean(p) == p && p != "/" }
