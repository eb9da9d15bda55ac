//go:build linux

package leak

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/wine"
)

// A real Windows program under wine.
func TestWine(t *testing.T) {
	gcc, gerr := exec.LookPath("x86_64-w64-mingw32-gcc")
	program, found := wine.Find()
	if gerr != nil || !found {
		t.Skip("no wine64 or no MinGW-w64 (sh scripts/setup win7): no Windows program was run under wine")
	}
	dir := t.TempDir()
	prog := filepath.Join(dir, "grows.exe")
	if out, err := exec.Command(gcc, "-O0", "-o", prog, "testdata/grows.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := options(t, "")
	o.Argv = wine.Argv(program, prog)
	o.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "WINEPREFIX=" + filepath.Join(dir, "prefix"),
		"WINEDEBUG=-all",
	}
	argv := wine.Argv(program, "wineboot", "-i")
	boot := exec.Command(argv[0], argv[1:]...) // takes its time, which is no memory of the program's
	boot.Env = o.Env
	if out, err := boot.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := exec.Command(filepath.Join(filepath.Dir(program), "wineserver"), "-k")
	server.Env = o.Env
	_ = server.Run() // or it would go on for some seconds
	res, err := Run(t.Context(), o)
	var grew *Grew
	if !errors.As(err, &grew) || res.Place != "wine" {
		t.Fatalf("%v\n%+v", err, res)
	}
	// 150 MiB in 600 steps, and what wine itself takes.
	v, _ := res.verdict(memory.Anon)
	if peak := float64(v.Peak); peak < 150<<20 || peak > 250<<20 ||
		!strings.Contains(v.String(), "anonymous memory grows by") {
		t.Errorf("%v, peak %d", v, v.Peak)
	}
	if res.ExitCode == nil || *res.ExitCode != 0 {
		t.Errorf("%s", res.Text())
	}
}
