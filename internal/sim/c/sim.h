// What the parts of the simulated device share. One lock guards everything:
// a function that is called between begin() and finish() holds it.
#pragma once
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MIB ((size_t)1 << 20)
#define LEN(a) (sizeof(a) / sizeof *(a))

// config.c: the LLPATCH_SIM_* environment.
enum managed { MANAGED_FULL, MANAGED_LIMITED, MANAGED_NONE };
enum on_fault { FAULT_REPORT, FAULT_ERROR, FAULT_ABORT };
struct config {
	size_t vram, managed_more; // bytes; managed_more 0: no limit
	int cc, sms, runtime, driver, occupancy;
	bool vmm, store, reuse, late, hip; // hip: the programs' runtime is HIP
	const char *gfx;             // HIP's name of the card: gfx1201
	enum managed managed;
	enum on_fault on_fault;
	uint64_t delay_frees, fail_alloc, count;
	const char *trace, *state;
};
extern struct config config;
bool config_read(void); // false: a message is on stderr

// linux.c or windows.c: what the system is asked for. An int that is a bool sets errno
// where it is false.
void os_lock(void);
void os_unlock(void);
bool os_last_lock(void); // when the program ends; false: another thread had it, and is gone
int64_t os_time(void);   // microseconds, from any beginning
int os_id(void);         // the process's number
const char *const *os_environment(void);
int os_open(const char *path);           // empties a file and keeps every other process from writing it; -1: errno is EWOULDBLOCK where one does
void *os_map(int file, size_t size);     // a new file's bytes, for other processes to read too
uintptr_t os_arena(size_t *size);        // addresses that nothing else gets
bool os_commit(uintptr_t p, size_t n);   // bytes at such addresses
void os_release(uintptr_t p, size_t n);  // and none again
bool os_clear(uintptr_t p, size_t n);    // bytes read as zeros, and cost nothing until they are written
int os_stack(void **frames, int n);      // return addresses, innermost first
bool os_own(const void *p);              // whether it lies in this library
uintptr_t os_stack_top(void);            // of this thread's stack; 0: unknown
void os_modules(void (*seen)(const char *path, uintptr_t from, uintptr_t to, uintptr_t base));

// state.c: counters, kept in a mapped file where the user asks for one.
// The order is the file's; internal/sim/state.go has the same list.
struct counters {
	uint64_t vram_total, vram_used, vram_peak, managed_used, pinned_used;
	uint64_t allocs, frees, failed;
	uint64_t launches, blas_calls, copies;
	uint64_t captures, graphs, instances, instances_peak, instantiations, updates, graph_launches;
	uint64_t faults, refusals, own_bytes, stale_replays;
};
extern struct counters *now;
bool state_open(const char *path);
void state_begin(void); // around every change
void state_end(void);

// trace.c: one line an event.
typedef uint32_t stack_id; // 0: none
bool trace_open(const char *path);
void trace_close(void);
void trace(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say(const char *format, ...) __attribute__((format(printf, 1, 2))); // a line on stderr
extern bool tracing;

// stack.c
stack_id stack_here(void);
void *own_alloc(void *old, size_t before, size_t size); // realloc that counts and never fails
void own_free(void *p, size_t size);

// memory.c
enum kind { DEVICE, MANAGED, PINNED, MAPPED, N_KINDS };
extern const char *const kind_name[N_KINDS];
struct alloc {
	uintptr_t base;
	size_t size, span; // span: what it takes of the address space
	uint64_t id;
	stack_id made, freed;
	uint8_t kind;
	bool live;
	struct mark *marks; // late.c's: the last work in each stream that uses it
	uint32_t n_marks;
};
bool memory_open(void);
bool in_arena(uint64_t p);
struct alloc *find(uint64_t p);           // live or freed; NULL: none
struct alloc *alloc_number(uint64_t id);  // 1 and up
cudaError_t charge(enum kind kind, size_t size, const char *call); // counts an allocation, or says why it fails
void refund(enum kind kind, size_t size);
struct alloc *place(enum kind kind, size_t size);
struct alloc *place_at(uintptr_t base, enum kind kind, size_t size);
uintptr_t reserve(size_t size, size_t align);
void unplace(struct alloc *a);
cudaError_t device_alloc(enum kind kind, size_t size, void **out, const char *call);
cudaError_t device_free(void *p, enum kind want, const char *call);

// fault.c
struct use { // one pointer that a call or a graph uses
	uint64_t alloc;
	uint32_t node;
	stack_id stack;
};
void fault(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
cudaError_t refuse(const char *call); // says so; cudaErrorNotSupported
int sim_refuse(const char *call);     // the same for a call that the simulation lacks
extern cudaError_t sticky;

// device.c
cudaError_t begin(void);            // takes the lock; an error: there is no device
cudaError_t finish(cudaError_t e);  // notes the error, gives the lock back
void pause_lock(void);              // around a callback
void resume_lock(void);
size_t shared_optin(void);
cudaError_t launch_fits(const void *func, dim3 grid, dim3 block, size_t shared);

// graph.c
enum op { OP_KERNEL, OP_COPY, OP_SET, OP_BLAS, OP_HOST };
struct node {
	enum op op;
	uint32_t first_dep, n_deps; // in body.deps
	union {
		struct { const void *func; } kernel;
		struct { uint64_t dst, src; size_t width, height, dst_pitch, src_pitch; int value; } copy;
		struct { cudaHostFn_t fn; void *data; } host;
	};
};
struct body { // what was captured; a graph and its executables share it
	int owners;
	uint64_t graph;
	struct node *nodes;
	uint32_t n_nodes, cap_nodes, kernels;
	uint32_t *deps;
	uint32_t n_deps, cap_deps;
	struct use *uses;
	uint32_t n_uses, cap_uses;
	stack_id begun;
};
struct body *body_new(stack_id begun);
void body_drop(struct body *b);
uint32_t body_add(struct body *b, struct node n, const uint32_t *deps, uint32_t n_deps);
void body_use(struct body *b, uint32_t node, struct alloc *a);
cudaGraph_t graph_new(struct body *b);

// stream.c
struct capture {
	uint64_t id;
	struct stream *origin;
	struct stream **members;
	uint32_t n_members;
	enum cudaStreamCaptureMode mode;
	uint64_t thread;
	cudaError_t broken; // why it is invalid; success: it is not
	struct body *body;
};
struct stream {
	bool legacy, blocking, per_thread;
	struct capture *capture;
	uint32_t *front; // the nodes that the next one follows
	uint32_t n_front;
	uint32_t lane; // late.c's; 0: it had no work
};
cudaError_t stream_for(cudaStream_t handle, struct stream **out); // also checks the legacy stream's rules
cudaError_t unsafe_call(void);  // calls that a capture of this thread or a global one forbids
cudaError_t device_wide_sync(void);
cudaError_t break_capture(struct capture *c, cudaError_t why); // returns why
cudaError_t break_all(cudaError_t why);                        // likewise; success: nothing is captured
struct capture *active(uint64_t id);                           // NULL: it has ended
void join(struct capture *c, struct stream *s);
void set_front(uint32_t **front, uint32_t *n, const uint32_t *from, uint32_t n_from);
cudaError_t capture_node(struct stream *s, struct node n, const uint64_t *pointers, uint32_t n_pointers);

// late.c: the work that nobody has waited for yet, with LLPATCH_SIM_LATE. A lane is a
// stream's work, and outlives it; a clock has one number a lane.
struct mark { // one piece of work
	uint32_t lane;
	uint64_t number;
	stack_id stack;
};
struct clock {
	uint64_t *reached;
	uint32_t n;
};
struct mark late_work(struct stream *s); // begins a piece of work in s
void late_uses(struct mark work, uint64_t p);
void late_note(struct mark **marks, uint32_t *n, struct mark work);
const struct mark *late_busy(const struct mark *marks, uint32_t n); // NULL: all is done
void late_forget(struct mark **marks, uint32_t *n);
void late_wait(struct stream *s);                    // the host waits for a stream, or
void late_wait_all(void);                            // for the device, or
void late_wait_clock(const struct clock *c);         // for an event
void late_record(struct clock *c, struct stream *s); // what an event stands for
void late_follow(struct stream *s, const struct clock *c);

// copy.c
cudaError_t perform(const struct node *n, bool checked);

// handle.c: handles are numbers that are never used twice, so a stale one is always known.
enum handle { H_STREAM = 1, H_EVENT, H_GRAPH, H_EXEC, H_MEMORY, H_BLAS };
void *handle_new(enum handle kind, void *object);
void *handle_get(enum handle kind, const void *handle); // NULL: not one, or destroyed
void *handle_take(enum handle kind, const void *handle);
