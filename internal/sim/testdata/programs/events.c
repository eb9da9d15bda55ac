// Events: recorded, waited for, timed.
#include "show.h"

int main(void) {
    void * p;
    float ms = -1;
    cudaStream_t s = stream(), t = stream();
    cudaEvent_t a, b, untimed;
    CALL(cudaEventCreate(&a));
    CALL(cudaEventCreate(&b));
    CALL(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    cudaMalloc(&p, MIB);
    CALL(cudaEventQuery(a));
    CALL(cudaEventSynchronize(a));
    CALL(cudaStreamWaitEvent(t, a, 0));
    CALL(cudaEventElapsedTime(&ms, a, b));
    LAST();
    CALL(cudaEventRecord(a, s));
    CALL(cudaMemsetAsync(p, 1, MIB, s));
    CALL(cudaEventRecord(b, s));
    CALL(cudaStreamWaitEvent(t, b, 0));
    CALL(cudaMemsetAsync(p, 2, MIB, t));
    CALL(cudaStreamSynchronize(t));
    CALL(cudaEventQuery(b));
    CALL(cudaEventElapsedTime(&ms, a, b));
    yes("the later one is later", ms >= 0);
    CALL(cudaEventRecord(untimed, s));
    CALL(cudaEventSynchronize(untimed));
    CALL(cudaEventElapsedTime(&ms, a, untimed));
    LAST();
    CALL(cudaStreamQuery(s));
    CALL(cudaEventDestroy(a));
    CALL(cudaEventDestroy(b));
    CALL(cudaEventDestroy(untimed));
    CALL(cudaStreamDestroy(s));
    CALL(cudaStreamDestroy(t));
    CALL(cudaFree(p));
    return 0;
}
