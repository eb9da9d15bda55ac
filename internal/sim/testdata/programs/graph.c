// A graph: captured, launched, updated, and launched again with other memory.
#include "show.h"

static unsigned char first(const void * device) {
    unsigned char c = 0;
    cudaMemcpy(&c, device, 1, cudaMemcpyDeviceToHost);
    return c;
}

static cudaGraph_t set(cudaStream_t s, void * p, int value, int times) {
    cudaGraph_t g = NULL;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    for (int i = 0; i < times; i++) {
        cudaMemsetAsync(p, value, MIB, s);
    }
    cudaStreamEndCapture(s, &g);
    return g;
}

int main(void) {
    void * p, * q;
    cudaStream_t s = stream();
    cudaGraph_t g, h;
    cudaGraphExec_t x;
    cudaMalloc(&p, MIB);
    cudaMalloc(&q, MIB);
    cudaMemset(p, 1, MIB);
    cudaMemset(q, 1, MIB);

    CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    CALL(cudaMemsetAsync(p, 5, MIB, s));
    CALL(cudaMemcpyAsync(q, p, MIB, cudaMemcpyDeviceToDevice, s));
    CALL(cudaStreamEndCapture(s, &g));
    number("nodes", nodes(g));
    number("value while only captured", first(q));
    CALL(instantiate(&x, g));
    CALL(cudaGraphDestroy(g));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));
    number("value after the launch", first(q));
    CALL(cudaGraphExecDestroy(x));

    g = set(s, p, 7, 1);
    h = set(s, q, 9, 1);
    CALL(instantiate(&x, g));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));
    number("first allocation", first(p));
    CALL(update(x, h));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));
    number("second allocation, after the update", first(q));
    cudaGraphDestroy(h);
    h = set(s, q, 11, 2);
    CALL(update(x, h));
    LAST();
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));
    number("as before the failed update", first(q));
    CALL(cudaGraphExecDestroy(x));
    CALL(cudaGraphDestroy(g));
    CALL(cudaGraphDestroy(h));

    g = NULL;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    CALL(cudaStreamEndCapture(s, &g));
    number("nodes of an empty graph", nodes(g));
    CALL(instantiate(&x, g));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));
    CALL(cudaGraphExecDestroy(x));
    CALL(cudaGraphDestroy(g));
    CALL(cudaFree(p));
    CALL(cudaFree(q));
    CALL(cudaStreamDestroy(s));
    return 0;
}
