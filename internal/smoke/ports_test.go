package smoke

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listen takes a port with a plain listener, as most programs do.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// ports counts those that free has given.
var ports atomic.Int32

// free is a port that nobody listens on, below those that the system gives out by itself (Linux: from 32768):
// one of these may be another test's by the time that it is taken.
func free(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 20000 + os.Getpid()%500*20 + int(ports.Add(1))
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func TestTakenPortIsPassedOver(t *testing.T) {
	t.Parallel()
	other, err := reusePort("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	o := options(t, "", check("health"))
	last := free(t)
	o.Ports = []int{listen(t), other.Addr().(*net.TCPAddr).Port, last}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Servers) != 1 || !strings.Contains(strings.Join(r.Servers[0].Argv, " "), fmt.Sprint("--port ", last)) {
		t.Errorf("servers %+v", r.Servers)
	}
}

// stranger answers as a healthy llama-server.
func stranger() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"ok","data":[{"id":"stranger"}]}`)
	})
}

// Somebody takes the port after it was chosen and before the server binds it:
// the server ends, or shares the port and its answers may be the other's.
func TestPortClash(t *testing.T) {
	t.Parallel()
	for name, bind := range map[string]func(string) (net.Listener, error){
		"plain listener": func(a string) (net.Listener, error) { return net.Listen("tcp", a) },
		"another server": reusePort,
	} {
		for _, room := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, room %v", name, room), func(t *testing.T) {
				t.Parallel()
				o := options(t, "wait", check("health"), check("completion"))
				dir := t.TempDir()
				portFile, goFile := filepath.Join(dir, "port"), filepath.Join(dir, "go")
				o.Env = append(o.Env, "FAKE_PORT="+portFile, "FAKE_GO="+goFile)
				o.Ports = []int{free(t)}
				if room {
					o.Ports = append(o.Ports, free(t))
				}
				taken := make(chan error, 1)
				go func() {
					taken <- func() error {
						for {
							if b, err := os.ReadFile(portFile); err == nil && len(b) > 0 {
								break
							}
							time.Sleep(time.Millisecond)
						}
						l, err := bind(fmt.Sprintf("127.0.0.1:%d", o.Ports[0]))
						if err != nil {
							return err
						}
						t.Cleanup(func() { l.Close() })
						go http.Serve(l, stranger())
						return os.WriteFile(goFile, nil, 0o600)
					}()
				}()
				r, err := Run(t.Context(), o)
				if e := <-taken; e != nil {
					t.Fatal(e)
				}
				if room {
					if err != nil || len(r.Servers) != 2 {
						t.Errorf("%v: servers %+v", err, r.Servers)
					}
					return
				}
				var not *NotRun
				if !errors.As(err, &not) || !strings.Contains(r.Checks[0].Detail, "another program listens there too") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// A second server that comes later makes the answers of that check worthless,
// and not wrong.
func TestStrangerComesLater(t *testing.T) {
	t.Parallel()
	o := options(t, "", check("health"), check("completion"), check("tokenize"))
	o.Ports = []int{free(t)}
	var other net.Listener
	t.Cleanup(func() {
		if other != nil {
			other.Close()
		}
	})
	o.Progress = func(what string, done, _ int64) {
		if what != "smoke" {
			return // a model is written
		}
		switch done {
		case 1: // completion comes
			var err error
			if other, err = reusePort(fmt.Sprintf("127.0.0.1:%d", o.Ports[0])); err != nil {
				t.Error(err)
			}
			// Takes no connection from its queue: those that reach it wait.
		case 2: // tokenize comes
			other.Close()
		}
	}
	o.Answer = 3 * time.Second
	r, err := Run(t.Context(), o)
	var not *NotRun
	if !errors.As(err, &not) {
		t.Fatalf("got %v, want *NotRun", err)
	}
	if r.Checks[0].Verdict != Passed || r.Checks[1].Verdict != Errored || r.Checks[2].Verdict != Passed {
		t.Errorf("%+v", r.Checks)
	}
	if !strings.Contains(r.Checks[1].Detail, "another program listens there too") {
		t.Errorf("detail %q", r.Checks[1].Detail)
	}
}

// A port that somebody leaves in a while is waited for; one that stays taken is not.
func TestAwaitFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if free, err := awaitFree(t.Context(), port, 50*time.Millisecond); err != nil || free || !taken(port) {
		t.Errorf("it stays taken: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	if free, err := awaitFree(ctx, port, time.Minute); free || !errors.Is(err, stop) {
		t.Errorf("when it is stopped: %v", err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = l.Close() })
	if free, err := awaitFree(t.Context(), port, time.Minute); err != nil || !free || taken(port) {
		t.Errorf("it was left: %v", err)
	}
}
