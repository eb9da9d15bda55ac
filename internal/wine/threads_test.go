//go:build linux

package wine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// threads destroys thread_local regular expressions as cpp-httplib's client does, in one thread
// after another.
const threads = `
#include <regex>
#include <string>
#include <thread>
#include <cstdio>

static int matches(const std::string & s) {
    thread_local const std::regex re("(HTTP/1\\.[01]) (\\d{3})(?: (.*?))?\r?\n");
    std::smatch m;
    return std::regex_match(s, m, re);
}

int main() {
    int n = 0;
    for (int i = 0; i < 50; i++) {
        std::thread t([&] { n += matches("HTTP/1.1 200 OK\r\n"); });
        t.join();
        std::string other(100 + i * 7, 'x'); // what was free is used
        n += other.size() == 1;
    }
    std::printf("%d\n", n);
}
`

// What the fix win7-thread-exit adds keeps such a program alive; without it, and with what it adds
// doing nothing, the heap breaks.
func TestThreadExit(t *testing.T) {
	program, found := Find()
	cxx, err := exec.LookPath("x86_64-w64-mingw32-g++-posix")
	if !found || err != nil {
		t.Skip("no wine64 or no MinGW-w64 (sh scripts/setup win7): the fix was not tried here")
	}
	patch, err := os.ReadFile(filepath.Join("..", "..", "patches", "win7-thread-exit", "b7263.patch"))
	if err != nil {
		t.Fatal(err)
	}
	var added string
	for line := range strings.Lines(string(patch)) {
		if text, ok := strings.CutPrefix(line, "+"); ok && !strings.HasPrefix(text, "++") {
			added += text
		}
	}
	const call = "abi::__cxa_thread_atexit(no_destructor, nullptr, nullptr);"
	if !strings.Contains(added, call) {
		t.Fatalf("the fix adds no %s", call)
	}
	dir := t.TempDir()
	w, err := Start(t.Context(), Options{
		Program: program, Version: spec.Win7, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		added string
		well  bool
	}{
		"with the fix":      {added, true},
		"without it":        {"", false},
		"with a broken one": {strings.Replace(added, call, "", 1), false},
	} {
		exe := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".exe")
		source := strings.TrimSuffix(exe, ".exe") + ".cpp"
		if err := os.WriteFile(source, []byte("#include <string>\n"+c.added+threads), 0o600); err != nil {
			t.Fatal(err)
		}
		// Everything static, as the toolchain links it.
		out, err := exec.CommandContext(t.Context(), cxx, "-O2", "-static", "-o", exe, source).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		argv := Argv(program, exe)
		limit, stop := context.WithTimeout(t.Context(), time.Minute) // with a broken heap it may hang as well
		run := exec.CommandContext(limit, argv[0], argv[1:]...)
		run.Env = w.Environ()
		run.WaitDelay = 30 * time.Second
		out, err = run.Output()
		stop()
		if well := err == nil && strings.TrimSpace(string(out)) == "50"; well != c.well {
			t.Errorf("%s: it printed %q and ended with %v", name, out, err)
		}
	}
}
