// Allocation: what is given, refused and freed.
#include "show.h"

int main(void) {
    size_t free0, free1, total;
    void * p = NULL, * q = NULL;
    CALL(cudaFree(0));
    CALL(cudaMemGetInfo(&free0, &total));
    CALL(cudaMalloc(&p, 64 * MIB));
    cudaMemGetInfo(&free1, &total);
    yes("64 MiB less are free", free0 - free1 >= 64 * MIB && free0 - free1 < 96 * MIB);
    CALL(cudaMalloc(&q, 64 * MIB));
    yes("two allocations differ", p != q);
    CALL(cudaFree(p));
    CALL(cudaFree(q));
    cudaMemGetInfo(&free1, &total);
    yes("all is free again", free1 == free0);

    CALL(cudaMalloc(&p, 0));
    yes("nothing is a null pointer", p == NULL);
    p = &p;
    CALL(cudaMalloc(&p, total + MIB));
    yes("a failed call leaves the pointer", p == (void *) &p);
    LAST();
    LAST();
    CALL(cudaMalloc(NULL, MIB));
    LAST();

    CALL(cudaMalloc(&p, 4 * MIB));
    CALL(cudaFree((char *) p + MIB));
    LAST();
    CALL(cudaFree(p));
    CALL(cudaFree(p));
    LAST();
    return 0;
}
