// Memory that is made, mapped, unmapped and released by the driver's calls.
// env: VMM=1
#include "show.h"
#include <cuda.h>

static void code(const char * what, CUresult r) { printf("%-44s %d\n", what, r); }

int main(void) {
    CUdevice device;
    CUmemAllocationProp prop = {0};
    CUmemAccessDesc access = {0};
    CUmemGenericAllocationHandle one, two;
    CUdeviceptr p = 0;
    size_t grain = 0, free0, free1, total;
    int can = 0;
    cudaFree(0);
    code("cuInit", cuInit(0));
    code("cuDeviceGet", cuDeviceGet(&device, 0));
    code("attribute", cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED, device));
    number("memory can be mapped", can);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    code("granularity", cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    number("granularity", (long long) grain);
    const size_t size = 16 * grain;
    cudaMemGetInfo(&free0, &total);
    code("reserve", cuMemAddressReserve(&p, 1024 * grain, 0, 0, 0));
    cudaMemGetInfo(&free1, &total);
    yes("address space is no memory", free1 == free0);
    code("create", cuMemCreate(&one, size, &prop, 0));
    cudaMemGetInfo(&free1, &total);
    yes("it is memory", free0 - free1 >= size);
    code("create an odd size", cuMemCreate(&two, grain + 1, &prop, 0));
    code("map", cuMemMap(p, size, 0, one, 0));
    code("map there again", cuMemMap(p, size, 0, one, 0));
    code("release", cuMemRelease(one));
    cudaMemGetInfo(&free1, &total);
    yes("the mapping keeps it", free0 - free1 >= size);
    code("access", cuMemSetAccess(p, size, &access, 1));
    CALL(cudaMemset((void *) p, 1, size));
    code("create", cuMemCreate(&two, size, &prop, 0));
    code("map behind it", cuMemMap(p + size, size, 0, two, 0));
    code("release", cuMemRelease(two));
    code("access", cuMemSetAccess(p + size, size, &access, 1));
    CALL(cudaMemset((void *) p, 1, 2 * size));
    code("free the addresses in use", cuMemAddressFree(p, 1024 * grain));
    code("unmap both", cuMemUnmap(p, 2 * size));
    cudaMemGetInfo(&free1, &total);
    yes("all is free again", free1 == free0);
    code("free the addresses", cuMemAddressFree(p, 1024 * grain));
    return 0;
}
