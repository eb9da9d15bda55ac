// Ranges that leave their allocation, and pointers to freed memory.
#include "show.h"
#include <stdlib.h>

int main(void) {
    char * p, * q;
    char * host = calloc(1, 64 * MIB);
    cudaStream_t s = stream();
    cudaMalloc((void **) &p, 4 * MIB);
    cudaMalloc((void **) &q, 4 * MIB);
    CALL(cudaMemcpy(p, host, 4 * MIB, cudaMemcpyHostToDevice));
    CALL(cudaMemcpy(p + MIB, host, 3 * MIB, cudaMemcpyHostToDevice));
    CALL(cudaMemcpy(p, host, 64 * MIB, cudaMemcpyHostToDevice));
    LAST();
    CALL(cudaMemcpy(host, p + MIB, 64 * MIB - 1, cudaMemcpyDeviceToHost));
    LAST();
    CALL(cudaMemcpy(p, q, 64 * MIB, cudaMemcpyDeviceToDevice));
    LAST();
    CALL(cudaMemset(p, 0, 64 * MIB));
    LAST();
    CALL(cudaMemcpy2DAsync(p, 1024, host, 512, 512, 4096, cudaMemcpyHostToDevice, s));
    CALL(cudaMemcpy2DAsync(p, 256, host, 512, 512, 4, cudaMemcpyHostToDevice, s));
    LAST();
    CALL(cudaStreamSynchronize(s));
    CALL(cudaMemcpy(p, host, 0, cudaMemcpyHostToDevice));
    CALL(cudaFree(p));
    CALL(cudaMemset(p, 0, MIB));
    LAST();
    CALL(cudaMemset(host, 0, MIB));
    LAST();
    CALL(cudaFree(q));
    return 0;
}
