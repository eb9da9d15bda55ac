// HIP's runtime, as another name for the CUDA runtime of the other files: HIP's functions,
// handles, flags and error numbers are CUDA's where ggml-cuda meets them (hip_runtime_api.h
// of HIP 6.4: hipErrorOutOfMemory is 2, hipErrorStreamCaptureUnsupported 900, …). What
// differs stands in device.c and blas.c.
#include "../sim.h"
#include "facts.h"
#include <string.h>

// The card that a HIP build meets where no setting says another: a Radeon RX 9070 XT, with
// 16 GiB and 32 multiprocessors (pairs of compute units).
__attribute__((constructor)) static void defaults(void)
{
	config.hip = true;
	config.vram = 16384 * MIB;
	config.sms = 32;
}

int sim_hip_facts(struct facts *out, int device)
{
	cudaError_t e = begin();
	if (!e && device)
		e = cudaErrorInvalidDevice;
	*out = (struct facts){config.vram, config.sms, config.managed != MANAGED_NONE, config.managed == MANAGED_FULL, config.vmm, config.gfx};
	return finish(e);
}

int sim_hip_pointer(const void *p, int *type, bool *managed, int *device)
{
	struct cudaPointerAttributes a;
	cudaError_t e = cudaPointerGetAttributes(&a, p);
	*type = e ? 0 : (int)a.type;
	*managed = !e && a.type == cudaMemoryTypeManaged;
	*device = e ? -2 : a.device;
	return e;
}

int sim_hip_refuse(const char *call)
{
	return sim_refuse(call);
}

#define SAME(hip, cuda, parameters, arguments) \
	int hip parameters \
	{ \
		return cuda arguments; \
	}
SAME(hipGetLastError, cudaGetLastError, (void), ())
SAME(hipPeekAtLastError, cudaPeekAtLastError, (void), ())
SAME(hipGetDeviceCount, cudaGetDeviceCount, (int *n), (n))
SAME(hipGetDevice, cudaGetDevice, (int *d), (d))
SAME(hipSetDevice, cudaSetDevice, (int d), (d))
SAME(hipSetDeviceFlags, cudaSetDeviceFlags, (unsigned f), (f))
SAME(hipDeviceSynchronize, cudaDeviceSynchronize, (void), ())
SAME(hipDeviceCanAccessPeer, cudaDeviceCanAccessPeer, (int *can, int d, int peer), (can, d, peer))
SAME(hipDeviceEnablePeerAccess, cudaDeviceEnablePeerAccess, (int peer, unsigned f), (peer, f))
SAME(hipDeviceDisablePeerAccess, cudaDeviceDisablePeerAccess, (int peer), (peer))
SAME(hipDeviceGetPCIBusId, cudaDeviceGetPCIBusId, (char *id, int n, int d), (id, n, d))
SAME(hipMalloc, cudaMalloc, (void **p, size_t n), (p, n))
SAME(hipFree, cudaFree, (void *p), (p))
SAME(hipHostMalloc, cudaHostAlloc, (void **p, size_t n, unsigned f), (p, n, f))
SAME(hipHostFree, cudaFreeHost, (void *p), (p))
SAME(hipHostRegister, cudaHostRegister, (void *p, size_t n, unsigned f), (p, n, f))
SAME(hipHostUnregister, cudaHostUnregister, (void *p), (p))
SAME(hipMemGetInfo, cudaMemGetInfo, (size_t *free, size_t *total), (free, total))
SAME(hipMemcpyAsync, cudaMemcpyAsync, (void *to, const void *from, size_t n, int kind, cudaStream_t s), (to, from, n, kind, s))
SAME(hipMemcpyPeerAsync, cudaMemcpyPeerAsync, (void *to, int d, const void *from, int e, size_t n, cudaStream_t s), (to, d, from, e, n, s))
SAME(hipMemcpy2DAsync, cudaMemcpy2DAsync, (void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h, int kind, cudaStream_t s),
     (to, tp, from, fp, w, h, kind, s))
SAME(hipMemsetAsync, cudaMemsetAsync, (void *p, int v, size_t n, cudaStream_t s), (p, v, n, s))
SAME(hipStreamCreateWithFlags, cudaStreamCreateWithFlags, (cudaStream_t *s, unsigned f), (s, f))
SAME(hipStreamDestroy, cudaStreamDestroy, (cudaStream_t s), (s))
SAME(hipStreamSynchronize, cudaStreamSynchronize, (cudaStream_t s), (s))
SAME(hipStreamWaitEvent, cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned f), (s, e, f))
SAME(hipStreamBeginCapture, cudaStreamBeginCapture, (cudaStream_t s, int mode), (s, mode))
SAME(hipStreamEndCapture, cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), (s, g))
SAME(hipStreamIsCapturing, cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *is), (s, is))
SAME(hipEventCreate, cudaEventCreate, (cudaEvent_t *e), (e))
SAME(hipEventCreateWithFlags, cudaEventCreateWithFlags, (cudaEvent_t *e, unsigned f), (e, f))
SAME(hipEventDestroy, cudaEventDestroy, (cudaEvent_t e), (e))
SAME(hipEventRecord, cudaEventRecord, (cudaEvent_t e, cudaStream_t s), (e, s))
SAME(hipEventSynchronize, cudaEventSynchronize, (cudaEvent_t e), (e))
SAME(hipGraphDestroy, cudaGraphDestroy, (cudaGraph_t g), (g))
SAME(hipGraphExecDestroy, cudaGraphExecDestroy, (cudaGraphExec_t x), (x))
SAME(hipGraphLaunch, cudaGraphLaunch, (cudaGraphExec_t x, cudaStream_t s), (x, s))
SAME(hipGraphGetNodes, cudaGraphGetNodes, (cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n), (g, nodes, n))
SAME(hipLaunchHostFunc, cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t fn, void *data), (s, fn, data))
SAME(hipFuncSetAttribute, cudaFuncSetAttribute, (const void *f, int which, int v), (f, which, v))
SAME(hipOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
     (int *n, const void *f, int block, size_t shared), (n, f, block, shared))
SAME(hipLaunchKernel, cudaLaunchKernel, (const void *f, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s),
     (f, grid, block, args, shared, s))
SAME(hipLaunchCooperativeKernel, cudaLaunchCooperativeKernel,
     (const void *f, dim3 grid, dim3 block, void **args, unsigned shared, cudaStream_t s), (f, grid, block, args, shared, s))

// What HIP does otherwise; docs/sim.md has the source of each rule.
int hipMallocManaged(void **p, size_t n, unsigned f)
{
	cudaError_t e = cudaSuccess;
	if (!n) {
		e = begin();
		e = finish(e ? e : cudaErrorInvalidValue);
	}
	return e ? e : cudaMallocManaged(p, n, f);
}

// no_capture ends with an error while any stream captures, in whatever mode.
static cudaError_t no_capture(void)
{
	cudaError_t e = begin();
	return finish(e ? e : break_all(cudaErrorStreamCaptureImplicit));
}

int hipMemcpy(void *to, const void *from, size_t n, int kind)
{
	cudaError_t e = no_capture();
	return e ? e : cudaMemcpy(to, from, n, kind);
}

int hipMemset(void *p, int v, size_t n)
{
	cudaError_t e = no_capture();
	return e ? e : cudaMemset(p, v, n);
}

const char *hipGetErrorString(int code)
{
	return cudaGetErrorString(code);
}

const char *hipGetErrorName(int code)
{
	return cudaGetErrorName(code);
}

int hipMemAdvise(const void *p, size_t n, int advice, int device)
{
	(void)advice; // on speed, and whether the host's caches see it
#if CUDART_VERSION >= 13000
	return cudaMemAdvise(p, n, 0, (struct cudaMemLocation){cudaMemLocationTypeDevice, device});
#else
	return cudaMemAdvise(p, n, 0, device);
#endif
}

int hipGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, void *node, char *log, size_t size)
{
	if (log && size)
		*log = 0;
#if CUDART_VERSION >= 12000
	(void)node;
	return cudaGraphInstantiate(exec, graph, 0);
#else
	return cudaGraphInstantiate(exec, graph, node, NULL, 0);
#endif
}

int hipGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, void *node, enum cudaGraphExecUpdateResult *result)
{
#if CUDART_VERSION >= 12000
	(void)node;
	cudaGraphExecUpdateResultInfo info = {0};
	cudaError_t e = cudaGraphExecUpdate(exec, graph, &info);
	*result = info.result;
	return e;
#else
	return cudaGraphExecUpdate(exec, graph, node, result);
#endif
}

int hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *f, size_t shared, int limit)
{
	(void)f, (void)shared;
	cudaError_t e = begin();
	*block = limit > 0 && limit < 1024 ? limit : 1024;
	*grid = config.sms * config.occupancy;
	return finish(e);
}

// clang's older launch sequence, as in kernel.c.
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t cudaSetupArgument(const void *arg, size_t size, size_t offset);
cudaError_t cudaLaunch(const void *func);
SAME(hipConfigureCall, cudaConfigureCall, (dim3 grid, dim3 block, size_t shared, cudaStream_t s), (grid, block, shared, s))
SAME(hipSetupArgument, cudaSetupArgument, (const void *arg, size_t size, size_t offset), (arg, size, offset))
SAME(hipLaunchByPtr, cudaLaunch, (const void *f), (f))

// A program with device code registers it; there is nothing to run it on.
void **__hipRegisterFatBinary(const void *fat)
{
	return (void **)(uintptr_t)fat;
}
void __hipUnregisterFatBinary(void **fat)
{
	(void)fat;
}
void __hipRegisterFunction(void **fat, const void *host, char *device, const char *name, unsigned threads, void *tid, void *bid, void *block,
			   void *grid, int *warp)
{
	(void)fat, (void)host, (void)device, (void)name, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
}
void __hipRegisterVar(void **fat, void *var, char *host, char *device, int external, size_t size, int constant, int global)
{
	(void)fat, (void)var, (void)host, (void)device, (void)external, (void)size, (void)constant, (void)global;
}
