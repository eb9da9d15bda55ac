// sim-only. env: VRAM=100 MANAGED=limited
// Under WDDM managed memory must fit beside the device's own.
#include "show.h"

int main(void) {
    int can;
    void * p, * d;
    cudaDeviceGetAttribute(&can, cudaDevAttrConcurrentManagedAccess, 0);
    number("concurrent access", can);
    CALL(cudaMallocManaged(&p, 60 * MIB, cudaMemAttachGlobal));
    CALL(cudaMalloc(&d, 60 * MIB));
    LAST();
    CALL(cudaMalloc(&d, 40 * MIB));
    CALL(cudaFree(p));
    CALL(cudaMallocManaged(&p, 61 * MIB, cudaMemAttachGlobal));
    LAST();
    CALL(cudaFree(d));
    return 0;
}
