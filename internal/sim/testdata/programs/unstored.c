// sim-only. env: STORE=0 COUNT=4
// Device memory that keeps nothing reads as numbers that count.
#include "show.h"

int main(void) {
    int got[6] = {9, 9, 9, 9, 9, 9}, mine[6] = {5, 5, 5, 5, 5, 5};
    void * p;
    CALL(cudaMalloc(&p, MIB));
    CALL(cudaMemcpy(p, mine, sizeof mine, cudaMemcpyHostToDevice));
    CALL(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
    printf("%d %d %d %d %d %d\n", got[0], got[1], got[2], got[3], got[4], got[5]);
    CALL(cudaFree(p));
    return 0;
}
