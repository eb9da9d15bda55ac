// The device itself: its start, its errors, its properties.
#include "sim.h"
#include <string.h>

static enum { UNTRIED, READY, BROKEN } started;
static _Thread_local cudaError_t last;

static void start(void)
{
	started = config_read() && memory_open() && (!config.state || state_open(config.state)) &&
				  (!config.trace || trace_open(config.trace))
			  ? READY
			  : BROKEN;
}

cudaError_t begin(void)
{
	os_lock();
	if (started == UNTRIED)
		start();
	state_begin();
	if (started == BROKEN)
		return cudaErrorInitializationError;
	return sticky;
}

cudaError_t finish(cudaError_t e)
{
	state_end();
	os_unlock();
	if (e && e != cudaErrorNotReady)
		last = e;
	return e;
}

void pause_lock(void)
{
	state_end();
	os_unlock();
}

void resume_lock(void)
{
	os_lock();
	state_begin();
}

__attribute__((destructor)) static void stop(void)
{
	if (!os_last_lock())
		return;
	trace_close();
	os_unlock();
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t e = last;
	last = cudaSuccess;
	return sticky ? sticky : e;
}

cudaError_t cudaPeekAtLastError(void)
{
	return sticky ? sticky : last;
}

static const struct {
	cudaError_t code;
	const char *name, *text;
} errors[] = {
#define ERROR(code, text) {code, #code, text}
	ERROR(cudaSuccess, "no error"),
	ERROR(cudaErrorInvalidValue, "invalid argument"),
	ERROR(cudaErrorMemoryAllocation, "out of memory"),
	ERROR(cudaErrorInitializationError, "initialization error"),
	ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
	ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
	ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
	ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
	ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
	ERROR(cudaErrorNotReady, "device not ready"),
	ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
	ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
	ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
	ERROR(cudaErrorNotSupported, "operation not supported"),
	ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
	ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
	ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
	ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
	ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
	ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
	ERROR(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
	ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
	ERROR(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
	ERROR(cudaErrorGraphExecUpdateFailure,
	      "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"),
#undef ERROR
};

const char *cudaGetErrorString(cudaError_t code)
{
	for (size_t i = 0; i < LEN(errors); i++)
		if (errors[i].code == code)
			return errors[i].text;
	return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t code)
{
	for (size_t i = 0; i < LEN(errors); i++)
		if (errors[i].code == code)
			return errors[i].name;
	return "unrecognized error code";
}

// What differs between compute capabilities: table "Technical Specifications
// per Compute Capability" of the CUDA C++ Programming Guide.
static const struct {
	int from;                            // this capability and those up to the next row
	size_t shared_block, shared_sm;      // opt-in bytes a block, bytes a multiprocessor
	int threads_sm, blocks_sm;
} by_cc[] = {
	{0, 48 << 10, 96 << 10, 2048, 32},    {70, 96 << 10, 96 << 10, 2048, 32}, {75, 64 << 10, 64 << 10, 1024, 16},
	{80, 163 << 10, 164 << 10, 2048, 32}, {86, 99 << 10, 100 << 10, 1536, 16}, {87, 163 << 10, 164 << 10, 1536, 16},
	{89, 99 << 10, 100 << 10, 1536, 24},  {90, 227 << 10, 228 << 10, 2048, 32}, {110, 227 << 10, 228 << 10, 2048, 32},
	{120, 99 << 10, 100 << 10, 1536, 24},
};

static size_t row(void)
{
	size_t i = LEN(by_cc) - 1;
	while (by_cc[i].from > config.cc)
		i--;
	return i;
}

size_t shared_optin(void)
{
	return config.hip ? 64 << 10 : by_cc[row()].shared_block;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t e = begin();
	*count = e == cudaErrorInitializationError ? 0 : 1;
	return finish(e);
}

cudaError_t cudaGetDevice(int *device)
{
	cudaError_t e = begin();
	*device = 0;
	return finish(e);
}

static cudaError_t device_is(int device)
{
	return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int device)
{
	cudaError_t e = begin();
	return finish(e ? e : device_is(device));
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
	(void)flags; // how a thread waits: nothing here does
	return finish(begin());
}

cudaError_t cudaDeviceSynchronize(void)
{
	cudaError_t e = begin();
	return finish(e ? e : device_wide_sync());
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	cudaError_t e = begin();
	*version = config.runtime;
	return finish(e);
}

cudaError_t cudaDriverGetVersion(int *version)
{
	cudaError_t e = begin();
	*version = config.driver;
	return finish(e);
}

// There is one device, and none is its own peer.
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	cudaError_t e = begin();
	*can = 0;
	if (!e && (device_is(device) || device_is(peer)))
		e = cudaErrorInvalidDevice;
	return finish(e);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	(void)peer, (void)flags;
	cudaError_t e = begin();
	return finish(e ? e : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	(void)peer;
	cudaError_t e = begin();
	return finish(e ? e : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	cudaError_t e = begin();
	if (!e && !(e = device_is(device)))
		snprintf(id, size, "0000:01:00.0");
	return finish(e);
}

static cudaError_t attribute(int *value, int which)
{
	size_t i = row();
	switch (which) {
	case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
	case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
	case cudaDevAttrMaxBlockDimZ: *value = 64; break;
	case cudaDevAttrMaxGridDimX: *value = INT32_MAX; break;
	case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
	case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
	case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = by_cc[i].shared_block; break;
	case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = by_cc[i].shared_sm; break;
	case cudaDevAttrReservedSharedMemoryPerBlock: *value = config.cc >= 80 ? 1024 : 0; break;
	case cudaDevAttrMaxThreadsPerMultiProcessor: *value = by_cc[i].threads_sm; break;
	case cudaDevAttrMaxBlocksPerMultiprocessor: *value = by_cc[i].blocks_sm; break;
	case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
	case cudaDevAttrWarpSize: *value = 32; break;
	case cudaDevAttrMultiProcessorCount: *value = config.sms; break;
	case cudaDevAttrComputeCapabilityMajor: *value = config.cc / 10; break;
	case cudaDevAttrComputeCapabilityMinor: *value = config.cc % 10; break;
	case cudaDevAttrCooperativeLaunch: case cudaDevAttrConcurrentKernels: *value = 1; break;
	case cudaDevAttrUnifiedAddressing: case cudaDevAttrCanMapHostMemory: *value = 1; break;
	case cudaDevAttrManagedMemory: *value = config.managed != MANAGED_NONE; break;
	case cudaDevAttrConcurrentManagedAccess: *value = config.managed == MANAGED_FULL; break;
	case cudaDevAttrIntegrated: case cudaDevAttrPageableMemoryAccess: case cudaDevAttrEccEnabled:
	case cudaDevAttrComputeMode: case cudaDevAttrTccDriver: *value = 0; break;
	default: {
		char call[64];
		snprintf(call, sizeof call, "cudaDeviceGetAttribute/%d", which);
		return refuse(call);
	}
	}
	return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device)
{
	cudaError_t e = begin();
	if (!e && !(e = device_is(device)))
		e = attribute(value, which);
	return finish(e);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
	cudaError_t e = begin();
	if (e || (e = device_is(device)))
		return finish(e);
	size_t i = row();
	memset(p, 0, sizeof *p);
	snprintf(p->name, sizeof p->name, "llpatch simulated device");
	p->totalGlobalMem = config.vram;
	p->sharedMemPerBlock = 48 << 10;
	p->sharedMemPerBlockOptin = by_cc[i].shared_block;
	p->sharedMemPerMultiprocessor = by_cc[i].shared_sm;
	p->reservedSharedMemPerBlock = config.cc >= 80 ? 1024 : 0;
	p->regsPerBlock = p->regsPerMultiprocessor = 65536;
	p->warpSize = 32;
	p->maxThreadsPerBlock = 1024;
	p->maxThreadsPerMultiProcessor = by_cc[i].threads_sm;
	p->maxBlocksPerMultiProcessor = by_cc[i].blocks_sm;
	p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
	p->maxGridSize[0] = INT32_MAX, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
	p->major = config.cc / 10;
	p->minor = config.cc % 10;
	p->multiProcessorCount = config.sms;
	p->memPitch = INT32_MAX;
	p->textureAlignment = 512;
	p->pciBusID = 1;
	p->unifiedAddressing = p->canMapHostMemory = p->concurrentKernels = p->cooperativeLaunch = 1;
	p->managedMemory = config.managed != MANAGED_NONE;
	p->concurrentManagedAccess = config.managed == MANAGED_FULL;
	return finish(cudaSuccess);
}
