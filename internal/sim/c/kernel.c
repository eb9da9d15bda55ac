// Kernels: how one is launched, and which memory it names. Nothing runs.
//
// Files that llpatch compiles use clang's older launch sequence (launch.h), which
// hands over each argument with its size, so pointers inside structures are seen
// too. Of a launch through cudaLaunchKernel only the array of arguments is known.
#include "sim.h"
#include <string.h>

#define NESTED 8
#define POINTERS 512

struct pending {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
	uint32_t n;
	uint64_t pointers[POINTERS];
};
static _Thread_local struct pending pending[NESTED];
static _Thread_local int depth;

// What cudaFuncSetAttribute allowed a kernel beyond 48 KiB.
static struct { const void *func; size_t shared; } *allowed;
static uint32_t n_allowed, cap_allowed;

static size_t allowance(const void *func)
{
	for (uint32_t i = 0; i < n_allowed; i++)
		if (allowed[i].func == func)
			return allowed[i].shared;
	return config.hip ? 64 << 10 : 48 << 10; // an AMD card has no more to ask for
}

static void collect(struct pending *p, const void *arg, size_t size)
{
	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word;
		memcpy(&word, (const char *)arg + i, 8);
		if (in_arena(word) && p->n < POINTERS)
			p->pointers[p->n++] = word;
	}
}

cudaError_t launch_fits(const void *func, dim3 grid, dim3 block, size_t shared)
{
	uint64_t threads = (uint64_t)block.x * block.y * block.z;
	if (!grid.x || !grid.y || !grid.z || !threads || threads > 1024 || block.z > 64 || grid.x > INT32_MAX || grid.y > 65535 ||
	    grid.z > 65535)
		// CUDA 13.0 says so of a grid or block that is too large; which version before it
		// was the last with an error of its own was not tried.
		return config.runtime >= 13000 ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration;
	return shared > allowance(func) ? cudaErrorInvalidValue : cudaSuccess;
}

static cudaError_t launch(const void *func, const struct pending *p)
{
	struct stream *s;
	cudaError_t e = stream_for(p->stream, &s);
	if (!e)
		e = launch_fits(func, p->grid, p->block, p->shared);
	if (e)
		return e;
	if (s->capture)
		return capture_node(s, (struct node){.op = OP_KERNEL, .kernel = {func}}, p->pointers, p->n);
	now->launches++;
	struct mark work = late_work(s);
	for (uint32_t i = 0; i < p->n; i++) {
		struct alloc *a = find(p->pointers[i]);
		late_uses(work, p->pointers[i]);
		if (a && !a->live)
			fault("launch", "alloc=%llu bytes=%zu offset=%llu alloc-stack=%u free-stack=%u here=%u", (unsigned long long)a->id, a->size,
			      (unsigned long long)(p->pointers[i] - a->base), a->made, a->freed, stack_here());
	}
	return cudaSuccess;
}

static cudaError_t launch_now(const void *func, const struct pending *p)
{
	cudaError_t e = begin();
	if (!e)
		e = launch(func, p);
	return finish(e);
}

static cudaError_t no_launch(void)
{
	cudaError_t e = begin();
	return finish(e ? e : cudaErrorInvalidConfiguration);
}

// The older sequence. Its three functions stand in no CUDA header any more.
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
	if (depth == NESTED)
		return no_launch();
	struct pending *p = &pending[depth++];
	p->grid = grid, p->block = block, p->shared = shared, p->stream = stream;
	p->n = 0;
	return cudaSuccess;
}

cudaError_t cudaSetupArgument(const void *arg, size_t size, size_t offset)
{
	(void)offset;
	if (depth)
		collect(&pending[depth - 1], arg, size);
	return cudaSuccess;
}

cudaError_t cudaLaunch(const void *func)
{
	if (!depth)
		return no_launch();
	return launch_now(func, &pending[--depth]);
}

// The newer sequence, for programs that llpatch did not compile.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
	return cudaConfigureCall(grid, block, shared, stream);
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	if (!depth)
		return cudaErrorInvalidConfiguration;
	struct pending *p = &pending[--depth];
	*grid = p->grid, *block = p->block, *shared = p->shared;
	memcpy(stream, &p->stream, sizeof p->stream);
	return cudaSuccess;
}

// guess takes the entries of args that point into this thread's stack, where a
// launching function keeps its arguments, and ends at the first that does not.
static void guess(struct pending *p, void **args, size_t most)
{
	static _Thread_local uintptr_t top;
	if (!top)
		top = os_stack_top();
	uintptr_t low = (uintptr_t)__builtin_frame_address(0);
	if (!top || (uintptr_t)args < low || (uintptr_t)args >= top)
		return;
	for (size_t i = 0; i < most && (uintptr_t)(args + i + 1) <= top; i++) {
		uintptr_t at = (uintptr_t)args[i];
		if (at < low || at + 8 > top)
			break;
		if (at % 8 == 0)
			collect(p, (void *)at, 8);
	}
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
	struct pending p = {.grid = grid, .block = block, .shared = shared, .stream = stream};
	guess(&p, args, 64);
	return launch_now(func, &p);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
	return cudaLaunchKernel(func, grid, block, args, shared, stream);
}

// What launch.h makes of a cooperative launch whose array has n entries.
cudaError_t sim_launch_cooperative(const void *func, dim3 grid, dim3 block, void **args, size_t n, size_t shared, cudaStream_t stream)
{
	struct pending p = {.grid = grid, .block = block, .shared = shared, .stream = stream};
	for (size_t i = 0; i < n; i++)
		if ((uintptr_t)args[i] % 8 == 0)
			collect(&p, args[i], 8);
	return launch_now(func, &p);
}

// A program with device code registers it; there is nothing to run it on.
void **__cudaRegisterFatBinary(void *fat)
{
	return (void **)fat;
}
void __cudaRegisterFatBinaryEnd(void **fat)
{
	(void)fat;
}
void __cudaUnregisterFatBinary(void **fat)
{
	(void)fat;
}
void __cudaRegisterFunction(void **fat, const char *host, char *device, const char *name, int threads, uint3 *tid, uint3 *bid, dim3 *block,
			    dim3 *grid, int *warp)
{
	(void)fat, (void)host, (void)device, (void)name, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
}
void __cudaRegisterVar(void **fat, char *host, char *device, const char *name, int external, size_t size, int constant, int global)
{
	(void)fat, (void)host, (void)device, (void)name, (void)external, (void)size, (void)constant, (void)global;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute which, int value)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) // the other is a hint on speed
		return finish(which == cudaFuncAttributePreferredSharedMemoryCarveout ? cudaSuccess : cudaErrorInvalidValue);
	if (value < 0 || (size_t)value > shared_optin())
		return finish(cudaErrorInvalidValue);
	uint32_t i = 0;
	while (i < n_allowed && allowed[i].func != func)
		i++;
	if (i == cap_allowed) {
		allowed = own_alloc(allowed, cap_allowed * sizeof *allowed, (cap_allowed + 256) * sizeof *allowed);
		cap_allowed += 256;
	}
	allowed[i].func = func;
	allowed[i].shared = value;
	n_allowed = i < n_allowed ? n_allowed : i + 1;
	return finish(cudaSuccess);
}

// Registers and the like would come from device code, which is not there; the
// figures are those of a small kernel for the device.
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *func)
{
	cudaError_t e = begin();
	if (!e) {
		memset(a, 0, sizeof *a);
		a->maxThreadsPerBlock = 1024;
		a->numRegs = 32;
		a->ptxVersion = a->binaryVersion = config.cc;
		a->maxDynamicSharedSizeBytes = allowance(func);
	}
	return finish(e);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func, int block, size_t shared, unsigned flags)
{
	(void)flags;
	cudaError_t e = begin();
	if (!e && (block < 1 || block > 1024))
		e = cudaErrorInvalidValue;
	if (!e)
		*blocks = shared > allowance(func) ? 0 : config.occupancy;
	return finish(e);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func, int block, size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, block, shared, 0);
}
