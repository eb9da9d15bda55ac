// Kernels: what a launch allows, and that it becomes a graph's node.
// The errors are those of the card's CUDA: env: CUDA=13.0
#include "show.h"

static __global__ void nothing(float * p, int n) { (void) p; (void) n; }

int main() {
    float * p = nullptr;
    int blocks = 0;
    cudaStream_t s = stream();
    cudaMalloc((void **) &p, MIB);
    nothing<<<1, 32, 0, s>>>(p, 1);
    LAST();
    nothing<<<1, 1024, 0, s>>>(p, 1);
    LAST();
    nothing<<<1, 1025, 0, s>>>(p, 1);
    LAST();
    nothing<<<0, 32, 0, s>>>(p, 1);
    LAST();
    nothing<<<dim3(1, 65536), 32, 0, s>>>(p, 1);
    LAST();
    nothing<<<1, 32, 48 * 1024, s>>>(p, 1);
    LAST();
    nothing<<<1, 32, 48 * 1024 + 4, s>>>(p, 1);
    LAST();
    CALL(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
    nothing<<<1, 32, 64 * 1024, s>>>(p, 1);
    LAST();
    CALL(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30));
    LAST();
    CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 128, 0));
    yes("blocks fit", blocks > 0);

    cudaGraph_t g;
    cudaGraphExec_t x;
    CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    nothing<<<1, 32, 0, s>>>(p, 1);
    nothing<<<1, 32, 0, s>>>(p, 2);
    LAST();
    CALL(cudaStreamEndCapture(s, &g));
    number("nodes", nodes(g));
    CALL(instantiate(&x, g));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));

    int n = 1;
    void * args[] = {&p, &n};
    CALL(cudaLaunchCooperativeKernel((void *) nothing, dim3(1), dim3(32), args, 0, s));
    CALL(cudaLaunchKernel((void *) nothing, dim3(1), dim3(32), args, 0, s));
    CALL(cudaStreamSynchronize(s));
    CALL(cudaFree(p));
    return 0;
}
