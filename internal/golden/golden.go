// Package golden compares what a test has got with a kept file, which go test -update
// writes anew. Only tests import it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Update reports whether kept files are to be written, not compared.
func Update() bool { return *update }

// Check fails the test where the file holds anything else than got.
func Check[T string | []byte](tb testing.TB, file string, got T) {
	tb.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatalf("%v (go test -update writes it)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		tb.Errorf("%s (-want +got; go test -update writes it anew):\n%s", file, d)
	}
}
