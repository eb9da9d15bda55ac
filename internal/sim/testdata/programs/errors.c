// The last error: who sets it, who clears it, whose it is.
#include "show.h"
#include <pthread.h>

static void * other(void * unused) {
    shown("  in another thread", cudaPeekAtLastError());
    return unused;
}

int main(void) {
    int n;
    void * p;
    pthread_t t;
    LAST();
    CALL(cudaSetDevice(4711));
    shown("  peek", cudaPeekAtLastError());
    shown("  peek", cudaPeekAtLastError());
    pthread_create(&t, NULL, other, NULL);
    pthread_join(t, NULL);
    CALL(cudaMalloc(&p, MIB));
    shown("  after a call that succeeds", cudaPeekAtLastError());
    LAST();
    LAST();
    CALL(cudaGetDevice(&n));
    number("device", n);
    CALL(cudaDeviceGetAttribute(&n, cudaDevAttrWarpSize, 0));
    number("warp size", n);
    CALL(cudaDeviceGetAttribute(&n, cudaDevAttrWarpSize, 4711));
    LAST();
    int can = 7;
    CALL(cudaDeviceCanAccessPeer(&can, 0, 0));
    LAST();
    CALL(cudaFree(p));
    printf("%s\n", cudaGetErrorString(cudaErrorMemoryAllocation));
    printf("%s\n", cudaGetErrorString(cudaErrorInvalidValue));
    printf("%s\n", cudaGetErrorString(cudaErrorIllegalAddress));
    printf("%s\n", cudaGetErrorString(cudaErrorStreamCaptureUnsupported));
    printf("%s\n", cudaGetErrorString(cudaErrorStreamCaptureInvalidated));
    return 0;
}
