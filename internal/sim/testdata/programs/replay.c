// sim-only
// Graphs over memory that was freed after the capture, and those that are not.
#include "show.h"

int main(void) {
    void * p, * q, * unused;
    cudaStream_t s = stream();
    cudaGraph_t g;
    cudaGraphExec_t x, y;
    cudaMalloc(&p, MIB);
    cudaMalloc(&q, MIB);
    cudaMalloc(&unused, MIB);

    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    cudaMemsetAsync(p, 1, MIB, s);
    cudaStreamEndCapture(s, &g);
    instantiate(&x, g);
    cudaGraphDestroy(g);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    cudaMemsetAsync(q, 1, MIB, s);
    cudaStreamEndCapture(s, &g);
    instantiate(&y, g);

    printf("live at the capture and no part of it: no fault\n");
    cudaFree(unused);
    CALL(cudaGraphLaunch(x, s));
    printf("freed: a fault each time\n");
    cudaFree(p);
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaGraphLaunch(x, s));
    printf("the other graph: no fault\n");
    CALL(cudaGraphLaunch(y, s));
    printf("updated to other memory: no fault\n");
    CALL(update(x, g));
    CALL(cudaGraphLaunch(x, s));
    printf("destroyed: no launch\n");
    CALL(cudaGraphExecDestroy(x));
    CALL(cudaGraphLaunch(x, s));
    printf("a pinned source freed: a fault\n");
    void * h;
    cudaMallocHost(&h, MIB);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    cudaMemcpyAsync(q, h, MIB, cudaMemcpyHostToDevice, s);
    cudaStreamEndCapture(s, &g);
    instantiate(&x, g);
    CALL(cudaFreeHost(h));
    CALL(cudaGraphLaunch(x, s));
    printf("freed during the capture: a fault at the capture\n");
    cudaMalloc(&p, MIB);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    CALL(cudaFree(p));
    CALL(cudaMemsetAsync(p, 1, MIB, s));
    cudaStreamEndCapture(s, &g);
    return 0;
}
