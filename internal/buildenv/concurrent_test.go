//go:build linux

package buildenv

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTwoAtOnce(t *testing.T) {
	m := newMirror(t)
	d, o := m.locked(), m.options()
	var said safeBuffer
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	m.set(func(string, http.ResponseWriter, *http.Request) bool { <-held; return false })
	var all sync.WaitGroup
	made := make([]Made, 2)
	for i := range made {
		all.Go(func() {
			var err error
			if made[i], err = Create(t.Context(), d, o); err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(),
		"waiting for it"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second does not say that it waits")
		}
	}
	release()
	all.Wait()
	if requests, _ := m.came(); made[0].Existed == made[1].Existed || len(requests) != len(d.Lock.Packages) {
		t.Errorf("%v %v, %d requests", made[0].Existed, made[1].Existed, len(requests))
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write keeps p.
func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String is what was written so far.
func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs the job in a program of its own.
func start(t *testing.T, j childJob, change func(*exec.Cmd)) (*exec.Cmd, *safeBuffer) {
	t.Helper()
	j.Lock = j.Decl.Lock
	text, err := json.Marshal(j)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), childVar+"="+string(text))
	var out safeBuffer
	c.Stdout, c.Stderr = &out, &out
	if change != nil {
		change(c)
	}
	must(t, c.Start())
	return c, &out
}

// TestKilled kills a creation while it fetches and while it unpacks. The next
// one takes what is there, and no half root is ever seen.
func TestKilled(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	t.Run("fetching", func(t *testing.T) {
		o := m.options()
		reached := make(chan struct{})
		once := sync.OnceFunc(func() { close(reached) })
		m.set(func(path string, _ http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(path, "tools") {
				time.Sleep(100 * time.Millisecond) // the others get through
				once()
				<-r.Context().Done()
			}
			return false
		})
		c, out := start(t, childJob{Decl: d, Cache: o.Cache, Mirror: o.Mirror}, nil)
		<-reached
		waitFor(t, func() bool { return len(glob(t, o.Cache, "env/*.work/packages/*.deb")) == 3 })
		must(t, c.Process.Kill())
		_ = c.Wait()
		if list, _ := List(o.Cache); len(list) != 0 {
			t.Fatalf("half a root: %s", out)
		}
		m.set(nil)
		_, err := Create(t.Context(), d, o)
		must(t, err)
		if requests, _ := m.came(); len(requests) != 1 {
			t.Errorf("fetched again: %v", requests)
		}
	})
	t.Run("unpacking", func(t *testing.T) {
		m.set(nil)
		want, err := Create(t.Context(), d, m.options())
		must(t, err)
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond} {
			o := m.options()
			c, _ := start(t, childJob{Decl: d, Cache: o.Cache, Mirror: o.Mirror}, nil)
			waitFor(t, func() bool {
				return len(glob(t, o.Cache, "env/*/new/root/usr")) == 1 || len(glob(t, o.Cache, "env/*/root/usr")) == 1
			})
			time.Sleep(after)
			must(t, c.Process.Kill())
			_ = c.Wait()
			if list, _ := List(o.Cache); len(list) != 0 && tree(t, list[0].Root) != tree(t, want.Root) {
				t.Error("half a root passes for a whole one")
			}
			made, err := Create(t.Context(), d, o)
			must(t, err)
			if tree(t, made.Root) != tree(t, want.Root) {
				t.Error("after a kill another root comes of it")
			}
			if left := glob(t, o.Cache, "env/*.work"); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		}
	})
	t.Run("another lock", func(t *testing.T) {
		o := m.options()
		m.set(func(path string, w http.ResponseWriter, _ *http.Request) bool {
			if strings.Contains(path, "tools") {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		})
		_, err := Create(t.Context(), d, o)
		wantErr(t, err, "is gone")
		// What came before the other one was missed is kept, whichever that is.
		kept := len(glob(t, o.Cache, "env/*.work/packages/*.deb"))
		m.set(nil)
		other := d
		other.Keep = nil
		_, err = Create(t.Context(), other, o)
		must(t, err)
		if requests, _ := m.came(); len(requests) != len(d.Lock.Packages)-kept || len(glob(t, o.Cache, "env/*.work")) != 0 {
			t.Errorf("%v, %d of %d were kept, %v", requests, kept, len(d.Lock.Packages), glob(t, o.Cache, "env/*"))
		}
	})
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}
