// sim-only
// Operands of cuBLAS that are freed, or too small, are faults.
#include "show.h"
#include <cublas_v2.h>

int main(void) {
    const float one = 1, zero = 0;
    const int n = 64;
    float * a, * b, * c;
    cublasHandle_t h;
    cudaStream_t s = stream();
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaMalloc((void **) &a, n * n * 4);
    cudaMalloc((void **) &b, n * n * 4);
    cudaMalloc((void **) &c, n * n * 4);
    cublasCreate(&h);
    cublasSetStream(h, s);
    printf("as large as needed: no fault\n");
    cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
    printf("one row too many: a fault\n");
    cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, n + 1, n, n, &one, a, n + 1, b, n, &zero, c, n + 1);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
    cudaStreamEndCapture(s, &g);
    instantiate(&x, g);
    CALL(cudaGraphLaunch(x, s));
    printf("freed: a fault at the launch, and at a plain call\n");
    CALL(cudaFree(b));
    CALL(cudaGraphLaunch(x, s));
    cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
    return 0;
}
