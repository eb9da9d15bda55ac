// Loader stands for a glibc's loader in tests of check.sh: with LD_TRACE_LOADED_OBJECTS it
// lists the libraries named in a file beside it, and where they lie. A script cannot, since
// its own shell would be listed.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := filepath.Dir(filepath.Dir(os.Args[0]))
	needs, err := os.ReadFile(filepath.Join(root, "lib64/needs"))
	if err != nil || os.Getenv("LD_TRACE_LOADED_OBJECTS") != "1" || len(os.Args) != 2 ||
		!strings.HasPrefix(os.Args[1], "./") {
		fmt.Fprintln(os.Stderr, "loader:", err, os.Args)
		os.Exit(1)
	}
	dirs := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	dirs = append(dirs, filepath.Join(root, "usr/lib/x86_64-linux-gnu"), filepath.Join(root, "opt/known/lib"))
	fmt.Println("\tlinux-vdso.so.1 (0x00007ffd918706000)")
	for _, lib := range strings.Fields(string(needs)) {
		at := "not found"
		for _, dir := range dirs {
			if _, err := os.Stat(filepath.Join(dir, lib)); err == nil {
				at = filepath.Join(dir, lib) + " (0x00007fd91850e000)"
				break
			}
		}
		fmt.Printf("\t%s => %s\n", lib, at)
	}
	fmt.Println("\t/lib64/ld-linux-x86-64.so.2 (0x00007fd918708000)")
}
