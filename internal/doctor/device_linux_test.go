package doctor

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A device that is there and not the user's stops the user, who is told how to get it.
func TestDevice(t *testing.T) {
	file := put(t, filepath.Join(t.TempDir(), "kfd"), "", 0o600)
	var r Report
	r.device(file, "join")
	r.device(file+"-none", "join")
	if len(r.Findings) != 0 {
		t.Errorf("%+v", r.Findings)
	}
	must(t, os.Chmod(file, 0))
	done := make(chan int)
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
			}
		}
		r.device(file, "join")
	}()
	<-done
	if !has(&r, Missing, "device", "You may not use "+file+". [join]") || r.judge().Able {
		t.Errorf("%+v", r.Findings)
	}
}
