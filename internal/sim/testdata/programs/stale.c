// sim-only
// Handles that were destroyed.
#include "show.h"

int main(void) {
    cudaStream_t s = stream();
    cudaEvent_t e;
    cudaEventCreate(&e);
    CALL(cudaStreamDestroy(s));
    CALL(cudaStreamDestroy(s));
    CALL(cudaStreamSynchronize(s));
    CALL(cudaEventDestroy(e));
    CALL(cudaEventRecord(e, 0));
    CALL(cudaEventDestroy(e));
    return 0;
}
