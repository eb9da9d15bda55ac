package source

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAddressFrom(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "odd:name"), 0o755))
	for in, want := range map[string]string{
		"":                                 "",
		"up":                               filepath.Join(dir, "up"),
		"../up":                            filepath.Join(filepath.Dir(dir), "up"),
		"files/{tag}.tar.gz":               filepath.Join(dir, "files/{tag}.tar.gz"),
		"odd:name":                         filepath.Join(dir, "odd:name"),
		"/abs/up":                          "/abs/up",
		"git@example.com:llama.cpp":        "git@example.com:llama.cpp",
		"https://example.com/{tag}.tar.gz": "https://example.com/{tag}.tar.gz",
		"file:///abs/up":                   "file:///abs/up",
	} {
		if got, err := AddressFrom(dir, in); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", in, got, err, want)
		}
	}
	t.Chdir(dir)
	if got, err := AddressFrom(".", "up"); err != nil || got != filepath.Join(dir, "up") {
		t.Errorf("from the working folder: %q %v", got, err)
	}
}
