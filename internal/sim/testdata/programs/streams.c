// Streams: the two that have fixed handles, and those that are made.
#include "show.h"

static void run(void * data) { ++*(int *) data; }

int main(void) {
    void * p;
    int ran = 0;
    unsigned char c = 0;
    cudaStream_t s;
    enum cudaStreamCaptureStatus status;
    cudaMalloc(&p, MIB);
    CALL(cudaMemsetAsync(p, 1, MIB, 0));
    CALL(cudaMemsetAsync(p, 2, MIB, cudaStreamLegacy));
    CALL(cudaMemsetAsync(p, 3, MIB, cudaStreamPerThread));
    CALL(cudaStreamSynchronize(cudaStreamPerThread));
    CALL(cudaStreamSynchronize(cudaStreamLegacy));
    CALL(cudaStreamSynchronize(0));
    CALL(cudaStreamIsCapturing(cudaStreamPerThread, &status));
    number("capturing", status);
    CALL(cudaStreamCreateWithFlags(&s, 77));
    LAST();
    CALL(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0));
    CALL(cudaLaunchHostFunc(s, run, &ran));
    CALL(cudaStreamSynchronize(s));
    number("host function ran", ran);
    CALL(cudaMemsetAsync(p, 4, MIB, s));
    CALL(cudaMemcpyAsync(&c, p, 1, cudaMemcpyDeviceToHost, s));
    CALL(cudaStreamSynchronize(s));
    number("value", c);

    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    CALL(cudaLaunchHostFunc(s, run, &ran));
    cudaStreamEndCapture(s, &g);
    number("host function ran", ran);
    instantiate(&x, g);
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));
    number("host function ran", ran);
    CALL(cudaStreamDestroy(s));
    CALL(cudaFree(p));
    return 0;
}
