package sim

import (
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
	stopWine()
	os.Exit(code)
}
