// The runtime's calls on memory.
#include "sim.h"
#include <string.h>

cudaError_t cudaMalloc(void **p, size_t size)
{
	cudaError_t e = begin();
	if (!e)
		e = unsafe_call();
	if (e || !p)
		return finish(e ? e : cudaErrorInvalidValue);
	if (!size) {
		*p = NULL;
		return finish(cudaSuccess);
	}
	*p = NULL; // a call that finds no memory does not leave the pointer as it was
	return finish(device_alloc(DEVICE, size, p, "cudaMalloc"));
}

cudaError_t cudaMallocManaged(void **p, size_t size, unsigned flags)
{
	cudaError_t e = begin();
	if (!e)
		e = unsafe_call();
	if (!e && config.managed == MANAGED_NONE)
		e = cudaErrorNotSupported;
	if (!e && (!p || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)))
		e = cudaErrorInvalidValue;
	if (e)
		return finish(e);
	if (!size) { // the manual calls this an error; a card with CUDA 13.0 does not (docs/sim.md)
		*p = NULL;
		return finish(cudaSuccess);
	}
	return finish(device_alloc(MANAGED, size, p, "cudaMallocManaged"));
}

cudaError_t cudaFree(void *p)
{
	cudaError_t e = begin();
	if (!e && p)
		e = unsafe_call();
	return finish(e ? e : device_free(p, DEVICE, "cudaFree"));
}

cudaError_t cudaHostAlloc(void **p, size_t size, unsigned flags)
{
	(void)flags; // where it is visible: there is one device
	cudaError_t e = begin();
	if (!e)
		e = unsafe_call();
	if (e || !p)
		return finish(e ? e : cudaErrorInvalidValue);
	if (!size) {
		*p = NULL;
		return finish(cudaSuccess);
	}
	return finish(device_alloc(PINNED, size, p, "cudaHostAlloc"));
}

cudaError_t cudaMallocHost(void **p, size_t size)
{
	return cudaHostAlloc(p, size, 0);
}

cudaError_t cudaFreeHost(void *p)
{
	cudaError_t e = begin();
	if (!e && p)
		e = unsafe_call();
	return finish(e ? e : device_free(p, PINNED, "cudaFreeHost"));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	cudaError_t e = begin();
	if (!e) {
		uint64_t used = now->vram_used;
		if (config.managed == MANAGED_LIMITED)
			used += now->managed_used;
		*total = config.vram;
		*free = used < config.vram ? config.vram - used : 0;
	}
	return finish(e);
}

static cudaError_t is_managed(const void *p, size_t size)
{
	struct alloc *a = find((uintptr_t)p);
	bool ok = a && a->live && a->kind == MANAGED && size && size <= a->base + a->size - (uintptr_t)p;
	return ok ? cudaSuccess : cudaErrorInvalidValue;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemAdvise(const void *p, size_t size, enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
	(void)location;
#else
cudaError_t cudaMemAdvise(const void *p, size_t size, enum cudaMemoryAdvise advice, int device)
{
	(void)device;
#endif
	(void)advice; // advice on speed
	cudaError_t e = begin();
	return finish(e ? e : is_managed(p, size));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct alloc *a = find((uintptr_t)p);
	memset(out, 0, sizeof *out);
	out->device = -2; // as the runtime says of memory that it does not know
	if (!a || !a->live)
		return finish(cudaSuccess);
	out->device = 0;
	out->type = a->kind == PINNED ? cudaMemoryTypeHost : a->kind == MANAGED ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
	out->devicePointer = (void *)p;
	out->hostPointer = a->kind == PINNED || a->kind == MANAGED ? (void *)p : NULL;
	return finish(cudaSuccess);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct alloc *a = find((uintptr_t)host);
	if (flags || !a || !a->live || a->kind != PINNED)
		return finish(cudaErrorInvalidValue);
	*device = host;
	return finish(cudaSuccess);
}

// Ordinary memory that the program had pinned.
struct range {
	uintptr_t from;
	size_t size;
};
static struct range *ranges;
static uint32_t n_ranges, cap_ranges;

cudaError_t cudaHostRegister(void *p, size_t size, unsigned flags)
{
	(void)flags;
	cudaError_t e = begin();
	if (e)
		return finish(e);
	uintptr_t from = (uintptr_t)p;
	if (!p || !size || from + size < from)
		return finish(cudaErrorInvalidValue);
	for (uint32_t i = 0; i < n_ranges; i++)
		if (from < ranges[i].from + ranges[i].size && ranges[i].from < from + size)
			return finish(cudaErrorHostMemoryAlreadyRegistered);
	if (n_ranges == cap_ranges) {
		ranges = own_alloc(ranges, cap_ranges * sizeof *ranges, (cap_ranges + 16) * sizeof *ranges);
		cap_ranges += 16;
	}
	ranges[n_ranges++] = (struct range){from, size};
	now->pinned_used += size;
	return finish(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *p)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	for (uint32_t i = 0; i < n_ranges; i++)
		if (ranges[i].from == (uintptr_t)p) {
			now->pinned_used -= ranges[i].size;
			ranges[i] = ranges[--n_ranges];
			return finish(cudaSuccess);
		}
	return finish(cudaErrorHostMemoryNotRegistered);
}
