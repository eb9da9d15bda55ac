package spec

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/llpatch/llpatch/internal/tag"
)

var (
	optionRE  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	programRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]*$`)
	dirRE     = regexp.MustCompile(`^(\$[A-Z_][A-Z0-9_]*)?/[^$]+$`)
	wordRE    = regexp.MustCompile(`^[a-z0-9][a-z0-9.]*(-[a-z0-9.]+)*$`)
)

func (l *loader) recipe(name string) (Recipe, bool) {
	var rec Recipe
	f := l.decode(name, &rec)
	if f == nil {
		return rec, false
	}
	rec.Name = strings.TrimSuffix(path.Base(name), ".toml")
	rec.Upstream = upstreamOrDefault(rec.Upstream)
	f.required(map[string]string{
		"summary": rec.Summary, "toolchain": rec.Toolchain, "os": rec.OS, "arch": rec.Arch,
		"backend": rec.Backend,
	})
	f.refuse(rec.Range.IsZero(), "range", "range is missing: the build numbers that this recipe can build")
	f.refuse(!wordRE.MatchString(rec.Name), "",
		"%q is not a fit name for a target: lower-case letters, digits, dots and hyphens", rec.Name)
	f.oneOf("upstream", rec.Upstream, LlamaCpp, IkLlamaCpp)
	for _, key := range []struct{ name, value string }{{"os", rec.OS}, {"arch", rec.Arch}, {"backend", rec.Backend}} {
		f.refuse(key.value != "" && !wordRE.MatchString(key.value), key.name,
			"%s %q does not fit into a file name", key.name, key.value)
	}
	if rec.Toolchain != "" && !slices.Contains(l.toolchains, path.Join("toolchains", rec.Toolchain+".toml")) {
		f.fail("toolchain", "toolchain %q has no file toolchains/%s.toml", rec.Toolchain, rec.Toolchain)
	}
	f.refuse(rec.Box != "" && !slices.Contains(l.studios, rec.Box), "box",
		"box %q is no toolchain with visual-studio in toolchains/", rec.Box)
	f.refuse(len(rec.Backends) == 0, "backends", "backends is empty: it says which fixes are compiled")
	for _, b := range rec.Backends {
		f.oneOf("backends", b, backends...)
	}
	f.refuse(len(rec.Programs) == 0, "programs", "programs is empty: name the CMake targets to build")
	for _, p := range rec.Programs {
		if !programRE.MatchString(p) || slices.Contains([]string{"all", "clean", "install", "test", "help"}, p) {
			f.fail("programs", "program %q is not the plain name of a CMake target that makes a program", p)
		}
	}
	if rec.DropInTarget != "" && (rec.DropInTarget == rec.Name ||
		!slices.Contains(l.recipes, path.Join("recipes", rec.DropInTarget+".toml"))) {
		f.fail("host", "host %q is no other recipe of recipes/", rec.DropInTarget)
	}
	f.globs("exclude", rec.Exclude)
	f.globs("bundle.files", rec.Bundle.Files)
	f.globs("bundle.licenses", rec.Bundle.Licenses)
	f.carry(rec.Bundle)
	if rec.Bundle.Format != "" {
		f.oneOf("bundle.format", rec.Bundle.Format, TarGz, Zip)
	}
	if rec.Wine != "" {
		f.oneOf("wine", rec.Wine, Win7)
	}
	if rec.OS != "" {
		f.oneOf("os", rec.OS, Linux, Win7)
	}
	// A fix for one system is chosen by os: a recipe that says another one than it
	// builds for would go without it, and nothing would tell.
	for _, w := range []struct {
		key   string
		there bool
	}{
		{"verify.pe", rec.Verify.PE != nil},
		{"wine", rec.Wine != ""},
		{"bundle.format", rec.Bundle.Format == Zip},
		{"bundle.start", rec.Bundle.Start != ""},
	} {
		f.refuse(w.there && rec.OS == Linux, w.key,
			"%s is for a recipe with os = %q, and this one has os = %q", w.key, Win7, rec.OS)
	}
	f.script("bundle.check", rec.Bundle.Check, scriptFor(rec.OS))
	f.script("bundle.start", rec.Bundle.Start, ".cmd")
	if c := rec.Cost; c != nil {
		f.refuse(c.Seconds <= 0 || c.ArchSeconds < 0 || c.Machine == "", "cost",
			"cost needs seconds, above 0, and the machine that they were measured on")
	}
	f.refuse(rec.DiskMiB < 0, "disk-mib",
		"disk-mib is %d; it must be the room in MiB that a release takes", rec.DiskMiB)
	f.fixList(&rec)
	for _, id := range sortedKeys(rec.Without) {
		switch {
		case !slices.Contains(f.l.ids, id):
			f.fail("without."+id, "fix %s is not in %s", id, SeriesFile)
		case !rec.Fixes.All:
			f.fail("without."+id, `without is for fixes = "all"; a list leaves out what it does not name`)
		case strings.TrimSpace(rec.Without[id]) == "":
			f.fail("without."+id, "without %s says no reason", id)
		}
	}
	for backend, flags := range map[string][]string{"cuda": rec.CUDAFlags, "hip": rec.HIPFlags} {
		f.refuse(len(flags) > 0 && !slices.Contains(rec.Backends, backend), backend+"-flags",
			"%[1]s-flags is for recipes that build the backend %[1]s, which backends does not name", backend)
	}
	f.options("cmake", rec.CMake)
	f.cmakeFor("cmake-for", rec.CMakeFor)
	for i, o := range rec.Optional {
		f.refuse(!optionRE.MatchString(o.Option) || o.Header == "" || o.Gives == "", fmt.Sprintf("optional[%d]", i),
			"optional needs option, header and gives")
	}
	f.verify(&rec)
	for i, c := range rec.Smoke {
		f.refuse(c.Name == "", fmt.Sprintf("smoke[%d]", i), "smoke check has no name")
		if !slices.Contains([]string{"", Host, Sim, Card}, c.Device) {
			f.fail(fmt.Sprintf("smoke[%d].device", i), "device of a smoke check is %q; it must be one of %s, %s, %s", c.Device,
				Host, Sim, Card)
		}
	}
	return rec, !f.bad
}

// globs checks patterns of paths below the tree.
func (f *file) globs(key string, patterns []string) {
	for _, g := range patterns {
		switch {
		case g == "" || strings.HasPrefix(g, "/") || slices.Contains(strings.Split(g, "/"), ".."):
			f.fail(key, "%q must be a path below the tree", g)
		case !doublestar.ValidatePattern(g):
			f.fail(key, "%q is not a pattern: a bracket or brace is not closed", g)
		}
	}
}

// carry checks what a recipe says of the toolkit's libraries in the bundle.
func (f *file) carry(b Bundle) {
	f.names("bundle.carry", b.Carry)
	if b.Runtime != "" {
		f.oneOf("bundle.runtime", b.Runtime, Thin, Full)
	}
	f.refuse(b.Runtime == Full && len(b.Carry) == 0, "bundle.runtime",
		"bundle.runtime is full and bundle.carry names no library, such as libcudart.so.*")
	f.refuse(b.Libraries != "" && len(b.Carry) == 0, "bundle.libraries",
		"bundle.libraries names a buildenv and bundle.carry no library of it")
}

// scriptFor is how the scripts in a bundle for a system end.
func scriptFor(system string) string {
	if system == Win7 {
		return ".cmd"
	}
	return ".sh"
}

// script checks that a script of a recipe's bundle is there.
func (f *file) script(key, name, ext string) {
	if name == "" {
		return
	}
	_, word, _ := strings.Cut(key, ".")
	if !programRE.MatchString(name) || path.Ext(name) != ext {
		f.fail(key, "%s %q is not the plain name of a %s file", word, name, ext)
	} else if _, err := script(f.l.fsys, name); err != nil {
		f.fail(key, "%s script %s", word, err)
	}
}

func (f *file) fixList(rec *Recipe) {
	switch v := rec.FixesValue.(type) {
	case nil:
		f.fail("fixes", `fixes is missing: "all", or a list of fixes`)
	case string:
		f.refuse(v != "all", "fixes", `fixes is %q; it must be "all" or a list of fixes`, v)
		rec.Fixes.All = true
	case []any:
		for _, e := range v {
			id, ok := e.(string)
			if !ok || !slices.Contains(f.l.ids, id) {
				f.fail("fixes", "fix %v is not in %s", e, SeriesFile)
				continue
			}
			rec.Fixes.IDs = append(rec.Fixes.IDs, id)
		}
	default:
		f.fail("fixes", `fixes must be "all" or a list of fixes`)
	}
}

func (f *file) options(key string, o Options) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !optionRE.MatchString(name) {
			f.fail(key+"."+name, "%q is not the name of a CMake option", name)
			continue
		}
		if _, err := OptionValue(o[name]); err != nil {
			f.fail(key+"."+name, "%s: %v", name, err)
		}
	}
}

// OptionValue returns the text of a typed CMake value: ON or OFF, the digits of
// a whole number, a string, or a list joined by semicolons.
func OptionValue(v any) (string, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return "ON", nil
		}
		return "OFF", nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case string:
		// A line break would end the cache entry that is read back.
		if strings.ContainsAny(v, "\n\r\x00") {
			return "", fmt.Errorf("value %q holds a line break", v)
		}
		return v, nil
	case []any:
		var parts []string
		for _, e := range v {
			s, err := OptionValue(e)
			if err != nil {
				return "", err
			}
			if strings.Contains(s, ";") {
				return "", fmt.Errorf("list entry %q holds a semicolon", s)
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, ";"), nil
	}
	return "", fmt.Errorf("value %v is neither true or false, a whole number, a string nor a list", v)
}

func (f *file) cmakeFor(key string, list []CMakeFor) {
	for i, c := range list {
		f.refuse(c.Range.IsZero(), fmt.Sprintf("%s[%d]", key, i), "cmake-for has no range")
		f.options(fmt.Sprintf("%s[%d].set", key, i), c.Set)
	}
}

func (l *loader) toolchain(name string) (Toolchain, bool) {
	var tc Toolchain
	f := l.decode(name, &tc)
	if f == nil {
		return tc, false
	}
	tc.Name = strings.TrimSuffix(path.Base(name), ".toml")
	f.required(map[string]string{"summary": tc.Summary, "os": tc.OS, "arch": tc.Arch})
	if tc.File != "" {
		if _, err := fs.Stat(l.fsys, path.Join("toolchains", tc.File)); err != nil {
			f.fail("file", "CMake toolchain file toolchains/%s: %s", tc.File, cause(err))
		}
	}
	f.refuse(tc.JobMiB <= 0, "job-mib", "job-mib must say how much memory one compile job may take, in MiB")
	switch {
	case tc.VisualStudio == 0:
	case !slices.Contains(VisualStudios, tc.VisualStudio):
		f.fail("visual-studio", "visual-studio is %d; it must be one of %v", tc.VisualStudio, VisualStudios)
	case tc.OS != "windows":
		f.fail("visual-studio", "visual-studio is for os = \"windows\", and this one has os = %q", tc.OS)
	default:
		l.studios = append(l.studios, tc.Name)
	}
	for role, t := range tc.Programs {
		f.refuse(len(t.Names) == 0, "program."+role, "program %q has no names", role)
		if t.For != "" {
			f.oneOf("program."+role+".for", t.For, ForSmoke)
		}
		if t.First != "" {
			f.oneOf("program."+role+".first", t.First, FirstDirs)
		}
		f.refuse(t.Min != "" && !versionRE.MatchString(t.Min), "program."+role+".min", "min %q is not a version", t.Min)
		f.refuse(t.Max != "" && !versionRE.MatchString(t.Max), "program."+role+".max", "max %q is not a version", t.Max)
		for _, dir := range t.Dirs {
			if _, err := path.Match(dir, ""); err != nil || !dirRE.MatchString(dir) {
				f.fail("program."+role+".dirs", "%q is not an absolute folder, nor one below a variable of the environment such "+
					"as $CUDA_HOME/bin", dir)
			}
		}
	}
	f.options("cmake", tc.CMake)
	return tc, !f.bad
}

func (l *loader) sources(r *Repo) []Upstream {
	var doc struct {
		Upstream []Upstream `toml:"upstream"`
		Source   []Source   `toml:"source"`
		Page     PageTools  `toml:"page"`
	}
	f := l.decode(SourcesFile, &doc)
	if f == nil {
		return nil
	}
	for i := range doc.Source {
		s := &doc.Source[i]
		key := func(k string) string { return fmt.Sprintf("source[%d].%s", i, k) }
		s.Upstream = upstreamOrDefault(s.Upstream)
		f.refuse(s.Name == "", key("name"), "source has no name")
		switch s.Kind {
		case "git", "archive":
			f.refuse(s.URL == "", key("url"), "source %q needs url", s.Name)
		case "bundle":
			f.refuse((s.URL == "") == (s.NPM == ""), key("url"), "source %q needs either url or npm", s.Name)
			f.refuse(s.NPM != "" && (s.File == "" || len(s.Tags) == 0), key("npm"),
				"source %q needs file and tags beside npm", s.Name)
		default:
			f.fail(key("kind"), "kind is %q; it must be git, bundle or archive", s.Kind)
		}
		for t := range s.Tags {
			if _, err := tag.Parse(t); err != nil {
				f.fail(key("tags"), "%v", err)
			}
		}
	}
	r.Sources, r.Marks = doc.Source, f.upstreams(doc.Upstream)
	r.Pages, r.PageTools = f.pages(doc.Upstream, doc.Page), doc.Page
	return doc.Upstream
}
