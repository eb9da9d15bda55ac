//go:build linux

package wine

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// noRandomize is ADDR_NO_RANDOMIZE of personality(2).
const noRandomize = 0x40000

func TestMain(m *testing.M) {
	run.Supervise()
	os.Exit(m.Run())
}

// A pipe of a program ends with the program: no service of wine's, which goes on, has it
// too. One that the services were started with hung for as long as wine ran.
func TestPipes(t *testing.T) {
	program, found := Find()
	if !found {
		t.Skip("no wine64 (sh scripts/setup win7): wine was not started here")
	}
	dir := t.TempDir()
	w, err := Start(t.Context(), Options{
		Program: program, Version: spec.Win7, Dir: dir,
		Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "MARK=" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.Says, versions[spec.Win7]) {
		t.Errorf("it says %q", w.Says)
	}
	for _, argv := range [][]string{{"winecfg", "-v", "win7"}, {"cmd", "/c", "ver"}, {"reg", "query", `HKLM\Software`}} {
		argv := Argv(program, argv...)
		c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		c.Env = w.Environ()
		c.WaitDelay = 30 * time.Second
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", argv, err, out)
		}
	}
	// No process of wine's has its heap where chance puts it, or some would not start.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	processes := slices.DeleteFunc(running(t, dir), func(f string) bool {
		exe, _ := os.Readlink(filepath.Join(filepath.Dir(f), "exe"))
		return exe == self // the supervisor, which has wine's environment
	})
	if len(processes) < 3 {
		t.Errorf("wine's processes: %v", processes)
	}
	for _, f := range processes {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(f), "personality"))
		persona, err2 := strconv.ParseUint(strings.TrimSpace(string(text)), 16, 32)
		if err := errors.Join(err, err2); err != nil || steady() != nil && persona&noRandomize == 0 {
			t.Errorf("%s: personality %q, %v", f, text, err)
		}
	}
	if steady() == nil {
		t.Log("NOT CHECKED: setarch -R is missing or not allowed here, and wine's processes may fail to start")
	}
	if err := w.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "wine")); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
}

// asks looks for the certificate in argv[1] in the store that TLS libraries read on Windows.
const asks = `#include <windows.h>
#include <wincrypt.h>
#include <stdio.h>
int main(int n, char **arg) {
    static unsigned char der[4096];
    FILE *f = fopen(arg[1], "rb");
    size_t size = fread(der, 1, sizeof der, f);
    HCERTSTORE store = CertOpenSystemStoreA(0, "ROOT");
    for (PCCERT_CONTEXT c = 0; (c = CertEnumCertificatesInStore(store, c));)
        if (c->cbCertEncoded == size && !memcmp(c->pbCertEncoded, der, size)) return puts("trusted") < 0;
    return puts("unknown") < 0;
}
`

func TestTrust(t *testing.T) {
	program, found := Find()
	gcc, err := exec.LookPath("x86_64-w64-mingw32-gcc-posix")
	if !found || err != nil {
		t.Skip("no wine64 or no MinGW (sh scripts/setup win7): no store of certificates was asked here")
	}
	dir := t.TempDir()
	source, asking, file := filepath.Join(dir, "asks.c"), filepath.Join(dir, "asks.exe"), filepath.Join(dir, "der")
	server := httptest.NewTLSServer(nil)
	server.Close()
	der := server.Certificate().Raw
	err = errors.Join(os.WriteFile(source, []byte(asks), 0o644), os.WriteFile(file, der, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), gcc, "-o", asking, source, "-lcrypt32").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w, err := Start(t.Context(), Options{
		Program: program, Version: spec.Win7, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop(context.WithoutCancel(t.Context()))
	for _, want := range []string{"unknown", "trusted"} {
		if out, err := w.own(t.Context(), "cmd", "/c", asking+" "+file); err != nil || out != want {
			t.Errorf("%s, %v, want %s", out, err, want)
		}
		if err := w.Trust(t.Context(), der); err != nil {
			t.Error(err)
		}
	}
}
