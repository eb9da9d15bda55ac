// sim-only. env: VRAM=100 MANAGED_MORE=50
// Managed memory beyond VRAM, up to a limit; the device's own is not touched by it.
#include "show.h"

int main(void) {
    size_t free, total;
    void * p, * q, * d;
    CALL(cudaMallocManaged(&p, 140 * MIB, cudaMemAttachGlobal));
    CALL(cudaMallocManaged(&q, 20 * MIB, cudaMemAttachGlobal));
    LAST();
    CALL(cudaMalloc(&d, 90 * MIB));
    CALL(cudaMemGetInfo(&free, &total));
    number("MiB free", (long long) (free / MIB));
    CALL(cudaFree(p));
    CALL(cudaMallocManaged(&q, 61 * MIB, cudaMemAttachGlobal));
    LAST();
    CALL(cudaMallocManaged(&q, 60 * MIB, cudaMemAttachGlobal));
    CALL(cudaFree(q));
    CALL(cudaFree(d));
    return 0;
}
