package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// control talks to a supervisor over a socket whose other end only that
// supervisor has. The socket closes by itself when this process dies, however
// it dies; PDEATHSIG would not do, because it fires when a thread ends.
type control struct {
	cmd     *exec.Cmd
	conn    net.Conn
	in      *json.Decoder
	program int
	mu      sync.Mutex // one command at a time
}

// supervisorName is the first argument that makes this program a supervisor.
const supervisorName = "llpatch-supervisor"

// report is what a supervisor sends: first pid or error, last an end.
type report struct {
	Pid   int    `json:"pid,omitempty"`
	Errno int    `json:"errno,omitempty"` // why the program did not start
	End   *end   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
}

// order is what a supervisor gets.
type order struct {
	Stop   bool  `json:"stop,omitempty"`
	Grace  int64 `json:"grace,omitempty"` // milliseconds, negative: at once
	Signal int   `json:"signal,omitempty"`
}

// begin starts argv under a supervisor that has the streams, the environment
// and the folder of x.
func begin(x *exec.Cmd, argv []string, c Cmd) (*control, error) {
	if os.Args[0] == supervisorName {
		// A program that forgot Supervise would start itself for ever.
		return nil, errors.New("this supervisor did not reach run.Supervise: it must be the first call in main or TestMain")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "caller")
	defer theirs.Close()
	conn, err := net.FileConn(mine)
	mine.Close()
	if err != nil {
		return nil, err
	}
	x.Path = "/proc/self/exe" // still this program where its file was replaced or removed
	x.Args = append([]string{
		supervisorName,
		strconv.FormatInt(c.Grace.Milliseconds(), 10),
		strconv.Itoa(len(c.Hold)),
	}, argv...)
	x.ExtraFiles = append([]*os.File{theirs}, c.Hold...)
	// Not in the terminal's foreground group: Ctrl-C reaches the caller alone,
	// and the caller decides.
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := x.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("supervisor: %w", err)
	}
	ctl := &control{cmd: x, conn: conn, in: json.NewDecoder(conn)}
	theirs.Close() // or a dead supervisor would not be noticed here
	var r report
	if err := ctl.in.Decode(&r); err != nil {
		err = fmt.Errorf("supervisor: %w (does main call run.Supervise first?)", err)
		conn.Close()
		return nil, errors.Join(err, x.Process.Kill(), x.Wait())
	}
	if r.Pid == 0 {
		conn.Close()
		_ = x.Wait() // its exit code says what r says
		if r.Errno != 0 {
			return nil, syscall.Errno(r.Errno)
		}
		return nil, errors.New(r.Error)
	}
	ctl.program = r.Pid
	return ctl, nil
}

func (c *control) pid() int { return c.program }

func (c *control) signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v cannot be sent", sig)
	}
	return c.send(order{Signal: int(s)})
}

func (c *control) stop(grace time.Duration) {
	// A supervisor that cannot be reached has ended, or is about to be noticed by wait.
	_ = c.send(order{Stop: true, Grace: grace.Milliseconds()})
}

func (c *control) send(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.conn.Write(append(b, '\n'))
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
		return nil // it has ended
	}
	return err
}

func (c *control) wait() end {
	var r report
	err := c.in.Decode(&r)
	if err == nil && r.End == nil {
		err = errors.New("it sent no end")
	}
	if err != nil {
		// Somebody killed the supervisor. The program's own group is what can
		// still be reached from here.
		_ = syscall.Kill(-c.program, syscall.SIGKILL)
	}
	werr := c.cmd.Wait()
	c.mu.Lock()
	c.conn.Close()
	c.mu.Unlock()
	if err != nil {
		return end{Exit: -1, Lost: fmt.Sprintf("its supervisor ended early (%v)", errors.Join(werr, err))}
	}
	return *r.End
}
