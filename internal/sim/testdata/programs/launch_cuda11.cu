// sim-only. env: CUDA=11.4
// The error of a launch that does not fit, before CUDA 13.
#include "show.h"

static __global__ void nothing() {}

int main() {
    nothing<<<1, 1024>>>();
    LAST();
    nothing<<<1, 1025>>>();
    LAST();
    nothing<<<0, 32>>>();
    LAST();
    nothing<<<1, 32, 48 * 1024 + 4>>>();
    LAST();
    return 0;
}
