package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/spec"
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
		r, err := Bundle(ctx, env, spec.Advisories{}, file)
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
	sh(t, dir, "mkdir part sums; echo x > part/a.tar.gz.part001; mkfifo part/a.tar.gz.part002; echo x > "+
		"sums/a.tar.gz.part001; mkfifo sums/SHA256SUMS")
	refused(t, filepath.Join(dir, "part", "a.tar.gz.part001"), "a.tar.gz.part002: it is not a regular file")
	refused(t, filepath.Join(dir, "sums", "a.tar.gz.part001"), "SHA256SUMS: it is not a regular file")
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

// Names of others do not reach the terminal as what it obeys.
func TestControl(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, `name=$(printf 'x\033]0;owned\007\nok\377'); printf '\177ELF and no more' > "bun/$name"; mkdir y; cp "bun/$name" y; tar -czf a.tgz bun; tar -czf b.tgz y`)
	r, err := soon(t, filepath.Join(dir, "a.tgz"))
	must(t, err)
	if !has(r, Missing, "bundle", `x\x1b]0;owned\a\nok\xff cannot be read: `) ||
		strings.ContainsAny(r.Text()+r.Err().Error(), "\x1b\a") {
		t.Errorf("%q", r.Text())
	}
	refused(t, filepath.Join(dir, "b.tgz"), `x\x1b]0;owned\a\nok\xff cannot be read: `)
}

// A link that leads to no file, and why a file cannot be read, are said in words.
func TestPipeLibrary(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, "cp bun/bin/prog .; mkfifo libf.so.0; mkdir lib; gcc -Wl,-rpath,'$ORIGIN' -o prog m.c -Lbun/lib "+
		"-l:libf.so.0")
	r, err := soon(t, filepath.Join(dir, "prog"))
	must(t, err)
	if !has(r, Missing, "bundle", "libf.so.0 cannot be read: ") || !has(r, Missing, "bundle", "it is not a regular file") {
		t.Errorf("\n%s", r.Text())
	}
}

// A part that is left over from elsewhere is named, whatever it holds.
func TestPartTooMany(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]string{
		"garbage":         "echo x > a.tar.gz.part004",
		"the first again": "cp a.tar.gz.part001 a.tar.gz.part004",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := laid(t)
			sh(t, dir, "tar -czf a.tar.gz bun; split -n 3 --numeric-suffixes=1 -a 3 a.tar.gz a.tar.gz.part; cat "+
				"a.tar.gz.part* | cmp - a.tar.gz")
			part := filepath.Join(dir, "a.tar.gz.part002")
			if r, err := soon(t, part); err != nil || !r.Able {
				t.Fatalf("%v", err)
			}
			sh(t, dir, extra)
			refused(t, part, "a.tar.gz.part004 does not belong to it: the archive ends before")
			sh(t, dir, "sha256sum a.tar.gz.part00[123] > SHA256SUMS")
			refused(t, part, "a.tar.gz.part004 does not belong to it: SHA256SUMS does not name it")
		})
	}
}

// An archive of several members is one archive.
func TestMembers(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, "tar -cf a.tar bun; head -c 9000 a.tar | gzip > a.tar.gz; tail -c +9001 a.tar | gzip >> a.tar.gz")
	if r, err := soon(t, filepath.Join(dir, "a.tar.gz")); err != nil || !r.Able {
		t.Errorf("%v", err)
	}
}

// As many links as an archive may hold take no time to speak of.
func TestManyLinks(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	for n := range 9000 {
		must(t, os.Symlink("../bin", filepath.Join(dir, "bun", "lib", fmt.Sprintf("link%d", n))))
	}
	sh(t, dir, "tar -czf a.tgz bun")
	if r, err := soon(t, filepath.Join(dir, "a.tgz")); err != nil || !r.Able {
		t.Errorf("%v", err)
	}
}

// Nothing that came out of a bundle is run: not its check.sh, no program or library of it, and none
// that is called as a tool of the system, also where the PATH leads into it.
func TestNothingRun(t *testing.T) {
	dir := makeBundle(t, true)
	ran := filepath.Join(t.TempDir(), "ran")
	leaves := put(t, filepath.Join(t.TempDir(), "a.c"), fmt.Sprintf("#include <stdio.h>\n__attribute__((constructor)) "+
		"static void f(void) { fclose(fopen(%q, \"w\")); }\nint main(void) { return 0; }\n", ran), 0o644)
	gcc(t, "-shared", "-fPIC", "-Wl,-soname,libggml-base.so.0", "-o", filepath.Join(dir, "libggml-base.so.0"), leaves)
	gcc(t, "-o", filepath.Join(dir, "llama-cli"), leaves)
	for _, name := range []string{"check.sh", "ldconfig", "getconf", "ldd", "nvidia-smi", "llama-server.sh"} {
		put(t, filepath.Join(dir, name), "#!/bin/sh\n: > "+ran+"\n", 0o755)
	}
	packed := filepath.Join(t.TempDir(), "llama-b1-llp1-bin-linux-cuda-x64.tar.gz")
	sh(t, filepath.Dir(dir), "tar -czf "+packed+" "+filepath.Base(dir))
	t.Chdir(dir)
	env := none(t)
	env[0] = strings.Replace(env[0], "=", "=.::", 1)
	for _, file := range []string{dir, ".", packed, "llama-cli"} {
		r, err := Bundle(t.Context(), env, spec.Advisories{}, file)
		must(t, err)
		if r.Kind == KindBundle && !has(r, Missing, "card", bundle.HintNVIDIA) {
			t.Errorf("%s:\n%s", file, r.Text())
		}
		if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: something was run: %v", file, err)
		}
	}
	sh(t, dir, "./llama-cli") // it does leave a file
	if _, err := os.Stat(ran); err != nil {
		t.Fatal(err)
	}
}
