// HIP's own structures and attributes, whose numbers are not CUDA's.
#include "facts.h"
#include <hip/hip_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// number is the major or minor number of a name whose last two digits are the minor one and
// a step: gfx1201 is 12.0, gfx90a 9.0.
static int number(const char *gfx, int minor)
{
	size_t n = strlen(gfx) - 2;
	char major[8];
	snprintf(major, sizeof major, "%.*s", (int)n - 3, gfx + 3);
	return minor ? gfx[n] - '0' : atoi(major);
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device)
{
	struct facts f;
	int e = sim_hip_facts(&f, device);
	if (e)
		return e;
	memset(p, 0, sizeof *p);
	snprintf(p->name, sizeof p->name, "llpatch simulated device");
	snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s", f.gfx);
	p->totalGlobalMem = f.vram;
	p->sharedMemPerBlock = p->sharedMemPerBlockOptin = p->maxSharedMemoryPerMultiProcessor = p->sharedMemPerMultiprocessor = LDS;
	p->regsPerBlock = p->regsPerMultiprocessor = 65536;
	p->warpSize = 32;
	p->maxThreadsPerBlock = 1024;
	p->maxThreadsPerMultiProcessor = 2048;
	p->maxThreadsDim[0] = p->maxThreadsDim[1] = p->maxThreadsDim[2] = 1024;
	p->maxGridSize[0] = INT32_MAX, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
	p->major = number(f.gfx, 0);
	p->minor = number(f.gfx, 1);
	p->multiProcessorCount = f.sms;
	p->memPitch = INT32_MAX;
	p->textureAlignment = 256;
	p->pciBusID = 1;
	p->unifiedAddressing = p->canMapHostMemory = p->concurrentKernels = p->cooperativeLaunch = 1;
	p->managedMemory = f.managed;
	p->concurrentManagedAccess = f.concurrent;
	return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int device)
{
	struct facts f;
	int e = sim_hip_facts(&f, device);
	if (e)
		return e;
	switch (which) {
	case hipDeviceAttributeMaxThreadsPerBlock: *value = 1024; break;
	case hipDeviceAttributeMaxSharedMemoryPerBlock: *value = LDS; break;
	case hipDeviceAttributeMultiprocessorCount: *value = f.sms; break;
	case hipDeviceAttributeWarpSize: *value = 32; break;
	case hipDeviceAttributeComputeCapabilityMajor: *value = number(f.gfx, 0); break;
	case hipDeviceAttributeComputeCapabilityMinor: *value = number(f.gfx, 1); break;
	case hipDeviceAttributeCooperativeLaunch: case hipDeviceAttributeCanMapHostMemory: *value = 1; break;
	case hipDeviceAttributeManagedMemory: *value = f.managed; break;
	case hipDeviceAttributeConcurrentManagedAccess: *value = f.concurrent; break;
	case hipDeviceAttributeVirtualMemoryManagementSupported: *value = f.vmm; break;
	case hipDeviceAttributeIntegrated: case hipDeviceAttributePageableMemoryAccess: *value = 0; break;
	default: {
		char call[64];
		snprintf(call, sizeof call, "hipDeviceGetAttribute/%d", (int)which);
		return sim_hip_refuse(call);
	}
	}
	return hipSuccess;
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *p)
{
	int type, device;
	bool managed;
	int e = sim_hip_pointer(p, &type, &managed, &device);
	memset(out, 0, sizeof *out);
	if (e)
		return e;
	out->type = type;
	out->device = device;
	out->isManaged = managed;
	out->devicePointer = type ? (void *)p : NULL;
	out->hostPointer = managed || type == hipMemoryTypeHost ? (void *)p : NULL;
	return hipSuccess;
}
