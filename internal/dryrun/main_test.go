package dryrun

import (
	"os"
	"testing"

	"github.com/llpatch/llpatch/internal/run"
)

func TestMain(m *testing.M) {
	run.Supervise()
	os.Exit(m.Run())
}
