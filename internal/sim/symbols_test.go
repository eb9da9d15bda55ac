package sim

import (
	"strings"
	"testing"
)

// A fault tells who allocated, who freed and who used the memory.
func TestSymbols(t *testing.T) {
	src := source(t, `#include <cuda_runtime_api.h>
__attribute__((noinline)) static void *maker(void) { void *p = 0; cudaMalloc(&p, 4096); return p; }
__attribute__((noinline)) static void breaker(void *p) { cudaFree(p); __asm__ volatile(""); }
__attribute__((noinline)) static void user(void *p) { cudaMemset(p, 0, 16); __asm__ volatile(""); }
int main(void) { void *p = maker(); breaker(p); user(p); return 0; }
`)
	_, events, _ := runProgram(t, compile(t, src), nil)
	var s Symbols
	found := false
	for _, ev := range events {
		if ev.Name != "fault" {
			continue
		}
		found = true
		for want, frames := range map[string][]Frame{
			"maker < main": ev.Alloc, "breaker < main": ev.Free,
			"user < main": ev.Stack,
		} {
			if got := stack(&s, frames); !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
	if !found {
		t.Error("no fault")
	}
	if got := s.Name(Frame{Module: "/nowhere/lib.so", Offset: 16}); got != "lib.so+0x10" {
		t.Error(got)
	}
}

// stack are the names of frames, innermost first, as one line.
func stack(s *Symbols, frames []Frame) string {
	names := make([]string, len(frames))
	for i, f := range frames {
		names[i] = s.Name(f)
	}
	return strings.Join(names, " < ")
}
