//go:build linux

package buildenv

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestVersionIn(t *testing.T) {
	for out, want := range map[string]string{
		"gcc-11 (Debian 11.3.0-12) 11.3.0\nCopyright (C) 2021\n": "11.3.0",
		"1.11.1\n":                 "1.11.1",
		"ccache version 4.7.5\n":   "4.7.5",
		"cmake version 3.25.1\n\n": "3.25.1",
		"nvcc: NVIDIA (R) Cuda compiler driver\nBuilt on Wed_Sep_21_10:33:58_PDT_2022\nCuda compilation tools, release " +
			"11.8, V11.8.89\nBuild cuda_11.8.r11.8/compiler.31833905_0\n": "11.8.89",
		"HIP version: 6.4.43484-0\nDebian clang version 21.1.0\n":           "6.4.43484",
		"x86_64-w64-mingw32-gcc-posix (GCC) 12-posix\nCopyright (C) 2022\n": "12",
		"no number\n": "",
	} {
		if _, v := VersionOf(out); v != want {
			t.Errorf("%q: %q, want %q", out, v, want)
		}
	}
}

// inside runs the probe in the root and returns what it says.
func inside(t *testing.T, e *Entered, dir string, folders []Folder, args ...string) (string, error) {
	t.Helper()
	c, err := e.Wrap(run.Cmd{
		Argv: append([]string{"/usr/bin/probe"}, args...),
		Env:  []string{"PATH=/usr/bin", "WORD=a b'c"}, Dir: dir, Stderr: io.Discard,
	}, folders...)
	must(t, err)
	out, err := run.Output(t.Context(), c)
	return strings.TrimSpace(string(out)), err
}

// TestWrap looks around inside, entered in each way that there is.
func TestWrap(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	made, err := Create(t.Context(), d, o)
	must(t, err)
	e, err := Open(t.Context(), o.Cache, d, nil)
	must(t, err)
	defer func() { must(t, e.Close()) }()
	bwrap, err := exec.LookPath("bwrap")
	must(t, err) // scripts/setup test installs it
	sh, err := exec.LookPath("sh")
	must(t, err)
	unshare, err := exec.LookPath("unshare")
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	for name, w := range map[string]way{
		"bwrap":   {bwrap: bwrap, sh: sh},
		"unshare": {unshare: unshare, sh: sh, user: os.Geteuid() != 0},
	} {
		t.Run(name, func(t *testing.T) {
			e.way = w
			folder, secret := filepath.Join(t.TempDir(), "with space"), filepath.Join(t.TempDir(), "not for inside")
			must(t, os.MkdirAll(filepath.Join(folder, "sub"), 0o755))
			must(t, os.WriteFile(secret, []byte("x"), 0o644))
			say := func(args ...string) (string, error) {
				return inside(t, e, filepath.Join(folder, "sub"), Same(folder), args...)
			}
			is := func(want string, args ...string) {
				t.Helper()
				if got, err := say(args...); err != nil || got != want {
					t.Errorf("%v: %q, %v; want %q", args, got, err, want)
				}
			}
			no := func(args ...string) {
				t.Helper()
				out, err := say(args...)
				var ended *run.Error
				if !errors.As(err, &ended) || ended.Exit != 3 {
					t.Errorf("%v goes through: %q, %v", args, out, err)
				}
			}
			is(filepath.Join(folder, "sub")+" a b'c 3", "dir") // PATH, WORD and PWD, or fewer
			is("", "write", filepath.Join(folder, "out"))
			if data, err := os.ReadFile(filepath.Join(folder, "out")); err != nil || string(data) != "inside\n" {
				t.Errorf("what was written inside: %q, %v", data, err)
			}
			is("out\nsub", "list", folder)
			// Elsewhere inside than outside.
			moved := []Folder{{folder, "/at/a fixed/place"}}
			if got, err := inside(t, e, "/at/a fixed/place/sub", moved, "dir"); err != nil ||
				!strings.HasPrefix(got, "/at/a fixed/place/sub ") {
				t.Errorf("moved: %q, %v", got, err)
			}
			if got, err := inside(t, e, "", moved, "list", "/at/a fixed/place"); err != nil || got != "out\nsub" {
				t.Errorf("moved: %q, %v", got, err)
			}
			no("list", filepath.Dir(secret))
			no("write", "/usr/bin/evil")
			no("write", "/etc/evil")
			no("write", "/bin/evil")
			no("dial", listener.Addr().String())
			is("", "null", "")
			is("", "write", "/tmp/kept")
			if _, err := os.Stat(filepath.Join(e.tmp, "kept")); err != nil {
				t.Error(err)
			}
			if self, err := say("self"); err != nil || !strings.HasSuffix(self, "/usr/bin/probe") {
				t.Errorf("proc: %q, %v", self, err)
			}
			c, err := e.Wrap(run.Cmd{Argv: []string{"/usr/bin/no-such-program"}, Env: []string{"PATH=/usr/bin"}})
			must(t, err)
			wantErr(t, run.Run(t.Context(), c), "no-such-program")
			if at, err := mountedBelow(filepath.Dir(made.Root)); at != "" || err != nil {
				t.Errorf("still mounted: %s, %v", at, err)
			}
			if entries, _ := os.ReadDir(filepath.Join(filepath.Dir(made.Root), mountDir)); len(entries) != 0 {
				t.Errorf("left where the root is put together: %v", entries)
			}
		})
	}
	t.Run("runner", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "with space")
		must(t, os.Mkdir(folder, 0o755))
		prefix, err := e.Runner(t.Context(), folder, Same(folder)...)
		must(t, err)
		start := func(args ...string) *exec.Cmd {
			c := exec.CommandContext(t.Context(), prefix[0], slices.Concat(prefix[1:], []string{"/usr/bin/probe"}, args)...)
			c.Env, c.Dir = []string{"PATH=/usr/bin"}, folder
			return c
		}
		if out, err := start("dial", listener.Addr().String()).CombinedOutput(); err != nil {
			t.Errorf("this machine's network is not there: %v\n%s", err, out)
		}
		if out, err := start("dir").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), folder+" ") {
			t.Errorf("folder %q, %v", out, err)
		}
		// The process that was started is the program: the pid is its own.
		c := start("pid")
		out, err := c.Output()
		if must(t, err); strings.TrimSpace(string(out)) != strconv.Itoa(c.Process.Pid) {
			t.Errorf("it runs as process %s, %d was started", out, c.Process.Pid)
		}
		if _, err := e.Runner(t.Context(), folder, Same("/usr/share")...); err == nil ||
			!strings.Contains(err.Error(), "the root's own") {
			t.Errorf("a folder below /usr: %v", err)
		}
	})
	for _, c := range []struct {
		argv   []string
		folder string
		words  string
	}{
		{[]string{"gcc"}, "/tmp", "needs its whole path"},
		{[]string{"/usr/bin/probe"}, "/usr/src/llama", "/usr is the root's own"},
		{[]string{"/usr/bin/probe"}, "relative", "plain absolute path"},
		{[]string{"/usr/bin/probe"}, "/", "plain absolute path"},
		{[]string{"/usr/bin/probe"}, "/home/no/such/folder", "no such file"},
	} {
		_, err := e.Wrap(run.Cmd{Argv: c.argv}, Same(c.folder)...)
		wantErr(t, err, c.words)
	}
}

// TestAnybody makes and enters a root as a user that is not root.
func TestAnybody(t *testing.T) {
	m := newMirror(t)
	j := childJob{Decl: m.locked(), Cache: t.TempDir(), Mirror: m.url, Folder: t.TempDir()}
	var change func(*exec.Cmd)
	if os.Geteuid() == 0 {
		// The user must reach this program and the folders.
		dir, err := os.MkdirTemp("", "anybody")
		must(t, err)
		defer os.RemoveAll(dir)
		must(t, os.Chmod(dir, 0o755))
		data, err := os.ReadFile("/proc/self/exe")
		must(t, err)
		self := filepath.Join(dir, "env.test")
		must(t, os.WriteFile(self, data, 0o755))
		for _, sub := range []string{"cache", "folder"} {
			must(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
			must(t, os.Chown(filepath.Join(dir, sub), 65534, 65534))
		}
		j.Cache, j.Folder = filepath.Join(dir, "cache"), filepath.Join(dir, "folder")
		change = func(c *exec.Cmd) {
			c.Path, c.Args = self, []string{self}
			c.Dir = dir
			c.Env = append(c.Env, "TMPDIR=/tmp", "HOME="+dir)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
	}
	c, out := start(t, j, change)
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(j.Folder, "by-user")); err != nil || string(data) != "inside\n" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestOpenNotMade(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	_, err := Open(t.Context(), t.TempDir(), d, nil)
	var n *NotMade
	if !errors.As(err, &n) {
		t.Fatal(err)
	}
	wantErr(t, err, "llpatch env create tiny-1")
}
