package run

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supervise must be the first call in main and in every TestMain whose package
// starts programs. Where this process was started as a supervisor it does that
// job and exits; else it returns at once.
func Supervise() {
	if len(os.Args) < 4 || os.Args[0] != supervisorName {
		return
	}
	graceMS, err1 := strconv.ParseInt(os.Args[1], 10, 64)
	hold, err2 := strconv.Atoi(os.Args[2])
	if errors.Join(err1, err2) != nil {
		syscall.Exit(2)
	}
	// Not os.Exit: what else runs at the end of this program, such as the race
	// detector's second of sleep, is not for the supervisor.
	syscall.Exit(supervise(time.Duration(graceMS)*time.Millisecond, hold, os.Args[3:]))
}

const callerFD = 3

// pause is the time between two looks at what is still alive.
const pause = 10 * time.Millisecond

type reaped struct {
	pid    int
	status syscall.WaitStatus
}

// supervise starts argv, ends everything that descends from it, and returns the
// exit code to pass on. Files 4 to 3+hold are kept open until it returns.
func supervise(grace time.Duration, hold int, argv []string) int {
	for fd := callerFD; fd <= callerFD+hold; fd++ {
		syscall.CloseOnExec(fd)
	}
	caller := os.NewFile(callerFD, "caller")
	tell := func(r report) { _ = json.NewEncoder(caller).Encode(r) } // a dead caller needs no answer
	// A polite end is an order like the caller's; the others would end the supervisor too early.
	// What is ignored already (nohup) stays so, here and in the program.
	polite := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(polite, sig)
		}
	}

	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		tell(report{Error: "supervisor: " + os.NewSyscallError("prctl", err).Error()})
		return 126
	}
	program, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		tell(report{Errno: int(errno), Error: err.Error()})
		return 127
	}
	detachStreams()
	tell(report{Pid: program})

	s := &supervisor{program: program, grace: grace, asked: map[int]bool{}}
	s.loop(reap(), orders(caller), polite)
	s.end.Left = s.left
	tell(report{End: &s.end})
	if s.status.Signaled() {
		return 128 + int(s.status.Signal())
	}
	return s.status.ExitStatus()
}

// detachStreams lets go of the program's streams, so that their readers see the
// end when the last descendant is gone. The numbers stay taken.
func detachStreams() {
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil {
			_ = syscall.Close(fd)
			continue
		}
		_ = syscall.Dup3(null, fd, syscall.O_CLOEXEC)
	}
	if err == nil {
		_ = syscall.Close(null)
	}
}

// reap collects every child, adopted ones too, and closes the channel when none
// is left: then no descendant is left either, for an orphan becomes a child.
func reap() <-chan reaped {
	ch := make(chan reaped)
	go func() {
		defer close(ch)
		for {
			var st syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &st, 0, nil)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				return
			default:
				ch <- reaped{pid, st}
			}
		}
	}()
	return ch
}

// orders reads what the caller wants and closes the channel when the caller is gone.
func orders(caller io.Reader) <-chan order {
	ch := make(chan order)
	go func() {
		defer close(ch)
		for in := json.NewDecoder(caller); ; {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			ch <- o
		}
	}()
	return ch
}

type supervisor struct {
	program  int
	grace    time.Duration
	ended    bool // the program itself
	status   syscall.WaitStatus
	end      end
	stopping bool
	deadline time.Time    // when SIGTERM becomes SIGKILL
	asked    map[int]bool // got SIGTERM
	left     []int
}

func (s *supervisor) loop(children <-chan reaped, orders <-chan order, polite <-chan os.Signal) {
	tick := time.NewTicker(pause)
	tick.Stop()
	defer tick.Stop()
	stop := func(grace time.Duration) {
		if d := time.Now().Add(max(grace, 0)); !s.stopping || d.Before(s.deadline) {
			s.deadline = d
		}
		s.stopping = true
		tick.Reset(pause)
	}
	for {
		select {
		case c, ok := <-children:
			if !ok {
				return
			}
			delete(s.asked, c.pid)
			if c.pid == s.program {
				s.ended, s.status = true, c.status
				s.end.Exit = c.status.ExitStatus()
				if c.status.Signaled() {
					s.end.Signal = c.status.Signal().String()
				}
				// Most programs leave nothing: then the channel closes now, and
				// no look around is needed.
				stop(s.grace)
				continue
			}
		case o, ok := <-orders:
			switch {
			case !ok:
				orders = nil
				stop(s.grace)
			case o.Stop:
				stop(time.Duration(o.Grace) * time.Millisecond)
			case o.Signal != 0 && !s.ended:
				_ = syscall.Kill(s.program, syscall.Signal(o.Signal))
				continue
			}
			if s.sweep() {
				return
			}
		case <-polite:
			stop(s.grace)
			if s.sweep() {
				return
			}
		case <-tick.C:
			if s.sweep() {
				return
			}
		}
	}
}

// sweep signals every descendant that has not been signalled yet. It reports
// whether all that is left is out of reach.
func (s *supervisor) sweep() (giveUp bool) {
	if !s.stopping {
		return false
	}
	sig := syscall.SIGTERM
	if !time.Now().Before(s.deadline) {
		sig = syscall.SIGKILL
	}
	alive, err := descendants(os.Getpid())
	if err != nil {
		// No /proc here: the program's group is what can be found.
		if sig == syscall.SIGKILL || !s.asked[s.program] {
			s.asked[s.program] = true
			_ = syscall.Kill(-s.program, sig)
		}
		return false
	}
	s.left = nil
	for _, pid := range alive {
		if sig == syscall.SIGTERM && s.asked[pid] {
			continue
		}
		s.asked[pid] = true
		if errors.Is(syscall.Kill(pid, sig), syscall.EPERM) && sig == syscall.SIGKILL {
			s.left = append(s.left, pid)
		}
	}
	return len(alive) > 0 && len(s.left) == len(alive)
}

// descendants returns every living process below pid, wherever its group and
// session are; a zombie is not alive, but what is below it is looked at.
func descendants(pid int) ([]int, error) {
	all, err := ProcStats()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	zombie := map[int]bool{}
	seen := false
	for _, s := range all {
		seen = seen || s.PID == pid
		children[s.Parent] = append(children[s.Parent], s.PID)
		// A process whose main thread has ended reads as a zombie while others of its
		// threads go on (num_threads of proc(5)): wine's services do that.
		zombie[s.PID] = (s.State == "Z" || s.State == "X") && s.Threads <= 1
	}
	if !seen {
		return nil, errors.New("/proc does not show this process")
	}
	var alive []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		queue = append(queue, children[p]...)
		if !zombie[p] {
			alive = append(alive, p)
		}
	}
	return alive, nil
}
