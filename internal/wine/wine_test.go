//go:build linux

package wine

import (
	"context"
	"errors"
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
