//go:build unix && !linux

package run

import (
	"os/exec"
	"syscall"
)

func ownGroup(x *exec.Cmd) { x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup signals the program's group and reports whether that was possible.
func endGroup(x *exec.Cmd, force bool) bool {
	sig := syscall.SIGTERM
	if force {
		sig = syscall.SIGKILL
	}
	return syscall.Kill(-x.Process.Pid, sig) == nil
}
