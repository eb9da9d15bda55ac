package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// options are cache entries by name.
type options map[string]Option

// own are the entries that a plan sets itself; a recipe or a toolchain that
// sets one would lose silently, so it is refused.
var own = []string{
	"CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS",
	"CMAKE_RC_COMPILER", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_INSTALL_RPATH",
	"CMAKE_BUILD_WITH_INSTALL_RPATH", "CMAKE_LIBRARY_OUTPUT_DIRECTORY",
	"CMAKE_CUDA_COMPILER", "CMAKE_CUDA_HOST_COMPILER", "CMAKE_CUDA_FLAGS", "CMAKE_CUDA_COMPILER_LAUNCHER",
	"CUDAToolkit_ROOT",
	"CMAKE_HIP_COMPILER", "CMAKE_HIP_FLAGS", "CMAKE_HIP_COMPILER_LAUNCHER",
	"CMAKE_EXE_LINKER_FLAGS", "CMAKE_SHARED_LINKER_FLAGS", "CMAKE_MODULE_LINKER_FLAGS",
	"LLAMA_BUILD_NUMBER", "LLAMA_BUILD_COMMIT",
}

// versionsFrom is the first build whose CMakeLists has a semantic version and
// the option LLAMA_BUILD_IS_DEV (ggml-org/llama.cpp#26839).
const versionsFrom = 10394

// shown are options that switch off what a user sees in a program. They are
// said aloud where a recipe turns them off, and turned off where the source
// lacks a file that they need.
var shown = map[string]struct{ gives, needs, sources string }{
	// The built page lies in the tree until b9151.
	"LLAMA_BUILD_WEBUI": {gives: "the web page of llama-server", needs: "tools/server/public/"},
	"LLAMA_BUILD_UI":    {gives: "the web page of llama-server", sources: "tools/ui"},
}

// pageNeeds is where the page lies in trees that have no option for it.
const (
	pageOptionFrom = 8558
	pageNeeds      = "tools/server/public/"
)

// collect fills o in the order in which later entries win.
func (o options) collect(in Input, versionCommit string, off *[]string) error {
	if err := o.declared(in, in.Toolchain.CMake, origin{"toolchain", in.Toolchain.Name, "cmake"}, ""); err != nil {
		return err
	}
	if err := o.declared(in, in.Recipe.CMake, origin{"recipe", in.Recipe.Name, "cmake"}, ""); err != nil {
		return err
	}
	for at, list := range [][]spec.CMakeFor{in.Recipe.Shared, in.Recipe.CMakeFor} {
		for i, c := range list {
			if !c.Range.Contains(in.Build) {
				continue
			}
			from := origin{"recipe", in.Recipe.Name, fmt.Sprintf("cmake-for[%d].set", i)}
			if at == 0 {
				from.name, from.key = "sources", "upstream."+from.key
			}
			if err := o.declared(in, c.Set, from, fmt.Sprintf(", builds %s", c.Range)); err != nil {
				return err
			}
		}
	}
	for name := range shown {
		if in.Page != nil && o[name].Value == "OFF" {
			o.set(name, "ON", "the page is in the source")
		}
	}
	o.optional(in, off)
	if err := o.cuda(in); err != nil {
		return err
	}
	if err := o.hip(in); err != nil {
		return err
	}
	if err := o.missing(in, off); err != nil {
		return err
	}
	o.standing(in, versionCommit)
	return nil
}

func (o options) set(name, value, why string) { o[name] = Option{name, value, why} }

// origin is the table of a recipe or a toolchain that options stand in.
type origin struct{ kind, name, key string }

// declared takes the options of a table; when says for which builds they are.
func (o options) declared(in Input, from spec.Options, at origin, when string) error {
	for _, option := range slices.Sorted(maps.Keys(from)) {
		fault := &Fault{File: at.kind + "s/" + at.name + ".toml", Key: at.key + "." + option}
		if slices.Contains(own, option) {
			fault.Msg = fmt.Sprintf("%s is not a %s's to set: every plan sets it itself", option, at.kind)
			return fault
		}
		value, err := spec.OptionValue(from[option])
		if err != nil {
			fault.Msg = fmt.Sprintf("%s: %v", option, err)
			return fault
		}
		why := at.kind + " " + at.name + when
		if at.name == "sources" {
			why = spec.SourcesFile + when
		}
		name, err := spell(in.Recipe.Upstream, option, value, in.Build)
		switch {
		case err != nil:
			fault.Msg = fmt.Sprintf("%s: %v", option, err)
			return fault
		case name == "":
			continue
		case name != option:
			why += ", where it is " + option
		}
		o.set(name, value, why)
	}
	return nil
}

// optional turns on the features whose headers are there.
func (o options) optional(in Input, off *[]string) {
	for _, f := range in.Recipe.Optional {
		if !f.Range.IsZero() && !f.Range.Contains(in.Build) {
			continue
		}
		lib := in.Facts.Library
		switch ours := lib.Header == f.Header; {
		case ours && lib.Dir != "":
			o.set(f.Option, "ON", lib.Name+" is there")
			o.libraryIn(in.library(), lib.Name)
			continue
		case in.Facts.Headers[f.Header]:
			o.set(f.Option, "ON", f.Header+" is there")
			continue
		}
		o.set(f.Option, "OFF", f.Header+" is not there")
		msg := fmt.Sprintf("%s: the compiler finds no %s", f.Gives, f.Header)
		if lib.Header == f.Header {
			msg = f.Gives + ": " + lib.Why
		} else if f.Debian != "" {
			msg += " (Debian package " + f.Debian + ")"
		}
		*off = append(*off, msg)
	}
}

// libraryIn lets CMake find the toolchain's library, which is static, in dir.
func (o options) libraryIn(dir, why string) {
	const roots = "CMAKE_FIND_ROOT_PATH"
	o.set(roots, strings.TrimSuffix(dir+";"+o[roots].Value, ";"), why)
	o.set("OPENSSL_USE_STATIC_LIBS", "ON", why)
}

// missing turns off what the source has no files for, and says what is off.
func (o options) missing(in Input, off *[]string) error {
	lacks := func(below string) string {
		for _, m := range in.Missing {
			if below != "" && strings.HasPrefix(m, below) {
				return m
			}
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		f := shown[name]
		switch m := lacks(f.needs); {
		case o[name].Value == "ON" && m != "":
			o.set(name, "OFF", "the source lacks "+m)
			*off = append(*off, fmt.Sprintf("%s: this source of %s lacks %s", f.gives, in.Tag, m))
		case o[name].Value == "OFF" && in.NoPage != "":
			*off = append(*off, f.gives+": "+in.NoPage)
		case o[name].Value == "OFF" && f.sources != "":
			*off = append(*off, fmt.Sprintf("%s: the tree of %s holds only its sources (%s), which need npm and the network",
				f.gives, in.Tag, f.sources))
		case o[name].Value == "OFF":
			*off = append(*off, fmt.Sprintf("%s: %s turns %s off", f.gives, o[name].Why, name))
		}
	}
	if m := lacks(pageNeeds); m != "" && in.Build < pageOptionFrom && in.Recipe.Upstream == spec.LlamaCpp {
		return &NoPage{m}
	}
	return nil
}

// standing adds what every plan has.
func (o options) standing(in Input, versionCommit string) {
	const why = "every plan"
	o.set("CMAKE_BUILD_TYPE", "Release", why)
	o.set("CMAKE_C_COMPILER", in.Facts.Tools["cc"].Path, "toolchain "+in.Toolchain.Name)
	if cxx, ok := in.Facts.Tools["cxx"]; ok {
		o.set("CMAKE_CXX_COMPILER", cxx.Path, "toolchain "+in.Toolchain.Name)
	}
	if rc, ok := in.Facts.Tools["rc"]; ok {
		o.set("CMAKE_RC_COMPILER", rc.Path, "toolchain "+in.Toolchain.Name)
	}
	if !in.NoVersion {
		o.set("LLAMA_BUILD_NUMBER", fmt.Sprint(in.Build), "what --version prints")
		o.set("LLAMA_BUILD_COMMIT", versionCommit, "what --version prints")
	}
	if in.Build >= versionsFrom && in.Recipe.Upstream == spec.LlamaCpp && isRelease(in.Tag) {
		o.set("LLAMA_BUILD_IS_DEV", "OFF", in.Tag+" is a release of upstream's")
	}
	if msvc(in.Toolchain) {
		return // its flags are in the environment: CMake's own are to stay
	}
	// Else the build folder ends up in what links to a library of it. Not
	// CMAKE_BUILD_RPATH_USE_ORIGIN: that writes "$ORIGIN:", and the empty entry
	// behind the colon makes the loader look in whatever folder the user is in.
	const beside = "the programs find their libraries beside them, wherever they lie"
	o.set("CMAKE_INSTALL_RPATH", "$ORIGIN", beside)
	o.set("CMAKE_BUILD_WITH_INSTALL_RPATH", "ON", beside)
	if in.Recipe.Upstream == spec.IkLlamaCpp {
		// Its own build leaves them where their sources lie; llama.cpp's does this.
		o.set("CMAKE_LIBRARY_OUTPUT_DIRECTORY", in.Dir+"/bin", beside)
	}
	flags := strings.Join(append(slices.Clone(in.Toolchain.CFlags), prefixMaps(in.Source, in.Dir)...), " ")
	const maps = "no folder of this machine in the binaries"
	o.set("CMAKE_C_FLAGS", flags, maps)
	o.set("CMAKE_CXX_FLAGS", flags, maps)
	if len(in.Toolchain.LdFlags) > 0 {
		ld := strings.Join(in.Toolchain.LdFlags, " ")
		for _, kind := range []string{"EXE", "SHARED", "MODULE"} {
			o.set("CMAKE_"+kind+"_LINKER_FLAGS", ld, "toolchain "+in.Toolchain.Name)
		}
	}
	if in.Facts.Launcher != "" {
		o.set("CMAKE_C_COMPILER_LAUNCHER", in.Facts.Launcher, "compiler cache")
		o.set("CMAKE_CXX_COMPILER_LAUNCHER", in.Facts.Launcher, "compiler cache")
	}
}

// prefixMaps takes the machine's folders out of the binaries. Of two maps that
// fit, GCC and Clang take the last, so a folder that lies in the other comes last.
func prefixMaps(source, dir string) []string {
	maps := [][2]string{{source, "."}, {dir, "build"}}
	if strings.HasPrefix(source, dir+"/") {
		slices.Reverse(maps)
	}
	var flags []string
	for _, m := range maps {
		flag := "-ffile-prefix-map=" + m[0] + "=" + m[1]
		if strings.ContainsAny(flag, " ~^") { // the flags go through a shell
			flag = `"` + flag + `"`
		}
		flags = append(flags, flag)
	}
	return flags
}

func (o options) sorted() []Option {
	return slices.SortedFunc(maps.Values(o), func(a, b Option) int { return strings.Compare(a.Name, b.Name) })
}

// Dispensable reports whether a build can do without a path of the tree: the
// plan turns off what needs it where it stands among Input.Missing.
func Dispensable(path string) bool {
	for _, f := range shown {
		if f.needs != "" && strings.HasPrefix(path, f.needs) {
			return true
		}
	}
	return false
}

// HTTPS reports whether the plan's programs speak TLS.
func (p Plan) HTTPS() bool {
	return slices.ContainsFunc(p.Options, func(o Option) bool { return o.Name == "LLAMA_OPENSSL" && o.Value == "ON" })
}

// WebUI reports whether the plan's llama-server holds its web page. Before the
// page had an option it was always in.
func (p Plan) WebUI() bool {
	for _, o := range p.Options {
		if _, ok := shown[o.Name]; ok && o.Value == "OFF" {
			return false
		}
	}
	return true
}
