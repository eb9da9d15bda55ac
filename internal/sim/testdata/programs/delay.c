// sim-only. env: DELAY_FREES=2 VRAM=100
// A free takes effect only two allocation calls later.
#include "show.h"

static void used(void) {
    size_t free, total;
    cudaMemGetInfo(&free, &total);
    number("  MiB in use", (long long) ((total - free) / MIB));
}

int main(void) {
    void * p, * q, * r;
    CALL(cudaMalloc(&p, 60 * MIB));
    CALL(cudaFree(p));
    used();
    CALL(cudaMalloc(&q, 60 * MIB));
    LAST();
    used();
    CALL(cudaMalloc(&r, 60 * MIB));
    used();
    CALL(cudaFree(r));
    return 0;
}
