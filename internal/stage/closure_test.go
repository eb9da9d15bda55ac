package stage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Windows finds a DLL whatever the case of its name, and a program by its name
// with .exe.
func TestClosureOfWindowsFiles(t *testing.T) {
	bin := t.TempDir()
	for from, to := range map[string]string{"app.exe": "app.exe", "helper.dll": "HELPER.DLL"} {
		data, err := os.ReadFile(filepath.Join("../binary/testdata/pe", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, to), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := closure(bin, []string{"HELPER.DLL", "app.exe", "other.dll"}, []string{"app"}, nil)
	if err != nil || !slices.Equal(got, []string{"HELPER.DLL", "app.exe"}) {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, err := closure(bin, nil, []string{"none"}, nil); err == nil ||
		!strings.Contains(err.Error(), "program none was not built") {
		t.Errorf("a program that is not there: %v", err)
	}
}
