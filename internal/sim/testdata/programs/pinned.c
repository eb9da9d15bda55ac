// Host memory that the device can reach.
#include "show.h"
#include <stdlib.h>

int main(void) {
    void * h = NULL, * d = NULL, * seen = NULL;
    char back[4] = {0};
    struct cudaPointerAttributes a;
    CALL(cudaMallocHost(&h, MIB));
    CALL(cudaMalloc(&d, MIB));
    memset(h, 6, MIB);
    CALL(cudaMemcpy(d, h, MIB, cudaMemcpyHostToDevice));
    memset(h, 0, MIB);
    CALL(cudaMemcpy(h, d, MIB, cudaMemcpyDeviceToHost));
    number("value", ((char *) h)[MIB - 1]);
    CALL(cudaMemset(d, 8, MIB));
    CALL(cudaMemcpy(back, d, 4, cudaMemcpyDeviceToHost));
    number("value", back[3]);
    CALL(cudaPointerGetAttributes(&a, h));
    yes("it is host memory", a.type == cudaMemoryTypeHost);
    CALL(cudaPointerGetAttributes(&a, d));
    yes("it is device memory", a.type == cudaMemoryTypeDevice);
    CALL(cudaPointerGetAttributes(&a, back));
    yes("it is unknown", a.type == cudaMemoryTypeUnregistered);
    CALL(cudaHostGetDevicePointer(&seen, h, 0));
    yes("the device sees it there", seen == h);
    CALL(cudaHostGetDevicePointer(&seen, back, 0));
    LAST();
    CALL(cudaFreeHost(d));
    LAST();
    CALL(cudaFree(h));
    LAST();
    CALL(cudaFreeHost(h));
    CALL(cudaFreeHost(h));
    LAST();
    CALL(cudaFree(d));

#ifdef _WIN32
    void * own = _aligned_malloc(MIB, 4096);
#else
    void * own = aligned_alloc(4096, MIB);
#endif
    CALL(cudaHostRegister(own, MIB, cudaHostRegisterPortable));
    CALL(cudaHostRegister(own, MIB, cudaHostRegisterPortable));
    LAST();
    CALL(cudaHostUnregister(own));
    CALL(cudaHostUnregister(own));
    LAST();
    return 0;
}
