package binary

import (
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// Libraries are the shared libraries that this machine's loader finds.
type Libraries struct {
	dirs   []string            // looked at first, in order
	cached map[string][]string // name -> paths, as the loader's cache has them
	after  []string            // looked at last
}

// loaderDirs are where loaders look without being told: glibc's own folders on the
// kinds of Linux that llpatch knows.
var loaderDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// LibrariesIn returns the libraries of the given folders alone, searched in order.
func LibrariesIn(dirs ...string) *Libraries { return &Libraries{dirs: dirs} }

// LibrariesUnder returns what a program finds in the root file system in a folder: in
// the folders that need no telling.
func LibrariesUnder(root string) *Libraries {
	l := &Libraries{}
	for _, d := range loaderDirs {
		l.dirs = append(l.dirs, filepath.Join(root, d))
	}
	return l
}

// SystemLibraries returns what a program finds here: by the LD_LIBRARY_PATH of env,
// in the loader's cache (read by ldconfig -p, where that is installed), and in the
// folders that need no telling.
func SystemLibraries(ctx context.Context, env []string) (*Libraries, error) {
	l := &Libraries{cached: map[string][]string{}, after: loaderDirs}
	path, _ := run.LookEnv(env, "PATH")
	given, _ := run.LookEnv(env, "LD_LIBRARY_PATH")
	l.dirs = slices.DeleteFunc(strings.FieldsFunc(given, func(r rune) bool {
		return r == ':' || r == ';'
	}), func(d string) bool { return !filepath.IsAbs(d) })
	file, err := run.LookPath("ldconfig", path+":/usr/sbin:/sbin")
	if err != nil {
		return l, nil // musl and NixOS have none
	}
	out, err := run.Output(ctx, run.Cmd{
		Argv: []string{file, "-p"}, Env: []string{"LC_ALL=C"}, Timeout: time.Minute,
		Grace: -1,
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil {
		l.cached = parseLoaderCache(string(out))
	}
	return l, nil
}

var cacheLineRE = regexp.MustCompile(`^\s+(\S+) \(.*\) => (/.*)$`)

// parseLoaderCache reads what ldconfig -p prints.
func parseLoaderCache(out string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(out) {
		if f := cacheLineRE.FindStringSubmatch(strings.TrimRight(line, "\n")); f != nil {
			m[f[1]] = append(m[f[1]], f[2])
		}
	}
	return m
}

// Glibc is the version of the glibc for a machine among the libraries; "" where there is none.
func (l *Libraries) Glibc(machine string) (string, error) {
	path := l.Find("libc.so.6", machine)
	if path == "" {
		return "", nil
	}
	libc, err := ReadLibrary(path)
	if err != nil {
		return "", err
	}
	return libc.Highest()["GLIBC"], nil
}

// Find returns the path of the library called name that is for a machine, such as
// EM_X86_64; "" where there is none. A DLL's name counts in upper and lower case alike.
func (l *Libraries) Find(name, machine string) string {
	if filepath.Base(name) != name {
		return ""
	}
	var paths []string
	for _, d := range l.dirs {
		if strings.EqualFold(filepath.Ext(name), ".dll") {
			paths = append(paths, dllsIn(d, name)...)
			continue
		}
		paths = append(paths, filepath.Join(d, name))
	}
	paths = append(paths, l.cached[name]...)
	for _, d := range l.after {
		paths = append(paths, filepath.Join(d, name))
	}
	for _, p := range paths {
		if machineOf(p) == machine {
			return p
		}
	}
	return ""
}

// dllsIn returns the files of a folder that Windows takes for the DLL of that name.
func dllsIn(dir, name string) (paths []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// machineOf returns the machine of a shared library or DLL, "" where the file is none.
func machineOf(path string) string {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	if strings.EqualFold(filepath.Ext(path), ".dll") {
		f, err := Inspect(path)
		if err != nil || f.PE == nil {
			return ""
		}
		return f.Machine
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if f.Type != elf.ET_DYN {
		return ""
	}
	return f.Machine.String()
}
