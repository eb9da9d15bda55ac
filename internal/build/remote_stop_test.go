//go:build linux

package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// slowly makes the build of the small upstream wait, in a program whose arguments
// nothing else has, and returns what tells whether it runs.
func (f *far) slowly(t *testing.T) (running func() bool) {
	t.Helper()
	seconds := fmt.Sprintf("6%d.%d", time.Now().Nanosecond()%100, os.Getpid())
	write(t, f.in.Source, map[string]string{
		"CMakeLists.txt": small["CMakeLists.txt"] + "add_custom_command(OUTPUT slow.h COMMAND sleep " + seconds +
			")\nadd_custom_target(slow DEPENDS slow.h)\nadd_dependencies(small slow)\n",
	})
	return func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		return slices.ContainsFunc(files, func(file string) bool {
			text, _ := os.ReadFile(file) // a process that has ended
			return string(text) == "sleep\x00"+seconds+"\x00"
		})
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal(what)
		}
	}
}

// Ctrl+C ends the build there too; a lost connection does so as well, and is said.
func TestRunOnStops(t *testing.T) {
	f := newFar(t)
	running := f.slowly(t)
	for _, how := range []string{"cancel", "cut"} {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan time.Time, 1)
		go func() {
			eventually(t, "it does not run", running)
			stopped <- time.Now()
			if how == "cut" {
				f.Cut()
			} else {
				cancel()
			}
		}()
		_, _, err := f.run(ctx, t)
		cancel()
		switch lost := new(RemoteError); {
		case how == "cancel" && (!errors.Is(err, context.Canceled) || running()):
			t.Errorf("%s: %v, still running: %v", how, err, running())
		case how == "cut" && (!errors.As(err, &lost) || !lost.Lost ||
			!strings.Contains(err.Error(), "ssh:box: the connection was lost")):
			t.Errorf("%s: %v", how, err)
		}
		if took := time.Since(<-stopped); took > 25*time.Second {
			t.Errorf("%s took %v", how, took)
		}
		eventually(t, how+": it runs on there", func() bool { return !running() })
	}
	write(t, f.in.Source, map[string]string{"CMakeLists.txt": small["CMakeLists.txt"]})
	if art, _ := f.must(t); len(art.Files) != 4 {
		t.Errorf("afterwards: %+v", art)
	}
}

// A copy that is stopped leaves nothing, whichever way.
func TestCopyStops(t *testing.T) {
	f := newFar(t)
	big := make([]byte, 64<<20)
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	write(t, f.in.Source, map[string]string{"big.bin": string(big)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "nothing arrives", func() bool {
			files, _ := filepath.Glob(filepath.Join(f.dir, takeName("*")+archiveEnd))
			return len(files) > 0
		})
		cancel()
	}()
	if _, _, err := f.run(ctx, t); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	cancel()
	if _, err := os.Stat(filepath.Join(f.dir, "src", "main.c")); err == nil {
		t.Error("a part of the source is there")
	}
	f.must(t)
}
