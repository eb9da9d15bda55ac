package smoke

import (
	"runtime"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// mostPatience is how many times longer than usual an answer may take on a busy machine.
const mostPatience = 10

// answer is how long a program may take for one answer now: Options.Answer, and as many
// times longer as the machine has more to do than processors. A good build is slow there,
// and a limit that it runs into would be a wrong verdict.
func (s *session) answer() time.Duration { return patience(s.o.Answer) }

// patience returns usual, longer on a machine that is busy now.
func patience(usual time.Duration) time.Duration {
	load, _ := run.Load()
	return patient(usual, load, runtime.NumCPU())
}

// patient is patience on a machine with such a load and so many processors.
func patient(usual time.Duration, load float64, processors int) time.Duration {
	return time.Duration(float64(usual) * min(max(load/float64(processors), 1), mostPatience))
}
