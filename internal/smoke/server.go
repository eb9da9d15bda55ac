package smoke

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// portTries bounds how often a start is tried when somebody else takes the port
// between the choice and the server's own bind.
const portTries = 5

// config is how a server is started. Checks with the same one share a server.
type config struct {
	model string // empty: args say which it fetches
	// a folder where the server, a router, finds the model, called as its alias; empty: it is given the model
	models string
	typ    gguf.Type // of the model
	args   []string
	ready  time.Duration // 0: Options.Ready
	trust  *tls.Config   // what its own certificate is looked at with; nil: it serves HTTP
}

// server is a llama-server that is ready and proven to be ours.
type server struct {
	s      *session
	key    string
	bin    string // the folder that it was started from
	proc   *run.Process
	port   int
	alias  string
	log    string
	client *llamaserver.Client
	ready  time.Duration
	busy   int             // answers of 503 before it was ready
	stats  *memory.Sampler // nil: it was stopped
	work
	record int // index into Report.Servers
}

// errClash says that the port belongs to somebody else.
var errClash = errors.New("the port is taken")

// need returns a running server for the config: the one that runs, or a new one.
func (s *session) need(ctx context.Context, c config) (*server, error) {
	key := strings.Join(append([]string{s.side.bin, s.layers(), c.model, c.models}, c.args...), "\x00") + "\x01" +
		strings.Join(s.env(), "\x00")
	if s.server != nil && (s.server.key != key || s.server.proc.Ended()) {
		s.stop(ctx)
	}
	if s.server != nil {
		return s.server, nil
	}
	if check := s.broken[key]; check != "" {
		return nil, fmt.Errorf("the server does not start, see check %s", check)
	}
	srv, err := s.start(ctx, c, key)
	if err != nil {
		if _, ok := errors.AsType[*fault](err); ok {
			s.broken[key] = s.current.Name
		}
		return nil, err
	}
	s.server = srv
	return srv, nil
}

// stop stops the shared server, if there is one.
func (s *session) stop(ctx context.Context) {
	if s.server == nil {
		return
	}
	patience := stopPatience
	if s.o.deviceOf(s.current) == spec.Sim {
		patience = simPatience
	}
	end := s.server.stop(ctx, patience)
	if end.killed {
		s.o.Log.Warn("the server had to be killed", "log", s.server.log)
	}
	s.server = nil
}

// start starts a server, on another port where the first was taken after all.
func (s *session) start(ctx context.Context, c config, key string) (*server, error) {
	path, err := s.program("llama-server")
	if err != nil {
		return nil, err
	}
	if s.side == s.stock() && s.o.deviceOf(s.current) != spec.Host {
		// The patched build was asked before the check.
		if why := s.unseen(ctx); why != "" {
			return nil, errors.New(why)
		}
	}
	argv := s.argv(path, "--host", "127.0.0.1")
	if c.model != "" && c.models == "" {
		argv = append(argv, "-m", c.model)
	}
	opts, err := s.serverArgs(ctx)
	if err != nil {
		return nil, err
	}
	help, err := s.help(ctx, "llama-server")
	if err != nil {
		return nil, err
	}
	if c.model == "" {
		opts = slices.DeleteFunc(opts, func(o string) bool { return o == "--offline" })
	}
	argv = append(argv, opts...)
	argv = append(argv, flashSpelled(help, c.args)...)
	ports, next := s.ports(), []string{}
	for port, err := range ports {
		if err != nil {
			next = append(next, err.Error())
			continue
		}
		if len(next) >= portTries {
			break
		}
		srv, err := s.startOn(ctx, port, argv, c)
		if errors.Is(err, errClash) {
			next = append(next, err.Error())
			s.o.Log.Warn("smoke: trying another port", "why", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		srv.key = key
		return srv, nil
	}
	return nil, fmt.Errorf("no port for the server: %s", strings.Join(next, "; "))
}

// serverArgs are the options that every server gets: small, offline, and
// without the caches that make memory grow with every request (upstream keeps
// up to 8 GiB of prompts and 32 checkpoints a slot), where the server knows
// them. Warm-up stays on, as users have it.
func (s *session) serverArgs(ctx context.Context) ([]string, error) {
	n := strconv.Itoa(threads())
	opts := []string{"-c", "2048", "-np", "1", "-ngl", s.layers(), "-t", n, "-tb", n}
	help, err := s.help(ctx, "llama-server")
	if err != nil {
		return nil, err
	}
	for _, o := range [][]string{{"--cache-ram", "0"}, {"--ctx-checkpoints", "0"}, {"--offline"}} {
		if strings.Contains(help, o[0]) {
			opts = append(opts, o...)
		}
	}
	return opts, nil
}

var flashValue = regexp.MustCompile(`--flash-attn[ ,]*[\[(<]`)

// flashSpelled writes -fa as the server takes it: as a switch, off by default, where its help names no value.
func flashSpelled(help string, args []string) []string {
	if !strings.Contains(help, "--flash-attn") || flashValue.MatchString(help) {
		return args
	}
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] != "-fa" || i+1 == len(args) {
			out = append(out, args[i])
			continue
		}
		i++
		out = slices.DeleteFunc(out, func(a string) bool { return a == "-fa" }) // the last one wins
		if args[i] != "off" {
			out = append(out, "-fa")
		}
	}
	return out
}

// startOn starts a server on a port and waits until it is ready. errClash means
// that another program has the port.
func (s *session) startOn(ctx context.Context, port int, argv []string, c config) (*server, error) {
	nonce := make([]byte, 8)
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	srv := &server{
		s: s, bin: s.side.bin, port: port, alias: "llpatch-" + hex.EncodeToString(nonce),
		log:    filepath.Join(s.o.Work, fmt.Sprintf("server-%d.log", len(s.report.Servers)+1)),
		client: llamaserver.New(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "").Trusting(c.trust),
		record: len(s.report.Servers),
	}
	argv = append(argv[:len(argv):len(argv)], "--port", strconv.Itoa(port))
	if c.models == "" {
		argv = append(argv, "--alias", srv.alias)
	} else {
		if err := os.Link(c.model, filepath.Join(c.models, srv.alias+".gguf")); err != nil {
			return nil, err
		}
		argv = append(argv, "--models-dir", c.models)
	}
	s.report.Servers = append(s.report.Servers, ServerRun{
		Argv: argv, Log: srv.log, Check: s.current.Name,
		Build: s.side.name,
	})
	// Before the program: the device's idle figure is what counts from then on.
	stats, err := memory.Start(context.WithoutCancel(ctx), s.sampling(srv))
	if err != nil {
		return nil, err
	}
	srv.stats = stats
	began := time.Now()
	proc, err := run.Start(ctx, run.Cmd{
		Argv: argv, Env: s.env(), Dir: s.o.Work, Log: srv.log, Grace: killGrace,
		Hold: s.o.Hold,
	})
	if err != nil {
		s.rec(srv).End = "it did not start"
		srv.takeMemory()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &fault{msg: "llama-server cannot be started: " + err.Error(), log: srv.log}
	}
	srv.proc = proc
	srv.stats.Attach(proc.Pid())
	s.o.Log.Debug("server started", "pid", proc.Pid(), "port", port, "log", srv.log)
	if err := srv.await(ctx, began, cmp.Or(c.ready, s.o.Ready)); err != nil {
		srv.stop(ctx, 0)
		return nil, err
	}
	s.rec(srv).ReadySeconds = seconds(srv.ready)
	return srv, nil
}

func (s *session) rec(srv *server) *ServerRun { return &s.report.Servers[srv.record] }

// await asks /health until it says ok.
func (srv *server) await(outer context.Context, began time.Time, limit time.Duration) error {
	ctx, cancel := context.WithDeadline(outer, began.Add(limit))
	defer cancel()
	pause := 2 * time.Millisecond
	var last string
	for {
		err := srv.client.Health(ctx, srv.s.answer())
		var wrong *llamaserver.Unhealthy
		if err == nil || !isRefused(err) {
			// Whoever answers, is it us?
			if other := srv.strangers(); other != "" {
				return fmt.Errorf("port %d: %s: %w", srv.port, other, errClash)
			}
		}
		switch {
		case err == nil:
			srv.ready = time.Since(began)
			return srv.prove(ctx)
		case errors.As(err, &wrong):
			return srv.fault("%v", err)
		case errors.Is(err, llamaserver.ErrLoading):
			srv.busy++
			last = err.Error()
		case ctx.Err() != nil && last != "":
			// Out of time in the middle of a question: the answer before says more.
		default:
			last = err.Error()
		}
		select {
		case <-srv.proc.Done():
			return srv.early()
		case <-ctx.Done():
			if outer.Err() != nil {
				return context.Cause(outer)
			}
			return srv.fault("not ready within %v: %s", limit, last)
		case <-time.After(pause):
			pause = min(2*pause, 100*time.Millisecond)
		}
	}
}

// early judges a server that ended before it was ready.
func (srv *server) early() error {
	tail := strings.Join(srv.proc.Tail(), "\n")
	if other := srv.strangers(); other != "" {
		return fmt.Errorf("port %d: %s: %w", srv.port, other, errClash)
	}
	// The plain listener may be gone again; the message is upstream's since b3142.
	if strings.Contains(tail, "couldn't bind") {
		return fmt.Errorf("port %d: the server could not bind it: %w", srv.port, errClash)
	}
	if strings.TrimSpace(tail) == "" {
		return srv.plainFault("the server printed nothing and ended before it was ready: " + srv.proc.End())
	}
	return srv.plainFault("the server ended before it was ready: " + srv.proc.End())
}

const (
	// stopPatience is the time for one SIGTERM: an idle server needs 3 to 8 ms.
	stopPatience = 3 * time.Second
	// simPatience is that of one on a simulated device: without optimisation and on busy cores it needs seconds, and a
	// second SIGTERM would end it before it says what became of its graphs.
	simPatience = 15 * time.Second
	// killGrace is the time between the last SIGTERM and SIGKILL.
	killGrace = 2 * time.Second
)

// ending is how a server was stopped.
type ending struct {
	terms  int // SIGTERMs that it took
	killed bool
	took   time.Duration
	how    string
}

// stop sends SIGTERM, once more after patience, and then SIGKILL: upstream's
// server finishes a running completion on the first SIGTERM and ends at once on
// the second. A negative patience kills at once. Clients must be gone by now:
// the server waits for its open streams.
func (srv *server) stop(ctx context.Context, patience time.Duration) ending {
	// What it gives back on the way out is no part of its work.
	srv.takeMemory()
	began := time.Now()
	var end ending
	if patience > 0 && !srv.proc.Ended() {
		end.terms++
		// A server that is gone already is what is wanted.
		_ = srv.proc.Signal(srv.s.politely())
		select {
		case <-srv.proc.Done():
		case <-time.After(patience):
		case <-ctx.Done():
		}
	}
	running := !srv.proc.Ended()
	if running {
		end.terms++
	}
	err := srv.proc.Stop(ctx)
	end.took = time.Since(began)
	end.how = srv.proc.End()
	var e *run.Error
	// SIGTERM that a program has no handler for, as under wine, kills it too.
	end.killed = running && errors.As(srv.proc.Wait(), &e) && (e.Signal == syscall.SIGKILL.String() ||
		srv.s.wine != nil && e.Signal != "")
	if err != nil {
		end.how = err.Error()
	}
	srv.s.rec(srv).End = end.how
	return end
}

// sampling is how a server's memory is looked at.
func (s *session) sampling(srv *server) memory.Options {
	o := memory.Options{Name: s.side.name, Every: s.o.Sample, Progress: srv.progress, Log: s.o.Log}
	switch s.o.deviceOf(s.current) {
	case spec.Card:
		o.Probe, o.Source = s.o.Probe, s.o.ProbeName
	case spec.Sim:
		if s.device != nil {
			o.Probe, o.Source = memory.Simulated(s.device.state), "simulated device"
		}
	}
	return o
}

// takeMemory ends the looks at a server's memory and keeps what was seen.
func (srv *server) takeMemory() {
	if srv.stats == nil {
		return
	}
	rec := srv.s.rec(srv)
	rec.Memory = srv.stats.Stop()
	srv.stats = nil
	rss, _ := rec.Memory.Peak(memory.RSS)
	pss, _ := rec.Memory.Peak(memory.PSS)
	vram, _ := rec.Memory.Peak(memory.VRAM)
	rec.PeakRSSKiB, rec.PeakPSSKiB, rec.PeakVRAMKiB = rss>>10, pss>>10, vram>>10
}
