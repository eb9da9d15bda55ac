//go:build linux

package leak

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What compute-sanitizer prints where it did not do its work, from reports of its
// users, is no finding of nothing.
func TestSanitizerRefuses(t *testing.T) {
	for _, text := range []string{
		"Error: Device not supported. Please refer to the \"Supported Devices\" section of the sanitizer documentation",
		"Error: Target application terminated before first instrumented API call",
		"Error: No attachable process found. compute-sanitizer timed-out.",
		"Error: Failed to initialize WDDM debugger interface. Please run EnableDebuggerInterface.bat as an administrator",
		"Internal Sanitizer Error: The Sanitizer encountered an error while loading a CUDA module.",
	} {
		f, err := parseSanitizer([]byte("========= COMPUTE-SANITIZER\n========= " + text +
			"\n========= LEAK SUMMARY: 0 bytes leaked in 0 allocations\n========= ERROR SUMMARY: 0 errors\n"))
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, %+v", text, err, f)
		}
	}
	// A program's own exit code is none of that; and a list that was cut is said to be.
	f, err := parseSanitizer([]byte("========= LEAK SUMMARY: 8 bytes leaked in 200 allocations\n========= ERROR " +
		"SUMMARY: 200 errors\n" +
		"========= ERROR SUMMARY: 100 errors were not printed. Use --print-limit option\n========= Error: process didn't " +
		"terminate successfully\n"))
	if err != nil || f.Lost != 8 || f.Errors != 0 || len(f.Notes) != 1 {
		t.Errorf("%v, %+v", err, f)
	}
}

// Tools that are there and do not work: scripts that print what the real ones do.
func TestToolRefuses(t *testing.T) {
	for _, c := range []struct{ name, tool, script, why string }{
		{"memcheck", "compute-sanitizer", `while [ "$1" != --port ]; do prog=$arg; arg=$1; shift; done
echo '========= COMPUTE-SANITIZER'
echo '========= Error: Device not supported. Please refer to the "Supported Devices" section of the sanitizer documentation'
"$arg" "$@"
echo '========= LEAK SUMMARY: 0 bytes leaked in 0 allocations'
echo '========= ERROR SUMMARY: 0 errors'`, "memcheck: it says: Error: Device not supported."},
		{
			"memcheck", "compute-sanitizer", "echo '========= Error: No attachable process found.'; exit 255",
			"under memcheck: ",
		},
		{"nsys", "nsys", "echo \"unrecognised option '--cuda-memory-usage'\"; echo 'usage: nsys profile [<args>] " +
			"[application] [<application args>]'; exit 1", "unrecognised option"},
		{"nsys", "nsys", `while [ "$1" != --port ]; do arg=$1; shift; done; "$arg" "$@"; echo 'Importer error status: Importation failed.'`, "nsys: it wrote no report"},
		{
			"valgrind", "valgrind", `while [ "$1" != --port ]; do arg=$1; shift; done; HELPER="dies soon" exec "$arg" "$@"`,
			"under valgrind the server ended with exit code 1 after",
		},
	} {
		t.Run(c.name+" "+c.why, func(t *testing.T) {
			t.Parallel()
			o := options(t, "flat")
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.tool), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			o.Env = append(o.Env, "PATH="+dir+":"+os.Getenv("PATH"))
			o.With, o.Workload, o.Requests = []string{c.name}, "requests", 40
			res, err := Run(t.Context(), o)
			var n *NotRun
			if !errors.As(err, &n) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v", err)
			}
			if res == nil || len(res.Tools) != 0 {
				t.Errorf("%+v", res)
			}
			noProcess(t, mark(t))
		})
	}
}
