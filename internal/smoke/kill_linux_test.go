package smoke

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// After kill -9 of llpatch in the middle of a parallel check no process and no
// port is left, whether the server wants to end or not.
func TestKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"takes its time", "ignores sigterm"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir, work := fakeBuild(t), filepath.Join(t.TempDir(), "smoke")
			c := exec.CommandContext(t.Context(), filepath.Join(dir, "smoke-runner"), work)
			c.Env = append(os.Environ(), "FAKE="+mode)
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			port := ""
			for range 400 {
				// The log begins with the command, and names the port.
				b, _ := os.ReadFile(filepath.Join(work, "server-1.log"))
				if _, rest, ok := strings.Cut(string(b), "--port "); ok && taken(atoi(strings.Fields(rest)[0])) {
					port = strings.Fields(rest)[0]
					break
				}
				time.Sleep(25 * time.Millisecond)
			}
			if port == "" {
				t.Fatalf("no server came up: %s", out.String())
			}
			time.Sleep(200 * time.Millisecond) // into the requests
			if len(processesOf(t, work)) == 0 {
				t.Fatal("the server is not to be found, so its end would not be seen")
			}
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait() // it was killed
			var left []string
			for range 1200 {
				if left = processesOf(t, work); len(left) == 0 && !taken(atoi(port)) {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Errorf("left: %v, port %s taken: %v", left, port, taken(atoi(port)))
		})
	}
}

// processesOf lists what runs with a folder as its own or in its arguments.
func processesOf(t *testing.T, dir string) (found []string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		cmd, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if cwd == dir || bytes.Contains(cmd, []byte(dir)) {
			found = append(found, filepath.Base(p)+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return found
}
