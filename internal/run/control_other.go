//go:build !linux

package run

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// control is the program itself: there is no supervisor here.
type control struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Supervise does nothing on this system.
func Supervise() {}

func begin(x *exec.Cmd, argv []string, _ Cmd) (*control, error) {
	x.Path, x.Args = argv[0], argv
	ownGroup(x)
	if err := x.Start(); err != nil {
		return nil, err
	}
	return &control{cmd: x, ended: make(chan struct{})}, nil
}

func (c *control) pid() int { return c.cmd.Process.Pid }

func (c *control) signal(sig os.Signal) error {
	if err := c.cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// stop asks the group to end, and ends it by force when the grace is over.
func (c *control) stop(grace time.Duration) {
	if grace <= 0 || !endGroup(c.cmd, false) {
		endGroup(c.cmd, true)
		return
	}
	go func() {
		select {
		case <-c.ended:
		case <-time.After(grace):
			endGroup(c.cmd, true)
		}
	}()
}

func (c *control) wait() end {
	err := c.cmd.Wait()
	close(c.ended)
	endGroup(c.cmd, true) // what it left in its group
	st := c.cmd.ProcessState
	e := end{Exit: st.ExitCode()}
	if e.Exit < 0 {
		e.Signal = st.String()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		e.Lost = err.Error()
	}
	return e
}
