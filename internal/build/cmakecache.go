package build

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// readCache returns the entries of a CMakeCache.txt: NAME:TYPE=VALUE lines.
func readCache(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cache := map[string]string{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := s.Text()
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		name, _, typed := strings.Cut(key, ":")
		if ok && typed {
			cache[strings.Trim(name, `"`)] = value
		}
	}
	return cache, s.Err()
}

var (
	unusedRE     = regexp.MustCompile(`^\s*Manually-specified variables were not used by the project:`)
	deprecatedRE = regexp.MustCompile(`\b([A-Z][A-Z0-9_]+) is deprecated\b(.*)`)
)

// proofs are cache entries that show whether an option that looks for something
// found it, any one of them; without it CMake goes on and leaves the feature out. FindOpenSSL
// has names of its own for MinGW.
var proofs = map[string]struct {
	entries []string
	what    string
}{
	"LLAMA_OPENSSL": {[]string{"OPENSSL_SSL_LIBRARY", "SSL_EAY"}, "OpenSSL's library"},
	"GGML_OPENMP":   {[]string{"OpenMP_CXX_FLAGS"}, "OpenMP"},
}

// checkOptions compares what was asked for with what CMake made of it: output
// is what the configure step printed, cache its CMakeCache.
func (p Plan) checkOptions(output []string, cache map[string]string) error {
	unused := unusedOptions(output)
	deprecated := map[string]string{}
	for _, l := range output {
		if m := deprecatedRE.FindStringSubmatch(l); m != nil {
			deprecated[m[1]] = clean(m[1] + " is deprecated" + m[2])
		}
	}
	for _, o := range p.Options {
		fail := func(format string, args ...any) error {
			return &Failed{
				Tag: p.Tag, Target: p.Target, Step: Configure, Kind: KindOption,
				Cause: fmt.Sprintf("option %s=%s (%s) ", o.Name, o.Value, o.Why) + fmt.Sprintf(format, args...),
			}
		}
		// CMake's own variables, such as a compiler for a language that the
		// project does not use, are not upstream's to rename.
		if slices.Contains(unused, o.Name) && !strings.HasPrefix(o.Name, "CMAKE_") {
			return fail("was not used by CMake: %s has no such option; it was renamed or removed, and a [[cmake-for]] block "+
				"of the recipe must say from which build on", p.Tag)
		}
		if text, ok := deprecated[o.Name]; ok {
			return fail("has no effect at %s any more: %s", p.Tag, text)
		}
		got, ok := cache[o.Name]
		if p.Remote != nil && o.Name == "CUDAToolkit_ROOT" {
			continue // a script goes by its nvcc
		}
		if !ok {
			return fail("is not in CMakeCache.txt")
		}
		if !sameValue(got, o.Value) {
			return fail("was changed by CMake to %q", got)
		}
		proof, has := proofs[o.Name]
		if has && o.Value == "ON" && !slices.ContainsFunc(proof.entries, func(name string) bool {
			return cache[name] != "" && !strings.HasSuffix(cache[name], "NOTFOUND")
		}) {
			return fail("is on, but CMake did not find %s", proof.what)
		}
	}
	return nil
}

func sameValue(got, want string) bool {
	// CMake makes a compiler's path absolute and its separators its own. On Windows a
	// plan names the compiler alone.
	if name, isFile := strings.CutSuffix(path.Base(got), ".exe"); isFile && name == want {
		return true
	}
	return got == want || filepath.ToSlash(got) == filepath.ToSlash(want)
}

// unusedOptions reads the names below CMake's warning, up to the next
// paragraph that is no name.
func unusedOptions(output []string) []string {
	var names []string
	in := false
	for _, l := range output {
		switch t := strings.TrimSpace(l); {
		case unusedRE.MatchString(l):
			in = true
		case in && t != "" && !strings.HasPrefix(l, " "):
			in = false
		case in && t != "":
			names = append(names, t)
		}
	}
	return names
}

// needsTarget are options that bring a Ninja target of their own.
var needsTarget = map[string]string{
	"GGML_BLAS": "ggml-blas", "GGML_CUDA": "ggml-cuda", "GGML_HIP": "ggml-hip", "GGML_METAL": "ggml-metal",
	"GGML_OPENCL": "ggml-opencl", "GGML_RPC": "ggml-rpc", "GGML_SYCL": "ggml-sycl", "GGML_VULKAN": "ggml-vulkan",
}

// checkTargets makes sure that what was asked for will be built: the programs,
// the backends, and more than one variant of the CPU backend where all are wanted.
func (p Plan) checkTargets(targets []string) error {
	fail := func(format string, args ...any) error {
		return &Failed{Tag: p.Tag, Target: p.Target, Step: Configure, Kind: KindOutput, Cause: fmt.Sprintf(format, args...)}
	}
	for _, name := range p.Programs {
		if !slices.Contains(targets, name) {
			return fail("the tree has no program %s: it was renamed, or an option turns it off", name)
		}
	}
	has := func(name string) int {
		n := 0
		for _, t := range targets {
			if t == name || strings.HasPrefix(t, name+"-") && !strings.Contains(t, "/") {
				n++
			}
		}
		return n
	}
	ggml := has("ggml-base") > 0
	for _, b := range p.Backends {
		if (ggml || b != "cpu") && has("ggml-"+b) == 0 {
			return fail("backend %s is not on: CMake made no target ggml-%s", b, b)
		}
	}
	for _, o := range p.Options {
		if t, ok := needsTarget[o.Name]; ok && o.Value == "ON" && has(t) == 0 {
			return fail("option %s is on, but CMake made no target %s", o.Name, t)
		}
		if o.Name == "GGML_CPU_ALL_VARIANTS" && o.Value == "ON" && ggml && has("ggml-cpu") < 2 {
			return fail("option %s is on, but CMake made only one variant of the CPU backend", o.Name)
		}
	}
	return nil
}

var sharedRE = regexp.MustCompile(`^lib[^/]+\.so(\.[0-9.]+)?$`)

// LibraryDirs returns the sorted folders of the shared libraries that a configured
// build folder links with, as its CMakeCache.txt has them. A toolkit keeps stubs to
// link with in a folder of their own; then it is the one above, with the real ones.
func LibraryDirs(dir string) ([]string, error) {
	cache, err := readCache(filepath.Join(dir, "CMakeCache.txt"))
	if err != nil {
		return nil, fmt.Errorf("libraries of the build: %w", err)
	}
	var dirs []string
	for _, value := range cache {
		if !filepath.IsAbs(value) || !sharedRE.MatchString(filepath.Base(value)) {
			continue
		}
		d := filepath.Dir(value)
		if filepath.Base(d) == "stubs" {
			d = filepath.Dir(d)
		}
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}
