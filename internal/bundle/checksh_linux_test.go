package bundle

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// machine is an invented machine for a bundle's check.sh, and the bundle on it.
type machine struct {
	files  map[string]string // below the root
	tools  map[string]string // programs on the PATH; empty: it is not there
	env    []string          // ROOT in it is the root
	bundle map[string]string // files of the bundle, before SHA256SUMS is made
	spoil  func(dir string)  // the bundle, after that
	// the folder that it is called from, of the bundle and of what holds it: ".", ".."; empty:
	// another one
	from   string
	start  string // how a shell, "$@", is started with the script, "$check"; empty: as one does
	nobody bool   // the user is not root
	shut   string // a file below the root that is not the user's
	info   Info   // what the bundle is
	also   string // a library that those of the machine need
}

// odd is the name of the bundle's folder.
const odd = `b (1) & 'x" $y`

// lab is what invented machines are made with: the shells that check.sh is for, and a
// stand-in for glibc's loader, which has to be linked statically.
type lab struct {
	shells map[string]string
	loader string
}

func newLab(t *testing.T) lab {
	t.Helper()
	dir := t.TempDir()
	l := lab{shells: map[string]string{}, loader: filepath.Join(dir, "loader")}
	for _, name := range []string{"sh", "bash", "dash", "busybox"} {
		if at, err := exec.LookPath(name); err == nil {
			l.shells[name] = at
		}
	}
	if l.shells["dash"] != "" {
		delete(l.shells, "sh") // it is one of the others
	}
	if l.shells["dash"] == "" || l.shells["busybox"] == "" {
		t.Log("check.sh did not run in both dash and busybox sh: sh scripts/setup test installs them")
	}
	cmd := exec.Command("go", "build", "-o", l.loader, "./testdata/linux/loader")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// What check.sh knows a glibc's loader by.
	f, err := os.OpenFile(l.loader, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString("\x00GLIBC_2.2.5\x00")
		err = errors.Join(err, f.Close())
	}
	open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// open lets every user into a folder of tests, which else is root's alone.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if st, err := os.Stat(dir); err == nil && st.Mode()&0o005 != 0o005 {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// scriptTools are the programs that check.sh may use besides those of a driver.
var scriptTools = strings.Fields("sh cat cut env grep head id ls readlink sed sha256sum sleep sort tail " +
	"timeout tr true")

const (
	// As uname of a PC says.
	unameTool = "#!/bin/sh\ncase $1 in\n-s) echo Linux ;;\n-m) echo x86_64 ;;\n-r) echo 6.12.0 ;;\nesac\n"
	// llama-server, which prints what is in files of those names.
	serverTool = "#!/bin/sh\ncat \"${0%/*}/LICENSES/answer$1\" >&2\n"
	loaderAt   = "lib64/ld-linux-x86-64.so.2"
	// What a machine has there: a stand-in for the loader, and one that lists nothing.
	glibcs, silent = "glibc's", "silent"
	// A pipe that nobody writes into, in the place of a file.
	pipe   = "a pipe"
	libsAt = "usr/lib/x86_64-linux-gnu/"
)

// plain is a machine on which everything is right for a bundle that needs no card.
func plain(info Info) machine {
	m := machine{
		info: info,
		files: map[string]string{
			loaderAt:                  glibcs,
			libsAt + "libc.so.6":      "\x7fELF\x00GLIBC_2.2.5\x00GLIBC_2.9\x00GLIBC_2.34\x00GLIBC_2.36\x00GLIBC_PRIVATE\x00",
			libsAt + "libm.so.6":      "\x00GLIBC_2.29\x00",
			libsAt + "libstdc++.so.6": "\x00GLIBCXX_3.4.30\x00CXXABI_1.3.13\x00", libsAt +
				"libssl.so.3": "\x00OPENSSL_3.0.0\x00",
			"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu sse4_2 avx avx2 fma f16c\n",
		},
		tools: map[string]string{"uname": unameTool},
		bundle: map[string]string{
			"llama-server": serverTool, "libllama.so.0": "a library", "LICENSES/a b.txt": "terms",
			"LICENSES/answer--version": "version: 8833 (45cac7ca7-llp1)\nbuilt with GNU\n",
		},
	}
	for _, f := range info.Files {
		if _, there := m.bundle[f.Name]; !there && info.Sums[f.Name] != "" {
			m.bundle[f.Name] = f.Name
		}
	}
	return m
}

// fileOf is a program or library of an invented bundle.
func fileOf(name string, needed ...string) *binary.File {
	f := &binary.File{Name: name, Machine: "EM_X86_64", Needed: needed}
	if strings.HasPrefix(name, "llama-") {
		f.Interp = "/" + loaderAt
	} else {
		f.SOName = name
	}
	return f
}

// linuxCPU is a bundle for the processor alone.
func linuxCPU() Info {
	i := Info{
		Tag: "b8833", Target: "linux-cpu", Version: "45cac7ca7-llp1", Check: checkScript, Glibc: "2.34",
		Symbols: map[string][]string{
			"libc.so.6": {"GLIBC_2.34"}, "libm.so.6": {"GLIBC_2.29"},
			"libstdc++.so.6": {"CXXABI_1.3.13", "GLIBCXX_3.4.30"}, "libssl.so.3": {"OPENSSL_3.0.0"},
		},
		Files: []*binary.File{
			fileOf("libllama.so.0", "libc.so.6", "libm.so.6", "libstdc++.so.6"),
			fileOf("llama-server", "libllama.so.0", "libssl.so.3", "libc.so.6"),
		},
		Sums:    map[string]string{"llama-server": "x", "libllama.so.0": "x"},
		Options: map[string]string{"GGML_CPU_ALL_VARIANTS": "ON", "GGML_AVX": "ON"},
	}
	link := fileOf("libllama.so", i.Files[0].Needed...)
	link.SOName = "libllama.so.0"
	i.Files = append(i.Files, link)
	i.Needs = binary.Outside(i.Files)
	return i
}

// with is the bundle with a backend in it.
func (i Info) with(target string, backend *binary.File) Info {
	i.Target = target
	i.Files = append(slices.Clone(i.Files), backend)
	i.Sums = maps.Clone(i.Sums)
	i.Sums[backend.Name] = "x"
	i.Needs = binary.Outside(i.Files)
	return i
}

// checkSh is the check.sh of such a bundle.
func checkSh(t *testing.T, i Info, change func(r *spec.Recipe)) string {
	t.Helper()
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := repo.Recipe(i.Target)
	if err != nil {
		t.Fatal(err)
	}
	rec.Programs = []string{"llama-server"}
	if change != nil {
		change(&rec)
	}
	scripts, err := Scripts(repo, rec, i)
	if err != nil || len(scripts) != 1 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	return string(scripts[checkScript])
}

// write makes files below a folder; programs may be run.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if text == pipe {
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), syscall.Mkfifo(file, 0o777)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mode := os.FileMode(0o644)
		switch {
		case strings.HasPrefix(text, "#!"):
			mode = 0o755
		case strings.HasPrefix(name, "dev/"):
			mode = 0o666
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), mode),
			os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// check runs the script on the machine in a shell. Where the machine is a folder, TEMP
// stands for that.
func (m machine) check(t *testing.T, l lab, shell, script string) (out string, code int) {
	t.Helper()
	temp, at := t.TempDir(), l.shells[shell]
	root, bin, bundle := filepath.Join(temp, "root"), filepath.Join(temp, "bin"), filepath.Join(temp, odd)
	files := maps.Clone(m.files)
	if kind := files[loaderAt]; kind == glibcs || kind == silent {
		delete(files, loaderAt)
		if kind == glibcs {
			files["lib64/needs"] = strings.Join(slices.DeleteFunc(slices.Clone(m.info.Needs), func(lib string) bool {
				return strings.HasPrefix(lib, "ld-")
			}), " ") + " " + m.also
		}
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "lib64"), 0o755),
			os.Symlink(l.loader, filepath.Join(root, loaderAt))); err != nil {
			t.Fatal(err)
		}
	}
	write(t, root, files)
	if m.shut != "" {
		if err := os.Chmod(filepath.Join(root, m.shut), 0); err != nil {
			t.Fatal(err)
		}
	}
	tools := maps.Clone(m.tools)
	for _, name := range scriptTools {
		if _, own := tools[name]; own {
			continue
		}
		to := at
		if shell != "busybox" {
			var err error
			if to, err = exec.LookPath(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.MkdirAll(bin, 0o755), os.Symlink(to, filepath.Join(bin, name))); err != nil {
			t.Fatal(err)
		}
	}
	maps.DeleteFunc(tools, func(_, text string) bool { return text == "" })
	write(t, bin, tools)
	inside := maps.Clone(m.bundle)
	inside[checkScript] = script
	write(t, bundle, inside)
	for _, f := range m.info.Files {
		if m.info.Sums[f.Name] == "" {
			if err := os.Symlink(f.SOName, filepath.Join(bundle, f.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	sums, err := checksums(bundle)
	if err != nil {
		t.Fatal(err)
	}
	write(t, bundle, map[string]string{"SHA256SUMS": string(sums)})
	if m.spoil != nil {
		m.spoil(bundle)
	}
	from, name := t.TempDir(), filepath.Join(bundle, checkScript)
	switch m.from {
	case ".":
		from, name = bundle, checkScript
	case "..":
		from, name = temp, filepath.Join(odd, checkScript)
	}
	argv := []string{"/bin/sh", "-c", cmp.Or(m.start, `exec "$@" "$check"`), shell, at}
	if shell == "busybox" {
		argv = append(argv, "sh")
	}
	// It waits for nothing that may never come, and leaves nobody behind who holds its output.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Dir = from
	cmd.Env = []string{"PATH=" + bin, "CHECK_ROOT=" + root, "CDPATH=/", "check=" + name}
	for _, value := range m.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(value, "ROOT", root))
	}
	if m.nobody && os.Getuid() == 0 {
		open(t, temp)
		cmd.Dir = root
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s: %v, %v:\n%s", shell, err, ctx.Err(), text)
	}
	return strings.ReplaceAll(string(text), temp, "TEMP"), cmd.ProcessState.ExitCode()
}

// judges are the shells that a test runs the script in: all, and with -short one, which
// the test's name chooses.
func (l lab) judges(t *testing.T) []string {
	t.Helper()
	all := slices.Sorted(maps.Keys(l.shells))
	if testing.Short() {
		return all[crc32.ChecksumIEEE([]byte(t.Name()))%uint32(len(all)):][:1]
	}
	return all
}

// judged runs the script in the shells, in which it must say the same: facts, a line each,
// an empty line, and one sentence of advice.
func (m machine) judged(t *testing.T, l lab, script string) (out string, code int) {
	t.Helper()
	first := ""
	for _, shell := range l.judges(t) {
		got, status := m.check(t, l, shell, script)
		lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
		if len(lines) < 3 || lines[len(lines)-2] != "" || slices.Contains(lines[:len(lines)-2], "") {
			t.Errorf("%s: facts, an empty line and one sentence are wanted:\n%s", shell, got)
		}
		if first != "" && (got != out || status != code) {
			t.Errorf("%s ends with %d, %s with %d:\n%s\n%s", shell, status, first, code, got, out)
		}
		first, out, code = shell, got, status
	}
	return out, code
}
