package sim

import (
	"os"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestMain(m *testing.M) {
	run.Supervise()
	code := m.Run()
	if theRuntime.out != "" {
		_ = os.RemoveAll(theRuntime.out)
	}
	os.Exit(code)
}
