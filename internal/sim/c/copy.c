// Copies and memsets. Every range is checked against the allocations; bytes move
// only where there are any: with LLPATCH_SIM_STORE device memory keeps what is
// written to it, otherwise it keeps nothing and reads as zeros (or, with
// LLPATCH_SIM_COUNT=n, as the 32-bit numbers 0 to n-1 in turn).
#include "sim.h"
#include <string.h>

enum side { HOST, SIM, BAD };

// side tells where p lies. A range in our address space must lie in allocations
// that stand side by side (which mappings can).
static enum side side(uint64_t p, size_t n, const char *call, bool report)
{
	if (!in_arena(p))
		return HOST;
	uint64_t at = p;
	struct alloc *a = find(at);
	while (a && a->live && n > a->base + a->size - at) {
		n -= a->base + a->size - at;
		at = a->base + a->size;
		a = find(at);
	}
	if (a && a->live)
		return SIM;
	if (!report)
		return BAD;
	struct alloc *start = find(p);
	if (a)
		fault("copy", "call=%s alloc=%llu bytes=%zu alloc-stack=%u free-stack=%u here=%u", call, (unsigned long long)a->id, a->size, a->made,
		      a->freed, stack_here());
	else
		fault("bounds", "call=%s alloc=%llu bytes=%zu offset=%llu beyond=%zu alloc-stack=%u here=%u", call,
		      (unsigned long long)(start ? start->id : 0), start ? start->size : 0, (unsigned long long)(start ? p - start->base : 0), n,
		      start ? start->made : 0, stack_here());
	return BAD;
}

static bool readable(enum side s, uint64_t p)
{
	if (s == HOST || config.store)
		return true;
	struct alloc *a = find(p);
	return a->kind == MANAGED || a->kind == PINNED;
}

// made_up fills what is read from memory that keeps nothing.
static void made_up(char *to, uint64_t address, size_t n)
{
	if (!config.count) {
		memset(to, 0, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t number = (address + i) / 4 % config.count;
		to[i] = number >> (address + i) % 4 * 8;
	}
}

static cudaError_t move(uint64_t dst, uint64_t src, size_t n, bool report)
{
	if (!n)
		return cudaSuccess;
	enum side to = side(dst, n, "copy-to", report), from = side(src, n, "copy-from", report);
	if (to == BAD || from == BAD)
		return cudaErrorInvalidValue;
	if (!readable(to, dst))
		return cudaSuccess;
	if (readable(from, src))
		memmove((void *)dst, (void *)src, n);
	else
		made_up((char *)dst, src, n);
	return cudaSuccess;
}

// zero gives whole pages of managed memory back instead of writing them, so that a cache
// of any size that is cleared at the start costs the host nothing.
static void zero(uint64_t dst, size_t n)
{
	uint64_t from = (dst + 4095) / 4096 * 4096, to = (dst + n) / 4096 * 4096;
	if (from >= to || !os_clear(from, to - from)) {
		memset((void *)dst, 0, n);
		return;
	}
	memset((void *)dst, 0, from - dst);
	memset((void *)to, 0, dst + n - to);
}

static cudaError_t fill(uint64_t dst, int value, size_t n, bool report)
{
	if (!n)
		return cudaSuccess;
	enum side to = side(dst, n, "memset", report);
	if (to != SIM) // a memset of pageable memory is an error too
		return cudaErrorInvalidValue;
	if (!readable(to, dst))
		return cudaSuccess;
	if (!value && find(dst)->kind == MANAGED)
		zero(dst, n);
	else
		memset((void *)dst, value, n);
	return cudaSuccess;
}

cudaError_t perform(const struct node *n, bool checked)
{
	cudaError_t e = cudaSuccess;
	switch (n->op) {
	case OP_COPY:
		now->copies++;
		for (size_t row = 0; row < n->copy.height && !e; row++)
			e = move(n->copy.dst + row * n->copy.dst_pitch, n->copy.src + row * n->copy.src_pitch, n->copy.width, checked);
		break;
	case OP_SET:
		now->copies++;
		e = fill(n->copy.dst, n->copy.value, n->copy.width, checked);
		break;
	case OP_HOST:
		pause_lock();
		n->host.fn(n->host.data);
		resume_lock();
		break;
	case OP_KERNEL:
	case OP_BLAS:
		break;
	}
	return checked ? e : cudaSuccess;
}

// waited_for tells whether a copy has ended when its call returns ("API synchronization
// behavior" in the Runtime API manual): one to pageable memory, and a synchronous one unless
// both ends are the device's. That a pageable source was read is not the end of its copy.
static bool waited_for(const struct node *n, bool synchronous)
{
	if (!in_arena(n->copy.dst))
		return true;
	struct alloc *to = find(n->copy.dst), *from = find(n->copy.src);
	return synchronous && (!from || from->kind == PINNED || !to || to->kind == PINNED);
}

static cudaError_t do_or_capture(cudaStream_t stream, struct node n)
{
	struct stream *s;
	cudaError_t e = begin();
	if (!e)
		e = stream_for(stream, &s);
	if (!e && s->capture) {
		const uint64_t pointers[] = {n.copy.dst, n.copy.src};
		e = capture_node(s, n, pointers, n.op == OP_COPY ? 2 : 1);
	} else if (!e) {
		e = perform(&n, true);
		struct mark work = late_work(s);
		late_uses(work, n.copy.dst);
		late_uses(work, n.copy.src);
		if (n.op == OP_COPY && waited_for(&n, s->legacy))
			late_wait(s);
	}
	return finish(e);
}

static struct node copy_node(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height)
{
	return (struct node){.op = OP_COPY, .copy = {.dst = (uintptr_t)dst, .src = (uintptr_t)src, .width = width, .height = height,
						     .dst_pitch = dst_pitch, .src_pitch = src_pitch}};
}

// A synchronous call is work of the legacy stream, and as such forbidden while a
// blocking stream captures. It is not one of the unsafe calls that a capture's mode
// forbids: a card lets cudaMemcpy be, whatever the mode (docs/sim.md).
static cudaError_t synchronous(struct node n)
{
	return do_or_capture(0, n);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)kind; // one address space: the pointers say which way
	return do_or_capture(stream, copy_node(dst, 0, src, 0, n, 1));
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
	(void)kind;
	return synchronous(copy_node(dst, 0, src, 0, n, 1));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n, cudaStream_t stream)
{
	if (to || from) {
		cudaError_t e = begin();
		return finish(e ? e : cudaErrorInvalidDevice);
	}
	return do_or_capture(stream, copy_node(dst, 0, src, 0, n, 1));
}

static cudaError_t pitches(size_t dst_pitch, size_t src_pitch, size_t width)
{
	cudaError_t e = begin();
	if (!e && (width > dst_pitch || width > src_pitch))
		e = cudaErrorInvalidPitchValue;
	return finish(e);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
			      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)kind;
	cudaError_t e = pitches(dst_pitch, src_pitch, width);
	return e ? e : do_or_capture(stream, copy_node(dst, dst_pitch, src, src_pitch, width, height));
}

cudaError_t cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
			 enum cudaMemcpyKind kind)
{
	(void)kind;
	cudaError_t e = pitches(dst_pitch, src_pitch, width);
	return e ? e : synchronous(copy_node(dst, dst_pitch, src, src_pitch, width, height));
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t n, cudaStream_t stream)
{
	return do_or_capture(stream, (struct node){.op = OP_SET, .copy = {.dst = (uintptr_t)dst, .width = n, .value = value}});
}

cudaError_t cudaMemset(void *dst, int value, size_t n)
{
	return synchronous((struct node){.op = OP_SET, .copy = {.dst = (uintptr_t)dst, .width = n, .value = value}});
}
