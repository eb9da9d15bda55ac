//go:build linux

package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/sshd"
)

// forced is a line of sshd_config that has a script run every command; the command is $c.
// sftp is a program there, as where a login shell starts it.
func forced(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "login")
	text := "#!/bin/sh\nc=$SSH_ORIGINAL_COMMAND\ncase $c in internal-sftp|*/sftp-server) c=$(ls " +
		"/usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server 2>/dev/null) ;; esac\n" + script + "\n"
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return "ForceCommand " + file
}

// Whichever login shell is there, and whatever it prints before a command.
func TestLoginShells(t *testing.T) {
	for name, script := range map[string]string{
		"csh":    `exec tcsh -c "$c"`,
		"chatty": `case $c in */sftp-server) ;; *) echo 'Welcome {to} box'; echo 'You have mail.' >&2 ;; esac; exec sh -c "$c"`,
	} {
		t.Run(name, func(t *testing.T) {
			program := strings.Fields(script)[1]
			if _, err := exec.LookPath(program); name != "chatty" && err != nil {
				t.Skipf("NOT RUN: there is no %s here", program)
			}
			f := newFar(t, forced(t, script))
			if art, said := f.must(t); art.Compiled != 2 || !strings.Contains(said, "copied") {
				t.Errorf("%+v\n%s", art, said)
			}
			if art, said := f.must(t); art.Compiled != 0 || strings.Contains(said, "copied") {
				t.Errorf("again: %+v\n%s", art, said)
			}
		})
	}
}

// What is wrong there and stays so is not called a lost connection.
func TestHostFaults(t *testing.T) {
	tools := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("sh mkdir uname sha256sum find df awk chmod mv rm base64") {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(tools, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		line, want string
	}{
		"no sftp": {line: "Subsystem other internal-sftp", want: "its ssh server has no sftp"},
		"loud sftp": {
			line: forced(t, `echo Welcome; exec sh -c "$c"`),
			want: "the shell there prints something before sftp starts",
		},
		"no account": {
			line: forced(t, `echo "This account is currently not available."; exit 1`),
			want: "This account is currently not available.",
		},
		"no compiler": {
			line: forced(t, "PATH="+tools+`; exec sh -c "$c"`),
			want: "toolchain gcc: ssh:box lacks what it needs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := sshd.Start(t, c.line)
			host, err := ParseRemote("ssh:"+sshd.Box+":"+filepath.Join(t.TempDir(), "there"), server.Env)
			if err != nil {
				t.Fatal(err)
			}
			in := smallInput(t, filepath.Join(t.TempDir(), "here"))
			_, err = ProbeOn(t.Context(), host, in.Toolchain, in.Recipe)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v", err)
			}
			if f := new(RemoteError); errors.As(err, &f) &&
				(f.Lost || strings.Contains(f.Hint(), "run the same command again")) {
				t.Errorf("lost: %v; %s", f.Lost, f.Hint())
			}
		})
	}
}

// A folder there that cannot be used is that machine's, and --out would not help.
func TestHostFolders(t *testing.T) {
	server := sshd.Start(t)
	top := t.TempDir()
	odd := filepath.Join(top, "it's odd")
	if err := errors.Join(os.Mkdir(odd, 0o755), os.Symlink(odd, filepath.Join(top, "link")),
		os.WriteFile(filepath.Join(top, "file"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"link": "which CMake or a compiler would misread", "file": "File exists",
		"file/below": "Not a directory",
	} {
		host, err := ParseRemote("ssh:"+sshd.Box+":"+filepath.Join(top, name), server.Env)
		if err != nil {
			t.Fatal(err)
		}
		in := smallInput(t, filepath.Join(t.TempDir(), "here"))
		_, err = ProbeOn(t.Context(), host, in.Toolchain, in.Recipe)
		f := new(RemoteError)
		if !errors.As(err, &f) || errors.As(err, new(*BadFolder)) || !strings.Contains(err.Error(), want) ||
			f.Hint() != "--on ssh:box:DIR takes another folder there" {
			t.Errorf("%s: %v; %s", name, err, f.Hint())
		}
	}
}

// A disk that takes not even llpatch itself is called full, and nothing of it is left.
func TestFullHostForSelf(t *testing.T) {
	server := sshd.Start(t)
	in := smallInput(t, filepath.Join(t.TempDir(), "here"))
	for name, c := range map[string]struct{ options, want string }{
		"bytes": {"size=1m", "no space left on device: box has 1 MiB free below "},
		"files": {"size=200m,nr_inodes=3", "the disk there may be full"},
	} {
		small := filepath.Join(t.TempDir(), "disk")
		if err := os.Mkdir(small, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", c.options, "tmpfs", small).CombinedOutput(); err != nil {
			t.Skipf("NOT RUN: no small disk can be made here: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", "-l", small).Run() })
		host, err := ParseRemote("ssh:"+sshd.Box+":"+filepath.Join(small, "there"), server.Env)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ProbeOn(t.Context(), host, in.Toolchain, in.Recipe)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(small, "there/.llpatch/*")); len(left) > 0 {
			t.Errorf("%s: left behind: %q", name, left)
		}
	}
}

// Two llpatch at once, in one folder or in two that share one llpatch there: neither takes
// the other's copy for damaged, or away.
func TestTwoOnHost(t *testing.T) {
	server := sshd.Start(t)
	top := t.TempDir()
	host, err := ParseRemote("ssh:"+sshd.Box+":"+filepath.Join(top, "there"), server.Env)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 3 {
		in := smallInput(t, filepath.Join(top, fmt.Sprint("here", i)))
		write(t, in.Source, map[string]string{"big.bin": strings.Repeat("0123456789", 1<<20)})
		all.Go(func() {
			var err error
			if in.Facts, err = ProbeOn(t.Context(), host, in.Toolchain, in.Recipe); err != nil {
				t.Error(err)
				return
			}
			in.Facts.Remote.Dir = filepath.Join(top, "there", fmt.Sprint(i/2))
			plan, err := NewPlan(in)
			if err == nil {
				_, err = Run(t.Context(), plan, RunOptions{Log: filepath.Join(top, fmt.Sprint("log", i)), On: &host})
			}
			if err != nil && !strings.Contains(err.Error(), "another llpatch is at work") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	left, _ := filepath.Glob(filepath.Join(top, "there/*/[tg]*e-*"))
	more, _ := filepath.Glob(filepath.Join(top, "there/.llpatch/new.*"))
	if left = append(left, more...); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// What a killed run left goes with the next copy, an hour later.
func TestStaleCopies(t *testing.T) {
	f := newFar(t)
	write(t, f.dir, map[string]string{
		takeName("old") + archiveEnd: "x", giveName("old") + archiveEnd: "x",
		takeName("old") + "/src/main.c": "x",
	})
	past := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{takeName("old") + archiveEnd, giveName("old") + archiveEnd, takeName("old")} {
		if err := os.Chtimes(filepath.Join(f.dir, name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	f.must(t)
}

// A clock there that went back: as here.
func TestClockWentBackThere(t *testing.T) {
	f := newFar(t)
	f.must(t)
	future := time.Now().Add(48 * time.Hour)
	err := filepath.Walk(filepath.Join(f.dir, "build"), func(name string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Chtimes(name, future, future))
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.in.Source, map[string]string{"greet.c": "const char *greet(void) { return \"changed\"; }\n"})
	f.must(t)
	if out, err := exec.Command(filepath.Join(f.in.Dir, "bin/small")).Output(); err != nil ||
		!strings.HasPrefix(string(out), "changed ") {
		t.Errorf("it prints %q, %v", out, err)
	}
	if art, _ := f.must(t); art.Compiled != 0 {
		t.Errorf("a second run compiled %d", art.Compiled)
	}
}
