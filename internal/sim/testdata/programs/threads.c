// Eight threads at once: allocations, copies, a capture each.
#include "show.h"
#include <pthread.h>
#include <stdlib.h>

static void * work(void * out) {
    long bad = 0;
    cudaStream_t s = stream();
    for (int i = 0; i < 200; i++) {
        void * p = NULL, * q = NULL;
        unsigned char c = 0;
        cudaGraph_t g = NULL;
        cudaGraphExec_t x;
        bad += cudaMalloc(&p, MIB) != cudaSuccess;
        bad += cudaMalloc(&q, (size_t) (1 + i % 7) * MIB) != cudaSuccess;
        bad += cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) != cudaSuccess;
        bad += cudaMemsetAsync(p, i % 250, MIB, s) != cudaSuccess;
        bad += cudaMemcpyAsync(q, p, MIB, cudaMemcpyDeviceToDevice, s) != cudaSuccess;
        bad += cudaStreamEndCapture(s, &g) != cudaSuccess;
        bad += instantiate(&x, g) != cudaSuccess;
        bad += cudaGraphLaunch(x, s) != cudaSuccess;
        bad += cudaMemcpyAsync(&c, q, 1, cudaMemcpyDeviceToHost, s) != cudaSuccess;
        bad += cudaStreamSynchronize(s) != cudaSuccess;
        bad += c != i % 250;
        bad += cudaGraphExecDestroy(x) != cudaSuccess;
        bad += cudaGraphDestroy(g) != cudaSuccess;
        bad += cudaFree(p) != cudaSuccess;
        bad += cudaFree(q) != cudaSuccess;
    }
    bad += cudaStreamDestroy(s) != cudaSuccess;
    *(long *) out = bad;
    return NULL;
}

int main(void) {
    pthread_t t[8];
    long bad[8];
    size_t free0, free1, total;
    cudaFree(0);
    cudaMemGetInfo(&free0, &total);
    for (int i = 0; i < 8; i++) {
        pthread_create(&t[i], NULL, work, &bad[i]);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], NULL);
        number("calls that failed", bad[i]);
    }
    cudaMemGetInfo(&free1, &total);
    yes("no memory is lost", free0 - free1 < 64 * MIB);
    return 0;
}
