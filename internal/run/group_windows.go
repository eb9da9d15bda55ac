package run

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from reaching the program before the caller decides.
func ownGroup(x *exec.Cmd) {
	x.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// endGroup can only end the program itself, and only by force.
func endGroup(x *exec.Cmd, force bool) bool {
	return force && x.Process.Kill() == nil
}
