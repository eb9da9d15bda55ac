package cli_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kit writes a buildenv with one archive of NVIDIA's, which lies below url, and a lock.
func (w workplace) kit(url, lock string) (dir string) {
	w.t.Helper()
	dir = filepath.Join(w.dir, "decl/buildenv/kit")
	text := fmt.Sprintf("summary = \"for this test\"\narch = \"amd64\"\nroom-mib = 1\nholds = [\"x\"]\n[redist]\nurl = "+
		"%q\nrelease = \"11.4.4\"\nlinux = [\"a\"]\n", url)
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "env.toml"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "packages.lock"), []byte(lock), 0o644))
	if err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// oldLock is a lock of the buildenv kit.
var oldLock = fmt.Sprintf("redist 11.4.4 amd64\na 1 linux-x86_64 6 0 %064d a/a-old.tar.xz\n", 7)

// Ctrl+C while an archive comes: the lock so far stays.
func TestLockInterrupted(t *testing.T) {
	w := newWorkplace(t)
	asked := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".json") {
			_, _ = fmt.Fprintf(rw, `{"a": {"version": "2", "linux-x86_64": {"relative_path": "a/a.tar.xz", "sha256": "%x", "size": "100"}}}`, sha256.Sum256(nil))
			return
		}
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	dir := w.kit(s.URL, oldLock)
	c, out := w.command(t.Context())
	c.Args = []string{c.Path, "-C", "decl", "env", "create", "kit", "--update-lock"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("%v\n%s", err, out)
	}
	if left, err := os.ReadFile(filepath.Join(dir, "packages.lock")); err != nil || string(left) != oldLock {
		t.Errorf("%v\n%s", err, left)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// A lock that cannot be written is said to be so before anything is fetched.
func TestLockUnwritable(t *testing.T) {
	w := newWorkplace(t)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s", r.URL)
	}))
	t.Cleanup(s.Close)
	dir := w.kit(s.URL, oldLock)
	if out, err := exec.Command("mount", "--bind", "-o", "ro", dir, dir).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no folder can be made read only here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	c, out := w.command(t.Context())
	c.Args = []string{c.Path, "-C", "decl", "env", "create", "kit", "--update-lock"}
	if err := c.Run(); err == nil || !strings.Contains(out.String(), "packages.lock") ||
		!strings.Contains(out.String(), "read-only file system") {
		t.Errorf("%v\n%s", err, out)
	}
}
