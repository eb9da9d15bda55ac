package sim

import (
	"fmt"
	"os"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestMain(m *testing.M) {
	run.Supervise()
	code := m.Run()
	for _, dir := range []string{theRuntime.out, theDLLs.out} {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	if err := stopWine(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
