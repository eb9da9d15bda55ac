// Allocations and the address space that they lie in. Addresses are only ever
// handed out once, unless the user asks for their reuse, so a pointer into freed
// memory is always known for what it is.
#include "sim.h"
#include <errno.h>
#include <string.h>

#define GRAIN ((uintptr_t)1 << 16)
#define CHUNK 4096

// A four byte number beside garbage that once was half a pointer must not look
// like one of ours: no small allocation has an address whose low half is a small
// number, a common float or a small negative number.
#define WINDOW ((uintptr_t)1 << 32)
#define LOW ((uintptr_t)0x44000000)
#define HIGH ((uintptr_t)0xfc000000)

const char *const kind_name[N_KINDS] = {"device", "managed", "pinned", "mapped"};

static uintptr_t arena, arena_end, next;

static struct alloc **chunks;
static uint64_t n_allocs, n_chunks;
static uint64_t *by_address; // numbers of the newest allocation at each address, in order
static uint64_t n_addresses, cap_addresses;

struct pending {
	size_t size;
	uint64_t due; // at this allocation call
	enum kind kind;
};
static struct pending *queue;
static size_t queue_first, queue_n, queue_cap;
static uint64_t calls;

bool memory_open(void)
{
	size_t size;
	arena = os_arena(&size);
	if (!arena) {
		say("1 TiB of address space cannot be reserved: %s (is ulimit -v set?)", strerror(errno));
		return false;
	}
	arena_end = arena + size;
	next = arena;
	now->vram_total = config.vram;
	return true;
}

bool in_arena(uint64_t p)
{
	return p >= arena && p < arena_end;
}

uintptr_t reserve(size_t size, size_t align)
{
	if (align < GRAIN)
		align = GRAIN;
	uintptr_t at = (next + align - 1) / align * align;
	if (at % WINDOW < LOW)
		at += (LOW - at % WINDOW + align - 1) / align * align;
	if (at % WINDOW + size > HIGH && at % WINDOW != (LOW + align - 1) / align * align % WINDOW)
		at = (at / WINDOW + 1) * WINDOW + (LOW + align - 1) / align * align % WINDOW;
	// The free space behind it keeps a pointer to its end from being another's start.
	size_t span = (size + GRAIN) / GRAIN * GRAIN + GRAIN;
	if (size > arena_end - arena || at > arena_end - span) {
		say("the address space of the simulated device is used up");
		return 0;
	}
	next = at + span;
	return at;
}

struct alloc *alloc_number(uint64_t id)
{
	return id && id <= n_allocs ? &chunks[(id - 1) / CHUNK][(id - 1) % CHUNK] : NULL;
}

// position returns where in by_address the first one above p stands.
static uint64_t position(uint64_t p)
{
	uint64_t low = 0, high = n_addresses;
	while (low < high) {
		uint64_t mid = (low + high) / 2;
		if (alloc_number(by_address[mid])->base <= p)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct alloc *find(uint64_t p)
{
	if (!in_arena(p))
		return NULL;
	uint64_t at = position(p);
	if (!at)
		return NULL;
	struct alloc *a = alloc_number(by_address[at - 1]);
	return p - a->base < a->size ? a : NULL;
}

static struct alloc *record(uintptr_t base, enum kind kind, size_t size)
{
	if (n_allocs == n_chunks * CHUNK) {
		chunks = own_alloc(chunks, n_chunks * sizeof *chunks, (n_chunks + 1) * sizeof *chunks);
		chunks[n_chunks++] = own_alloc(NULL, 0, CHUNK * sizeof **chunks);
	}
	struct alloc *a = &chunks[n_allocs / CHUNK][n_allocs % CHUNK];
	*a = (struct alloc){.base = base, .size = size, .span = (size + GRAIN) / GRAIN * GRAIN, .id = ++n_allocs,
			    .made = stack_here(), .kind = kind, .live = true};
	uint64_t at = position(base);
	if (at && alloc_number(by_address[at - 1])->base == base) {
		by_address[at - 1] = a->id;
		return a;
	}
	if (n_addresses == cap_addresses) {
		by_address = own_alloc(by_address, cap_addresses * sizeof *by_address, (cap_addresses + CHUNK) * sizeof *by_address);
		cap_addresses += CHUNK;
	}
	memmove(by_address + at + 1, by_address + at, (n_addresses - at) * sizeof *by_address);
	by_address[at] = a->id;
	n_addresses++;
	return a;
}

// reusable returns the address of the newest freed allocation of this size, as
// a real allocator would; 0: there is none.
static uintptr_t reusable(enum kind kind, size_t size)
{
	size_t span = (size + GRAIN) / GRAIN * GRAIN;
	for (uint64_t id = n_allocs; config.reuse && id; id--) {
		struct alloc *a = alloc_number(id);
		uint64_t at = position(a->base);
		if (!a->live && a->kind == kind && a->span == span && by_address[at - 1] == id)
			return a->base;
	}
	return 0;
}

static bool has_bytes(enum kind kind)
{
	return kind == MANAGED || kind == PINNED || config.store;
}

struct alloc *place_at(uintptr_t base, enum kind kind, size_t size)
{
	if (has_bytes(kind) && !os_commit(base, (size + 4095) / 4096 * 4096)) {
		say("the host gives no %zu bytes: %s", size, strerror(errno));
		return NULL;
	}
	return record(base, kind, size);
}

struct alloc *place(enum kind kind, size_t size)
{
	uintptr_t base = reusable(kind, size);
	if (!base)
		base = reserve(size, GRAIN);
	return base ? place_at(base, kind, size) : NULL;
}

void unplace(struct alloc *a)
{
	a->live = false;
	a->freed = stack_here();
	late_forget(&a->marks, &a->n_marks);
	if (has_bytes(a->kind))
		os_release(a->base, (a->size + 4095) / 4096 * 4096);
}

static uint64_t *counter(enum kind kind)
{
	return kind == MANAGED ? &now->managed_used : kind == PINNED ? &now->pinned_used : &now->vram_used;
}

static void settle(void)
{
	while (queue_n && queue[queue_first].due <= calls) {
		struct pending p = queue[queue_first];
		queue_first = (queue_first + 1) % queue_cap;
		queue_n--;
		*counter(p.kind) -= p.size;
		trace("settle", "kind=%s bytes=%zu used=%llu", kind_name[p.kind], p.size, (unsigned long long)*counter(p.kind));
	}
}

void refund(enum kind kind, size_t size)
{
	if (!config.delay_frees || kind == PINNED) {
		*counter(kind) -= size;
		return;
	}
	if (queue_n == queue_cap) {
		size_t cap = queue_cap ? 2 * queue_cap : 64;
		struct pending *bigger = own_alloc(NULL, 0, cap * sizeof *bigger);
		for (size_t i = 0; i < queue_n; i++)
			bigger[i] = queue[(queue_first + i) % queue_cap];
		own_free(queue, queue_cap * sizeof *queue);
		queue = bigger;
		queue_first = 0;
		queue_cap = cap;
	}
	queue[(queue_first + queue_n++) % queue_cap] = (struct pending){size, calls + config.delay_frees, kind};
}

static const char *why_not(enum kind kind, size_t size)
{
	size_t room = config.vram - now->vram_used;
	if (kind != PINNED && calls == config.fail_alloc)
		return "asked";
	if (kind == MANAGED) {
		// What the device holds cannot be moved out; managed memory can.
		if (config.managed == MANAGED_LIMITED && size + now->managed_used > room)
			return "memory";
		// HIP's lies with the host where pages cannot move (docs/sim.md).
		if (config.managed_more && size + now->managed_used > (config.hip ? 0 : room) + config.managed_more)
			return "memory";
		return NULL;
	}
	if (kind != PINNED && config.managed == MANAGED_LIMITED)
		room -= now->managed_used;
	return kind != PINNED && size > room ? "memory" : NULL;
}

cudaError_t charge(enum kind kind, size_t size, const char *call)
{
	if (kind != PINNED) {
		calls++;
		settle();
	}
	const char *why = why_not(kind, size);
	if (why) {
		now->failed++;
		trace("fail", "call=%s kind=%s bytes=%zu used=%llu why=%s stack=%u", call, kind_name[kind], size,
		      (unsigned long long)*counter(kind), why, stack_here());
		return cudaErrorMemoryAllocation;
	}
	*counter(kind) += size;
	if (kind != PINNED)
		now->allocs++;
	if (now->vram_used > now->vram_peak)
		now->vram_peak = now->vram_used;
	return cudaSuccess;
}

cudaError_t device_alloc(enum kind kind, size_t size, void **out, const char *call)
{
	cudaError_t e = charge(kind, size, call);
	if (e)
		return e;
	struct alloc *a = place(kind, size);
	if (!a)
		return cudaErrorMemoryAllocation;
	trace("alloc", "id=%llu kind=%s call=%s bytes=%zu used=%llu stack=%u", (unsigned long long)a->id, kind_name[kind], call, size,
	      (unsigned long long)*counter(kind), a->made);
	*out = (void *)a->base;
	return cudaSuccess;
}

cudaError_t device_free(void *p, enum kind want, const char *call)
{
	if (!p)
		return cudaSuccess;
	struct alloc *a = find((uintptr_t)p);
	bool fits = a && a->base == (uintptr_t)p && (want == PINNED) == (a->kind == PINNED) && a->kind != MAPPED;
	if (!fits || !a->live) {
		fault("free", "call=%s alloc=%llu bytes=%zu alloc-stack=%u free-stack=%u here=%u", call, (unsigned long long)(a ? a->id : 0),
		      a ? a->size : 0, a ? a->made : 0, a ? a->freed : 0, stack_here());
		return cudaErrorInvalidValue;
	}
	const struct mark *busy = late_busy(a->marks, a->n_marks);
	if (busy)
		fault("busy", "call=%s alloc=%llu bytes=%zu alloc-stack=%u use-stack=%u here=%u", call, (unsigned long long)a->id, a->size, a->made,
		      busy->stack, stack_here());
	unplace(a);
	if (a->kind != PINNED)
		now->frees++;
	refund(a->kind, a->size);
	trace("free", "id=%llu kind=%s call=%s bytes=%zu used=%llu stack=%u", (unsigned long long)a->id, kind_name[a->kind], call, a->size,
	      (unsigned long long)*counter(a->kind), a->freed);
	return cudaSuccess;
}
