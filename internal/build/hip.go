package build

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// gfxOptions are all the names under which a build is told its AMD targets: today's,
// the one before it, and CMake's own. Any of them left open is filled by what looks
// for a card.
var gfxOptions = []string{"GPU_TARGETS", "AMDGPU_TARGETS", "CMAKE_HIP_ARCHITECTURES"}

// hip adds what a plan for HIP has. Its targets are always named: on a machine with
// no card CMake takes gfx906 without a word.
func (o options) hip(in Input) error {
	if !slices.Contains(in.Recipe.Backends, "hip") {
		return nil
	}
	key := func(key, format string, args ...any) error {
		return &Fault{File: "recipes/" + in.Recipe.Name + ".toml", Key: key, Msg: fmt.Sprintf(format, args...)}
	}
	want := in.Recipe.Verify.HIP
	if want == nil || len(want.Archs) == 0 {
		return key("verify.hip", "it builds the backend hip and names no targets: verify.hip.archs is missing")
	}
	for _, name := range gfxOptions {
		if _, ok := o[name]; ok {
			return key("cmake."+name, "%s is not to be set beside verify.hip.archs, from which every plan takes it", name)
		}
		o.set(name, strings.Join(want.Archs, ";"), "what verify.hip asks for")
	}
	if _, found := in.Facts.Tools["hipcc"]; !found {
		return toolchainFault(in.Toolchain, "program", "it brings no program hipcc, and %s builds the backend hip",
			in.Recipe.Name)
	}
	o.set("CMAKE_HIP_COMPILER", in.Facts.HIP.Clang, "the clang of "+in.Facts.Tools["hipcc"].Path)
	flags := slices.Concat(in.Recipe.HIPFlags, prefixMaps(in.Source, in.Dir))
	o.set("CMAKE_HIP_FLAGS", strings.Join(flags, " "), "recipe "+in.Recipe.Name+
		", no folder of this machine in the binaries")
	if in.Facts.Launcher != "" {
		o.set("CMAKE_HIP_COMPILER_LAUNCHER", in.Facts.Launcher, "compiler cache")
	}
	return nil
}

var (
	hipObjectRE = regexp.MustCompile(`^build (\S+): HIP_COMPILER_`)
	offloadRE   = regexp.MustCompile(`--(?:offload|cuda-gpu|amdgpu)-(?:arch|target)=(\S+)`)
)

// checkGFX makes sure that every command that compiles HIP names exactly the targets
// that were asked for: CMake takes others from where nobody looks.
func (p Plan) checkGFX() error {
	if !slices.Contains(p.Backends, "hip") {
		return nil
	}
	i := slices.IndexFunc(p.Options, func(o Option) bool { return o.Name == gfxOptions[0] })
	if i < 0 {
		return errors.New("the plan names no AMD targets")
	}
	want := strings.Split(p.Options[i].Value, ";")
	slices.Sort(want)
	f, err := os.Open(filepath.Join(p.Dir, "build.ninja"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	fail := func(format string, args ...any) error {
		return &Failed{Tag: p.Tag, Target: p.Target, Step: Configure, Kind: KindOption, Cause: fmt.Sprintf(format, args...)}
	}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	object, objects := "", 0
	for s.Scan() {
		line := s.Text()
		if strings.HasPrefix(line, "build ") {
			object = ""
			if m := hipObjectRE.FindStringSubmatch(line); m != nil {
				object = m[1]
				objects++
			}
		}
		flags, ok := strings.CutPrefix(line, "  FLAGS = ")
		if object == "" || !ok {
			continue
		}
		var have []string
		for _, m := range offloadRE.FindAllStringSubmatch(flags, -1) {
			have = append(have, strings.Split(strings.Trim(m[1], `"'`), ",")...)
		}
		slices.Sort(have)
		if have = slices.Compact(have); !slices.Equal(have, want) {
			return fail("CMake compiles %s for %s, and %s was asked for", object,
				cmp.Or(strings.Join(have, " "), "whatever card the compiler finds"), strings.Join(want, " "))
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if objects == 0 {
		return fail("backend hip is on, and CMake made no command that compiles HIP: is hipcc the C++ compiler?")
	}
	return nil
}
