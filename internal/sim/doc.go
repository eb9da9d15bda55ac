// Package sim builds and describes a simulated NVIDIA device: a CUDA runtime,
// driver and cuBLAS of our own, in C, embedded here, with which the real host
// code of ggml-cuda runs on a machine with no card. Memory is accounted for as a
// card would, graphs are followed, and no kernel runs: it tells what is
// allocated, kept, freed and used after it was freed, and nothing about values,
// speed or occupancy. docs/sim.md says what it can tell and cannot.
//
// # The trace
//
// A traced process writes one line an event, at once: the event's name, t=SECONDS
// since the start, and fields NAME=VALUE, each without blanks, in any order and
// with more to come. In a path, bytes beyond printable ASCII, blanks and % are
// written as %XX. Stacks and modules are written once, before the first event
// that has their number; a frame is MODULE+OFFSET in hexadecimal, the
// call's distance from where the module's file is mapped; module 0 is none. On
// Windows a path is one of Windows.
//
//	sim          version= pid= and the settings; the first line
//	module       n= path=
//	stack        n= frames=M+OFFSET,M+OFFSET,…      innermost first
//	alloc        id= kind=device|managed|pinned|mapped call= bytes= used= stack=
//	free         the same
//	fail         call= kind= bytes= used= why=memory|asked stack=
//	settle       kind= bytes= used=                 a delayed free takes effect
//	create       bytes= used= stack=                physical memory (cuMemCreate)
//	release      bytes= used= stack=                the last hold on it is gone
//	reserve      bytes= stack=                      address space only
//	unreserve    bytes= stack=
//	capture      capture= mode=0|1|2 stack=
//	break        capture= code= stack=              a call made it invalid
//	captured     capture= nodes= kernels= allocs= code= stack=
//	instantiate  exec= graph= nodes= allocs= stack=
//	update       exec= graph= nodes= allocs= code= stack=
//	exec-destroy exec= stack=
//	fault        n= kind= … alloc= bytes= alloc-stack= free-stack= use-stack= here=
//	refuse       call= stack=                       a call that is not simulated
//	end          totals; missing where the process was killed
//
// used is what the kind's account holds after the event: VRAM for device and
// mapped memory. Kinds of fault: replay (a graph over memory freed since it was
// captured), launch, copy, blas (a call that names freed memory), capture (the
// same while capturing), bounds (a range that leaves its allocation), free (of
// what is not allocated), handle (a destroyed stream, event, graph, …), busy
// (memory freed, or a HIP graph destroyed, under work that nobody has waited for;
// use-stack is that work's).
//
// # The state page
//
// The state file is 4096 bytes, little-endian, rewritten in place while the
// process runs: bytes 0 to 7 "LLPSIM\r\n", a 32-bit version (1) and process id, a
// 64-bit sequence number that is odd during a change, then the 64-bit numbers of
// State, in its order.
package sim
