package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestTry(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a", "b.lock")
	take := func(shared, want bool) *os.File {
		t.Helper()
		f, ok, err := Try(name, shared)
		if ok != want || err != nil || ok != (f != nil) {
			t.Fatalf("shared %v: %v %v", shared, ok, err)
		}
		return f
	}
	alone := take(false, true)
	take(false, false)
	take(true, false)
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	one, two := take(true, true), take(true, true)
	take(false, false)
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
	take(false, true).Close()
	if _, ok, err := Try(filepath.Dir(name), false); ok || err == nil {
		t.Error("a folder was locked")
	}
}

// A file that its last holder removes is no lock any more.
func TestRemoved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, _, err := Try(name, false)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	got := make(chan *os.File)
	go func() {
		f, err := Wait(t.Context(), name, false, func() { close(waits) })
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	<-waits
	if err := errors.Join(os.Remove(name), first.Close()); err != nil {
		t.Fatal(err)
	}
	second := <-got
	defer second.Close()
	if _, ok, err := Try(name, false); ok || err != nil {
		t.Errorf("two have the lock: %v", err)
	}
}

func TestWaitEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	f, _, err := Try(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := 0
	if _, err := Wait(ctx, name, false, func() { said++; cancel() }); !errors.Is(err, context.Canceled) || said != 1 {
		t.Errorf("%v, told %d times", err, said)
	}
}
