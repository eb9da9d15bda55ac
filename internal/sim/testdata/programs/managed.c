// Managed memory: both sides see it; it is freed as any other.
#include "show.h"

int main(void) {
    int can;
    char host[4] = {0};
    void * p = NULL;
    cudaStream_t s = stream();
    CALL(cudaDeviceGetAttribute(&can, cudaDevAttrManagedMemory, 0));
    number("managed memory", can);
    CALL(cudaMallocManaged(&p, 4 * MIB, cudaMemAttachGlobal));
    memset(p, 3, 4 * MIB);
    CALL(cudaMemcpy(host, p, 4, cudaMemcpyDeviceToHost));
    number("what the host wrote", host[3]);
    CALL(cudaMemsetAsync(p, 9, 4 * MIB, s));
    CALL(cudaStreamSynchronize(s));
    number("what the device wrote", ((char *) p)[MIB]);
    struct cudaPointerAttributes a;
    CALL(cudaPointerGetAttributes(&a, p));
    yes("it is managed memory", a.type == cudaMemoryTypeManaged);
    CALL(cudaFree(p));
    CALL(cudaMallocManaged(&p, 0, cudaMemAttachGlobal));
    LAST();
    CALL(cudaMallocManaged(&p, MIB, 77));
    LAST();
    return 0;
}
