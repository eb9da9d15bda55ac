// The driver's calls that ggml's pool of mapped memory makes: physical memory is
// one thing, the addresses where it is seen another.
#include "sim.h"

struct physical {
	size_t size;
	int holds; // the handle and each mapping
};
struct mapping {
	struct physical *memory;
	uint64_t alloc;
	bool access;
};
struct reservation {
	uintptr_t base;
	size_t size;
};

static struct mapping *mappings;
static uint32_t n_mappings, cap_mappings;
static struct reservation *reservations;
static uint32_t n_reservations, cap_reservations;

#define GRANULARITY ((size_t)2 << 20) // what NVIDIA's driver answers

// The driver's codes are the runtime's, where both have one.
static CUresult driver(cudaError_t e)
{
	return (CUresult)e;
}

static CUresult out(CUresult r)
{
	return driver(finish((cudaError_t)r));
}

CUresult cuInit(unsigned flags)
{
	(void)flags;
	return out((CUresult)begin());
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = driver(begin());
	if (!r && ordinal)
		r = CUDA_ERROR_INVALID_DEVICE;
	if (!r)
		*device = 0;
	return out(r);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
	if (which == CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED) {
		CUresult r = driver(begin());
		if (!r && device)
			r = CUDA_ERROR_INVALID_DEVICE;
		if (!r)
			*value = config.vmm;
		return out(r);
	}
	// The others have the runtime's numbers.
	return driver(cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)which, device));
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	*text = cudaGetErrorString((cudaError_t)error);
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
	*text = cudaGetErrorName((cudaError_t)error);
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *size, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
	(void)option;
	CUresult r = driver(begin());
	if (!r && (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*size = GRANULARITY;
	return out(r);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
	(void)flags;
	CUresult r = driver(begin());
	if (!r)
		r = driver(unsafe_call());
	if (!r && !config.vmm)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (!r && (!size || size % GRANULARITY || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
		   prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = driver(charge(MAPPED, size, "cuMemCreate"));
	if (r)
		return out(r);
	struct physical *m = own_alloc(NULL, 0, sizeof *m);
	*m = (struct physical){size, 1};
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)handle_new(H_MEMORY, m);
	trace("create", "bytes=%zu used=%llu stack=%u", size, (unsigned long long)now->vram_used, stack_here());
	return out(CUDA_SUCCESS);
}

static void let_go(struct physical *m)
{
	if (--m->holds)
		return;
	now->frees++;
	refund(MAPPED, m->size);
	trace("release", "bytes=%zu used=%llu stack=%u", m->size, (unsigned long long)now->vram_used, stack_here());
	own_free(m, sizeof *m);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult r = driver(begin());
	if (r)
		return out(r);
	struct physical *m = handle_take(H_MEMORY, (void *)(uintptr_t)handle);
	if (!m)
		return out(CUDA_ERROR_INVALID_VALUE);
	let_go(m);
	return out(CUDA_SUCCESS);
}

CUresult cuMemAddressReserve(CUdeviceptr *p, size_t size, size_t align, CUdeviceptr wish, unsigned long long flags)
{
	(void)wish, (void)flags; // where it would like to be: a hint
	CUresult r = driver(begin());
	if (!r && (!size || size % GRANULARITY || (align & (align - 1))))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return out(r);
	uintptr_t base = reserve(size, align > GRANULARITY ? align : GRANULARITY);
	if (!base)
		return out(CUDA_ERROR_OUT_OF_MEMORY);
	if (n_reservations == cap_reservations) {
		reservations = own_alloc(reservations, cap_reservations * sizeof *reservations, (cap_reservations + 16) * sizeof *reservations);
		cap_reservations += 16;
	}
	reservations[n_reservations++] = (struct reservation){base, size};
	trace("reserve", "bytes=%zu stack=%u", size, stack_here());
	*p = base;
	return out(CUDA_SUCCESS);
}

static bool overlaps(uintptr_t base, size_t size)
{
	for (uint32_t i = 0; i < n_mappings; i++) {
		struct alloc *a = alloc_number(mappings[i].alloc);
		if (base < a->base + a->size && a->base < base + size)
			return true;
	}
	return false;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t size)
{
	CUresult r = driver(begin());
	if (r)
		return out(r);
	for (uint32_t i = 0; i < n_reservations; i++)
		if (reservations[i].base == p && reservations[i].size == size && !overlaps(p, size)) {
			reservations[i] = reservations[--n_reservations];
			trace("unreserve", "bytes=%zu stack=%u", size, stack_here());
			return out(CUDA_SUCCESS);
		}
	return out(CUDA_ERROR_INVALID_VALUE);
}

static bool reserved(CUdeviceptr p, size_t size)
{
	for (uint32_t i = 0; i < n_reservations; i++) {
		struct reservation *v = &reservations[i];
		if (p >= v->base && p - v->base <= v->size && size <= v->size - (p - v->base))
			return true;
	}
	return false;
}

CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult r = driver(begin());
	if (r)
		return out(r);
	struct physical *m = handle_get(H_MEMORY, (void *)(uintptr_t)handle);
	if (!m || offset || flags || size != m->size || p % GRANULARITY || !reserved(p, size) || overlaps(p, size))
		return out(CUDA_ERROR_INVALID_VALUE);
	struct alloc *a = place_at(p, MAPPED, size);
	if (!a)
		return out(CUDA_ERROR_OUT_OF_MEMORY);
	if (n_mappings == cap_mappings) {
		mappings = own_alloc(mappings, cap_mappings * sizeof *mappings, (cap_mappings + 64) * sizeof *mappings);
		cap_mappings += 64;
	}
	m->holds++;
	mappings[n_mappings++] = (struct mapping){m, a->id, false};
	trace("alloc", "id=%llu kind=mapped call=cuMemMap bytes=%zu used=%llu stack=%u", (unsigned long long)a->id, size,
	      (unsigned long long)now->vram_used, a->made);
	return out(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	CUresult r = driver(begin());
	if (!r && (!n || desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc->location.id))
		r = CUDA_ERROR_INVALID_VALUE;
	size_t covered = 0;
	for (uint32_t i = 0; !r && i < n_mappings; i++) {
		struct alloc *a = alloc_number(mappings[i].alloc);
		if (a->base >= p && a->base + a->size <= p + size) {
			mappings[i].access = true;
			covered += a->size;
		}
	}
	return out(!r && covered != size ? CUDA_ERROR_INVALID_VALUE : r);
}

CUresult cuMemUnmap(CUdeviceptr p, size_t size)
{
	CUresult r = driver(begin());
	if (!r)
		r = driver(unsafe_call());
	size_t covered = 0;
	for (uint32_t i = 0; !r && i < n_mappings; i++) {
		struct alloc *a = alloc_number(mappings[i].alloc);
		if (a->base >= p && a->base + a->size <= p + size)
			covered += a->size;
	}
	if (!r && covered != size)
		r = CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; !r && i < n_mappings;) {
		struct alloc *a = alloc_number(mappings[i].alloc);
		if (a->base < p || a->base + a->size > p + size) {
			i++;
			continue;
		}
		struct physical *m = mappings[i].memory;
		mappings[i] = mappings[--n_mappings];
		unplace(a);
		trace("free", "id=%llu kind=mapped call=cuMemUnmap bytes=%zu used=%llu stack=%u", (unsigned long long)a->id, a->size,
		      (unsigned long long)now->vram_used, a->freed);
		let_go(m);
	}
	return out(r);
}
