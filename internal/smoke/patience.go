package smoke

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// mostPatience is how many times longer than usual an answer may take on a busy machine.
const mostPatience = 10

// answer is how long a program may take for one answer now: Options.Answer, and as many
// times longer as the machine has more to do than processors. A good build is slow there,
// and a limit that it runs into would be a wrong verdict.
func (s *session) answer() time.Duration { return patience(s.o.Answer, load(), runtime.NumCPU()) }

// patience returns usual, longer on a machine with such a load and so many processors.
func patience(usual time.Duration, load float64, processors int) time.Duration {
	return time.Duration(float64(usual) * min(max(load/float64(processors), 1), mostPatience))
}

// load is how many processes ran or wanted to in the last minute (proc(5), loadavg);
// 0 where the system does not tell.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return n
}
