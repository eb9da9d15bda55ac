package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// win7NT is _WIN32_WINNT of Windows 7: which functions and structures Windows' headers declare.
// Source: Microsoft's "Using the Windows Headers". Where it is not defined, upstream's headers take Windows 10.
const win7NT = 0x0601

// compileDB are the commands of a build, as `ninja -t compdb` and CMake's compile_commands.json have them.
type compileDB []struct {
	Directory, Command, File, Output string
}

var (
	// winntRE matches what sets or unsets _WIN32_WINNT, for GCC, clang, nvcc, what nvcc hands on, and cl.
	winntRE = regexp.MustCompile(`(?:^|[\s"'=,])[-/]([DU])[\s"']*_WIN32_WINNT\b(?:=([^\s"',]*))?`)
	// compiledRE matches the sources that are compiled into objects; assembler takes no headers.
	compiledRE = regexp.MustCompile(`\.(?:c|cc|cpp|cxx|c\+\+|cu)$`)
	objectsRE  = regexp.MustCompile(`\.(?:o|obj|gch|pch)$`)
	// subBuildRE matches the step of a custom command, or of CMake's ExternalProject, that builds something by itself.
	subBuildRE  = regexp.MustCompile(`\s--build\s`)
	subOutputRE = regexp.MustCompile(`([^/]+)-stamp/(?:[^/]+/)?([^/]+)-build$`)
)

// winnt is which _WIN32_WINNT a compile command ends up with, as it is written there: the last one counts; empty:
// none.
func winnt(command string) (value string) {
	for _, m := range winntRE.FindAllStringSubmatch(command, -1) {
		switch {
		case m[1] == "U":
			value = ""
		case m[2] == "":
			value = "1" // as a compiler defines what has no value
		default:
			value = m[2]
		}
	}
	return value
}

// forWindows is the part of a compile command that makes the object of its source for Windows: of several, the
// last that is given it. Where nvcc compiles for the card, its own run before that is for Linux.
func forWindows(command, source string) string {
	for _, part := range slices.Backward(strings.Split(command, " && ")) {
		if strings.Contains(part, source) {
			return part
		}
	}
	return command
}

// winntOf judges the compile commands of a build: how many objects it has, which of the commands are not for
// Windows 7, and the names of what is built by commands that are not among these.
func (db compileDB) winntOf() (objects int, wrong []int, builds []string) {
	for i, c := range db {
		switch m := subOutputRE.FindStringSubmatch(filepath.ToSlash(c.Output)); {
		case m != nil && m[1] == m[2]:
			builds = append(builds, m[1])
		case compiledRE.MatchString(c.File) && c.Command != "" && (c.Output == "" || objectsRE.MatchString(c.Output)):
			objects++
			if n, err := strconv.ParseUint(winnt(forWindows(c.Command, c.File)), 0, 32); err != nil || n != win7NT {
				wrong = append(wrong, i)
			}
		case subBuildRE.MatchString(c.Command) && m == nil:
			builds = append(builds, c.Output)
		}
	}
	slices.Sort(builds)
	return objects, wrong, slices.Compact(builds)
}

// checkWindows makes sure that every object of a build for Windows 7 is compiled for that. Another value in one
// target compiles, and crashes on Windows 7 alone.
func (b *builder) checkWindows(ctx context.Context) error {
	if b.plan.Windows != spec.Win7 {
		return nil
	}
	text, err := b.ninja(ctx, "-t", "compdb")
	if err != nil {
		return err
	}
	return b.judgeWindows(text)
}

// judgeWindows does so with the text of a compileDB.
func (b *builder) judgeWindows(text []byte) error {
	p := b.plan
	var db compileDB
	if err := json.Unmarshal(text, &db); err != nil {
		return fmt.Errorf("compile commands of %s: %w", p.Dir, err)
	}
	objects, wrong, builds := db.winntOf()
	fail := func(file, format string, args ...any) error {
		return &Failed{
			Tag: p.Tag, Target: p.Target, Step: Configure, Kind: KindWindows, Log: b.o.Log, File: file,
			Cause: fmt.Sprintf(format, args...),
		}
	}
	if objects == 0 {
		return fail("", "no command that compiles C or C++ is known, so whether it is for Windows 7 cannot be told; look at what "+
			"ninja -C %s -t compdb prints", p.Dir)
	}
	if len(wrong) > 0 {
		c := db[wrong[0]]
		file := filepath.ToSlash(c.File)
		if !strings.HasPrefix(file, "/") && c.Directory != "" && !filepath.IsAbs(c.File) {
			file = filepath.ToSlash(filepath.Join(c.Directory, c.File))
		}
		file = strings.TrimPrefix(file, filepath.ToSlash(p.source())+"/")
		has := "without _WIN32_WINNT, which upstream's headers then take for Windows 10's"
		if v := winnt(forWindows(c.Command, c.File)); v != "" {
			has = "with _WIN32_WINNT=" + v
		}
		return fail(file, "is compiled %s, and not with 0x%04X, Windows 7's (%s; %d of %d objects); look for who says so: the CMakeLists.txt "+
			"of its folder, a fix that changes it, or cflags and cudaflags in the toolchain", has, win7NT, c.Output, len(wrong), objects)
	}
	b.o.Logger.Debug("all objects are compiled for Windows 7", "objects", objects)
	for _, name := range builds {
		b.o.Logger.Warn("a build of its own in this build was not looked at: whether it is for Windows 7 is not known", "build", name)
	}
	return nil
}

// windowsOn is checkWindows for a build on another machine, by the file that upstream has CMake write.
func (b *builder) windowsOn(ctx context.Context, c *remoteConn, scratch string) error {
	if b.plan.Windows != spec.Win7 {
		return nil
	}
	const name = "compile_commands.json"
	file := filepath.Join(scratch, name)
	err := c.copy(ctx, "fetch "+name, "get", c.path("build/"+name), file)
	if ctx.Err() != nil {
		return err
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		b.o.Logger.Warn("what the compilers are told was not looked at: whether all objects are for Windows 7 is not known",
			"error", err)
		return nil
	}
	return b.judgeWindows(text)
}
