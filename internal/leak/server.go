package leak

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/memory"
)

// option returns the value of an option in a command line, or "".
func option(argv []string, names ...string) string {
	for i, a := range argv {
		for _, n := range names {
			if a == n && i+1 < len(argv) {
				return argv[i+1]
			}
			if v, ok := strings.CutPrefix(a, n+"="); ok {
				return v
			}
		}
	}
	return ""
}

// await waits until the program listens and says that it is healthy. Only ports
// on which the program itself, or one below it, listens are asked: another
// program on the port that its command line names would answer too.
func (p *program) await(ctx context.Context, limit time.Duration) (*llamaserver.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := "it listens on no port"
	for {
		for _, addr := range p.addresses() {
			c := llamaserver.New(addr, option(p.o.Argv, "--api-key"))
			err := c.Health(ctx, answerLimit)
			if err == nil {
				return c, nil
			}
			last = err.Error()
		}
		select {
		case <-p.Done():
			why := fmt.Sprintf("%s %s after %v, before it was ready", p.o.Argv[0], p.how(),
				time.Since(p.began).Round(time.Millisecond))
			if len(p.Tail()) == 0 {
				why += ", and printed nothing"
			}
			return nil, &NotRun{Why: why, Tail: p.Tail(), Log: p.log}
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
			why := fmt.Sprintf("%s was not ready within %v: %s", p.o.Argv[0], limit, last)
			if len(p.Tail()) == 0 {
				why += ", and it printed nothing"
			}
			return nil, &NotRun{Why: why, Tail: p.Tail(), Log: p.log}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// addresses are those on which the program listens, the one that its command
// line names first.
func (p *program) addresses() []string {
	port := option(p.o.Argv, "--port")
	if runtime.GOOS != "linux" {
		// No /proc: the command line, or llama-server's default.
		return []string{net.JoinHostPort("127.0.0.1", cmp.Or(port, "8080"))}
	}
	own := llamaserver.Sockets(memory.Descendants(p.Pid())...)
	all, _ := llamaserver.Listeners(p.Pid()) // none of a program that is gone
	var named, others []string
	for _, l := range all {
		switch {
		case !own[l.Inode]:
		case strconv.Itoa(l.Port) == port:
			named = append(named, l.Addr())
		default:
			others = append(others, l.Addr())
		}
	}
	return append(named, others...)
}

// answerLimit is for a long prefill on a slow machine.
const answerLimit = 10 * time.Minute

// slotContext asks how many tokens one slot holds; 0 where the server does not say.
func slotContext(ctx context.Context, s *llamaserver.Client) int {
	status, body, err := s.Call(ctx, answerLimit, http.MethodGet, "/props", nil)
	var props struct {
		Settings struct {
			Ctx int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Ctx int `json:"n_ctx"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &props) != nil {
		return 0
	}
	if props.Settings.Ctx > 0 {
		return props.Settings.Ctx
	}
	return props.Ctx
}
