// sim-only. env: FAIL_ALLOC=3
// The third allocation fails, the fourth does not.
#include "show.h"

int main(void) {
    void * p[4];
    for (int i = 0; i < 4; i++) {
        CALL(cudaMalloc(&p[i], MIB));
    }
    LAST();
    CALL(cudaFree(p[0]));
    CALL(cudaFree(p[1]));
    CALL(cudaFree(p[3]));
    return 0;
}
