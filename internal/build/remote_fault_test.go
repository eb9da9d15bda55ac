//go:build linux

package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/sshd"
)

// What keeps ssh out is said, with no question asked.
func TestUnreachable(t *testing.T) {
	server := sshd.Start(t)
	for name, want := range map[string]string{
		sshd.Stranger: "its host key is not the one that is known",
		sshd.Unknown:  "Host key verification failed",
		sshd.Nowhere:  "Could not resolve hostname",
		sshd.Closed:   "Connection refused",
		sshd.Locked:   "Permission denied",
	} {
		h, err := ParseRemote("ssh:"+name, server.Env)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = RemoteOS(t.Context(), h)
		if e := new(RemoteError); !errors.As(err, &e) || e.Lost || !strings.Contains(err.Error(), want) || e.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
		if time.Since(start) > 20*time.Second {
			t.Errorf("%s took %v", name, time.Since(start))
		}
	}
	none, err := ParseRemote("ssh:box", []string{"PATH=/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RemoteOS(t.Context(), none); err == nil || !strings.Contains(err.Error(), "install openssh-client") {
		t.Errorf("without ssh: %v", err)
	}
	box, err := ParseRemote("ssh:box:/proc/no", server.Env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RemoteOS(t.Context(), box); err == nil || !strings.Contains(err.Error(), "/proc/no") {
		t.Errorf("a folder that cannot be made: %v", err)
	}
	// A Linux machine is no Windows machine.
	box.Dir = t.TempDir()
	if _, err := ProbeOn(t.Context(), box, spec.Toolchain{OS: "windows", VisualStudio: 2019},
		spec.Recipe{}); err == nil || !strings.Contains(err.Error(), "powershell.exe") {
		t.Errorf("as Windows: %v", err)
	}
}

// Of a Windows machine that is at fault, what its PowerShell says counts, and not what
// became of the question for Linux.
func TestWindowsFault(t *testing.T) {
	server := sshd.Start(t, forced(t, `case $c in powershell.exe*) echo 'Access to the path is denied.' >&2; exit `+
		remoteNoFolder+` ;; esac; echo "'exec' is not recognized" >&2; exit 1`))
	h, err := ParseRemote("ssh:"+sshd.Box, server.Env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RemoteOS(t.Context(), h); err == nil || !strings.Contains(err.Error(), "Access to the path is denied.") {
		t.Errorf("got %v", err)
	}
}

// Another llpatch in the folder is waited for, and then said.
func TestBusyHost(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("flock", filepath.Join(f.dir, ".lock"), "sleep", "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	eventually(t, "no lock", func() bool { _, err := os.Stat(filepath.Join(f.dir, ".lock")); return err == nil })
	time.Sleep(200 * time.Millisecond) // flock opens it before it locks it
	_, _, err := f.run(t.Context(), t)
	if err == nil || !strings.Contains(err.Error(), "another llpatch is at work in "+f.dir) {
		t.Errorf("%v", err)
	}
}

// A full disk there is called one, whether it is seen before or met on the way.
func TestFullHost(t *testing.T) {
	for name, options := range map[string]string{"bytes": "size=64k", "files": "size=64m,nr_inodes=12"} {
		t.Run(name, func(t *testing.T) {
			f := newFar(t)
			small := filepath.Join(t.TempDir(), "disk")
			if err := os.Mkdir(small, 0o755); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", small).CombinedOutput(); err != nil {
				t.Skipf("NOT RUN: no small disk can be made here: %s", out)
			}
			t.Cleanup(func() { _ = exec.Command("umount", "-l", small).Run() })
			f.in.Facts.Remote.Dir, f.dir = small, small
			for i := range 20 {
				write(t, f.in.Source, map[string]string{fmt.Sprintf("file%d.bin", i): strings.Repeat(fmt.Sprint(i), 4000)})
			}
			_, _, err := f.run(t.Context(), t)
			e := wantFailed(t, err)
			if e.Kind != KindDisk || e.Tag != "b100" || !strings.Contains(strings.ToLower(err.Error()),
				"no space left on device") || !strings.Contains(err.Error(), "box") {
				t.Errorf("%+v: %v", e, err)
			}
		})
	}
}
