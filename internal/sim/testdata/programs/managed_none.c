// sim-only. env: MANAGED=none
#include "show.h"

int main(void) {
    int can;
    void * p;
    cudaDeviceGetAttribute(&can, cudaDevAttrManagedMemory, 0);
    number("managed memory", can);
    CALL(cudaMallocManaged(&p, MIB, cudaMemAttachGlobal));
    LAST();
    CALL(cudaMalloc(&p, MIB));
    CALL(cudaFree(p));
    return 0;
}
