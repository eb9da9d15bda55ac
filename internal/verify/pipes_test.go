//go:build unix

package verify

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
)

// What is no archive is the command line's fault, and what is one by its name and cannot be read is wrong.
func TestNoArchive(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("pipe.tar.gz"), 0o600), os.Symlink("nowhere", at("dead.tar.gz")),
		os.Symlink("pipe.tar.gz", at("link.zip")), os.WriteFile(at("page.md"), []byte("a text"), 0o600),
		os.WriteFile(at("page.zip"), []byte("a text"), 0o600), os.WriteFile(at("none.tar.gz"), nil, 0o600),
		os.Mkdir(at("folder"), 0o700), os.Symlink("../pipe.tar.gz", at("folder/x.zip"))); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"pipe.tar.gz": "is no regular file", "dead.tar.gz": "is a link to what is not there",
		"link.zip": "is no regular file",
		"page.md":  "is no archive", "folder": "x.zip is no regular file",
	} {
		_, err := Path(t.Context(), at(name), Options{})
		if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %d, %v", name, exit.Code(err), err)
		}
	}
	for _, name := range []string{"page.zip", "none.tar.gz"} {
		if err := one(t.Context(), t, at(name), Options{}).Err(); exit.Code(err) != exit.Smoke {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Path(t.Context(), at("nothing.zip"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	// What lies beside an archive, and is no file
	k, public := newKey(t)
	const name = "llama-b8833-llp1-bin-linux-cpu-x64.tar.gz"
	for _, name := range []string{"SHA256SUMS", "SHA256SUMS.minisig", name + ".minisig"} {
		archive := release(t, t.TempDir(), "b8833", spec.TarGz, &k)
		pipe := filepath.Join(filepath.Dir(archive), name)
		if err := errors.Join(os.Remove(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := one(t.Context(), t, archive, Options{Key: public, Version: "test"}).Err(); exit.Code(err) != exit.Smoke ||
			!strings.Contains(err.Error(), name+", beside it, is no regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
