// sim-only. env: LATE=1
// Work is under way until the program has waited for it: memory that it uses must stay.
#include "show.h"
#include <stdlib.h>

static void * p;
static cudaStream_t s, t;

static void work(const char * what, cudaStream_t on) {
    printf("%s\n", what);
    cudaMalloc(&p, MIB);
    cudaMemsetAsync(p, 1, MIB, on);
}

int main(void) {
    cudaEvent_t e;
    void * q;
    char * pageable = malloc(MIB);
    s = stream();
    t = stream();
    cudaEventCreate(&e);

    work("not waited for: a fault", s);
    CALL(cudaFree(p));
    work("its stream waited for", s);
    cudaStreamSynchronize(s);
    CALL(cudaFree(p));
    work("another stream waited for: a fault", s);
    cudaStreamSynchronize(t);
    CALL(cudaFree(p));
    work("the device waited for", s);
    cudaDeviceSynchronize();
    CALL(cudaFree(p));
    work("its stream asked whether it is idle", s);
    CALL(cudaStreamQuery(s));
    CALL(cudaFree(p));
    work("an event behind it waited for", s);
    cudaEventRecord(e, s);
    cudaEventSynchronize(e);
    CALL(cudaFree(p));
    work("an event before it waited for: a fault", s);
    cudaEventSynchronize(e);
    CALL(cudaFree(p));
    work("a stream that waits for its event waited for", s);
    cudaEventRecord(e, s);
    cudaStreamWaitEvent(t, e, 0);
    cudaStreamSynchronize(t);
    CALL(cudaFree(p));
    work("the event recorded elsewhere since: a fault", s);
    cudaEventRecord(e, s);
    cudaEventRecord(e, t);
    cudaEventSynchronize(e);
    CALL(cudaFree(p));
    cudaStreamSynchronize(s);

    work("the legacy stream does not wait for a non-blocking one: a fault", s);
    cudaStreamSynchronize(0);
    CALL(cudaFree(p));
    cudaStream_t blocking;
    cudaStreamCreate(&blocking);
    work("but for a blocking one", blocking);
    cudaStreamSynchronize(0);
    CALL(cudaFree(p));
    work("and a blocking one for it", 0);
    cudaMalloc(&q, MIB);
    cudaMemsetAsync(q, 1, MIB, blocking);
    cudaStreamSynchronize(blocking);
    CALL(cudaFree(p));
    CALL(cudaFree(q));

    work("a copy to pageable memory has ended", s);
    cudaMemcpyAsync(pageable, p, MIB, cudaMemcpyDeviceToHost, s);
    CALL(cudaFree(p));
    cudaMalloc(&p, MIB);
    printf("one from there may not have: a fault\n");
    cudaMemcpyAsync(p, pageable, MIB, cudaMemcpyHostToDevice, s);
    CALL(cudaFree(p));
    cudaStreamSynchronize(s);
    printf("a synchronous one has\n");
    cudaMalloc(&p, MIB);
    cudaMemcpy(p, pageable, MIB, cudaMemcpyHostToDevice);
    CALL(cudaFree(p));
    printf("but not within the device: two faults\n");
    cudaMalloc(&p, MIB);
    cudaMalloc(&q, MIB);
    cudaMemcpy(p, q, MIB, cudaMemcpyDeviceToDevice);
    CALL(cudaFree(p));
    CALL(cudaFree(q));
    cudaDeviceSynchronize();

    printf("memory that no work names\n");
    cudaMalloc(&q, MIB);
    work("beside memory that work names", s);
    CALL(cudaFree(q));
    cudaStreamSynchronize(s);
    CALL(cudaFree(p));

    printf("managed and pinned memory: two faults\n");
    cudaMallocManaged(&p, MIB, cudaMemAttachGlobal);
    cudaMallocHost(&q, MIB);
    cudaMemcpyAsync(p, q, MIB, cudaMemcpyHostToDevice, s);
    CALL(cudaFree(p));
    CALL(cudaFreeHost(q));
    cudaStreamSynchronize(s);

    printf("what a graph uses: a fault after its launch, none after its capture\n");
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaMalloc(&p, MIB);
    cudaMalloc(&q, MIB);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    cudaMemcpyAsync(p, q, MIB, cudaMemcpyDeviceToDevice, s);
    cudaStreamEndCapture(s, &g);
    instantiate(&x, g);
    CALL(cudaFree(q));
    cudaMalloc(&q, MIB);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    cudaMemcpyAsync(p, q, MIB, cudaMemcpyDeviceToDevice, s);
    cudaStreamEndCapture(s, &g);
    update(x, g);
    cudaGraphLaunch(x, s);
    CALL(cudaFree(q));
    printf("an executable graph under way: CUDA lets it end\n");
    CALL(cudaGraphExecDestroy(x));
    printf("a stream that is gone leaves its work: a fault\n");
    CALL(cudaStreamDestroy(s));
    CALL(cudaFree(p));
    free(pageable);
    return 0;
}
