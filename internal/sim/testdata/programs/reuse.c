// sim-only. env: REUSE=1
// An address given again: only graphs can tell.
#include "show.h"

int main(void) {
    void * p, * q;
    cudaStream_t s = stream();
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaMalloc(&p, MIB);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    cudaMemsetAsync(p, 1, MIB, s);
    cudaStreamEndCapture(s, &g);
    instantiate(&x, g);
    cudaFree(p);
    cudaMalloc(&q, MIB);
    yes("the same address", p == q);
    CALL(cudaMemset(q, 0, MIB));
    printf("a fault\n");
    CALL(cudaGraphLaunch(x, s));
    cudaFree(q);
    cudaMalloc(&p, 2 * MIB);
    yes("another size has another one", p != q);
    return 0;
}
