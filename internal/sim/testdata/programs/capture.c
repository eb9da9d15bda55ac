// What a capture allows, and what makes it invalid.
#include "show.h"
#include <pthread.h>

static cudaStream_t s;
static void * p;

static void begin(const char * what, enum cudaStreamCaptureMode mode) {
    printf("-- %s\n", what);
    shown("begin", cudaStreamBeginCapture(s, mode));
}

static void end(void) {
    enum cudaStreamCaptureStatus status;
    cudaGraph_t g = NULL;
    cudaStreamIsCapturing(s, &status);
    number("  status", status);
    shown("end", cudaStreamEndCapture(s, &g));
    number("  nodes", g ? nodes(g) : -1);
    if (g) {
        cudaGraphDestroy(g);
    }
    cudaStreamIsCapturing(s, &status);
    number("  status after", status);
    cudaGetLastError();
}

static void * ender(void * unused) {
    cudaGraph_t g = NULL;
    shown("end in another thread", cudaStreamEndCapture(s, &g));
    cudaGetLastError();
    return unused;
}

static void * allocator(void * unused) {
    void * q = NULL;
    shown("malloc in another thread", cudaMalloc(&q, MIB));
    cudaGetLastError();
    if (q) {
        cudaFree(q);
    }
    return unused;
}

static void in_thread(void * (*f)(void *)) {
    pthread_t t;
    pthread_create(&t, NULL, f, NULL);
    pthread_join(t, NULL);
}

int main(void) {
    void * q = NULL;
    cudaGraph_t g = NULL;
    char host[16];
    size_t free, total;
    cudaStream_t other = stream(), blocking;
    cudaEvent_t e, f;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&f, cudaEventDisableTiming);
    cudaStreamCreate(&blocking);
    s = stream();
    cudaMalloc(&p, MIB);

    printf("-- none\n");
    CALL(cudaStreamEndCapture(s, &g));
    LAST();
    CALL(cudaStreamBeginCapture(0, cudaStreamCaptureModeRelaxed));
    LAST();

    begin("begun twice", cudaStreamCaptureModeRelaxed);
    CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    end();

    begin("malloc and free, relaxed", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemsetAsync(p, 1, 1, s));
    CALL(cudaMalloc(&q, MIB));
    CALL(cudaMemGetInfo(&free, &total));
    CALL(cudaFree(q));
    end();

    begin("malloc, thread-local", cudaStreamCaptureModeThreadLocal);
    CALL(cudaMemsetAsync(p, 1, 1, s));
    CALL(cudaMalloc(&q, MIB));
    CALL(cudaMemsetAsync(p, 1, 1, s));
    end();

    begin("malloc elsewhere, thread-local", cudaStreamCaptureModeThreadLocal);
    in_thread(allocator);
    end();

    begin("malloc elsewhere, global", cudaStreamCaptureModeGlobal);
    in_thread(allocator);
    end();

    begin("stream synchronize", cudaStreamCaptureModeRelaxed);
    CALL(cudaStreamSynchronize(s));
    end();

    begin("stream query", cudaStreamCaptureModeRelaxed);
    CALL(cudaStreamQuery(s));
    end();

    begin("device synchronize", cudaStreamCaptureModeRelaxed);
    CALL(cudaDeviceSynchronize());
    end();

    begin("synchronous copy, relaxed", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    end();

    begin("synchronous copy, global", cudaStreamCaptureModeGlobal);
    CALL(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    end();

    begin("other streams work", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemsetAsync(p, 1, 1, other));
    CALL(cudaStreamSynchronize(other));
    CALL(cudaMemsetAsync(p, 1, 1, cudaStreamPerThread));
    CALL(cudaStreamSynchronize(cudaStreamPerThread));
    end();

    begin("query of a captured event", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemsetAsync(p, 1, 1, s));
    CALL(cudaEventRecord(e, s));
    CALL(cudaEventQuery(e));
    end();

    begin("fork and join", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemsetAsync(p, 1, 1, s));
    CALL(cudaEventRecord(e, s));
    CALL(cudaStreamWaitEvent(other, e, 0));
    CALL(cudaMemsetAsync(p, 2, 1, other));
    CALL(cudaMemsetAsync(p, 3, 1, s));
    CALL(cudaEventRecord(f, other));
    CALL(cudaStreamWaitEvent(s, f, 0));
    CALL(cudaMemsetAsync(p, 4, 1, s));
    end();

    begin("fork without join", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemsetAsync(p, 1, 1, s));
    CALL(cudaEventRecord(e, s));
    CALL(cudaStreamWaitEvent(other, e, 0));
    CALL(cudaMemsetAsync(p, 2, 1, other));
    end();

    printf("-- an event from outside\n");
    CALL(cudaEventRecord(e, other));
    begin("it is waited for", cudaStreamCaptureModeRelaxed);
    CALL(cudaStreamWaitEvent(s, e, 0));
    end();

    begin("ended in the joined stream", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemsetAsync(p, 1, 1, s));
    CALL(cudaEventRecord(e, s));
    CALL(cudaStreamWaitEvent(other, e, 0));
    CALL(cudaStreamEndCapture(other, &g));
    end();

    begin("two captures merged", cudaStreamCaptureModeRelaxed);
    CALL(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
    CALL(cudaMemsetAsync(p, 1, 1, s));
    CALL(cudaMemsetAsync(p, 2, 1, other));
    CALL(cudaEventRecord(e, s));
    CALL(cudaStreamWaitEvent(other, e, 0));
    CALL(cudaStreamEndCapture(other, &g));
    end();

    begin("ended elsewhere, thread-local", cudaStreamCaptureModeThreadLocal);
    in_thread(ender);
    end();

    begin("ended elsewhere, relaxed", cudaStreamCaptureModeRelaxed);
    in_thread(ender);
    CALL(cudaStreamEndCapture(s, &g));
    LAST();

    printf("-- a blocking stream\n");
    s = blocking;
    begin("the legacy stream is used", cudaStreamCaptureModeRelaxed);
    CALL(cudaMemsetAsync(p, 1, 1, 0));
    end();

    CALL(cudaDeviceSynchronize());
    CALL(cudaFree(p));
    return 0;
}
