package wine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

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
	w, err := Start(t.Context(), Options{Program: program, Version: spec.Win7, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.Says, versions[spec.Win7]) {
		t.Errorf("it says %q", w.Says)
	}
	for _, argv := range [][]string{{"winecfg", "-v", "win7"}, {"cmd", "/c", "ver"}, {"reg", "query", `HKLM\Software`}} {
		c := exec.CommandContext(t.Context(), program, argv...)
		c.Env = w.Environ()
		c.WaitDelay = 30 * time.Second
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", argv[0], err, out)
		}
	}
	if err := w.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "wine")); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
}
