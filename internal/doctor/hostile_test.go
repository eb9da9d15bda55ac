package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// soon runs Bundle, which must end of itself.
func soon(t *testing.T, file string) (*Report, error) {
	t.Helper()
	type result struct {
		r   *Report
		err error
	}
	done := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	env := none(t)
	go func() {
		r, err := Bundle(ctx, env, file)
		done <- result{r, err}
	}()
	select {
	case got := <-done:
		if ctx.Err() != nil {
			t.Fatalf("%s: took too long", file)
		}
		return got.r, got.err
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: hangs", file)
	}
	return nil, nil
}

func sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func refused(t *testing.T, file, say string) {
	t.Helper()
	_, err := soon(t, file)
	var bad *NotBundle
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), say) {
		t.Errorf("%s: got %v, want %q", file, err, say)
	}
}

// A pipe beside the parts is not waited for.
func TestPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, "mkdir part sums; echo x > part/a.tar.gz.part001; mkfifo part/a.tar.gz.part002; echo x > sums/a.tar.gz.part001; mkfifo sums/SHA256SUMS")
	refused(t, filepath.Join(dir, "part", "a.tar.gz.part001"), "a.tar.gz.part002: is not a regular file")
	refused(t, filepath.Join(dir, "sums", "a.tar.gz.part001"), "SHA256SUMS: is not a regular file")
}

// A few bytes of an archive may stand for a file of any size, which is not laid down.
func TestSparse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, `mkdir b; printf '\177ELF' > b/prog; truncate -s 1T b/prog; tar -S --format=posix -czf sparse.tgz b; rm -r b`)
	refused(t, filepath.Join(dir, "sparse.tgz"), "holds more than any bundle does")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}
