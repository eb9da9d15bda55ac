// cuBLAS: the calls that ggml-cuda makes, plain and in a graph.
#include "show.h"
#include <cublas_v2.h>

static void status(const char * what, cublasStatus_t s) { printf("%-44s %d\n", what, s); }

int main(void) {
    const float one = 1, zero = 0;
    const int n = 64;
    float * a, * b, * c, ** table;
    cublasHandle_t h;
    cudaStream_t s = stream();
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaMalloc((void **) &a, MIB);
    cudaMalloc((void **) &b, MIB);
    cudaMalloc((void **) &c, MIB);
    cudaMalloc((void **) &table, MIB);
    cudaMemset(a, 0, MIB);
    cudaMemset(b, 0, MIB);
    cudaMemset(c, 0, MIB);
    float * const pointers[3] = {a, b, c};
    cudaMemcpy(table, pointers, sizeof pointers, cudaMemcpyHostToDevice);
    status("create", cublasCreate(&h));
    status("stream", cublasSetStream(h, s));
    status("math mode", cublasSetMathMode(h, CUBLAS_TF32_TENSOR_OP_MATH));
    status("sgemm", cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
    status("gemmEx", cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_16F, n, b, CUDA_R_16F, n, &zero, c, CUDA_R_32F, n,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    status("strided", cublasGemmStridedBatchedEx(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_16F, n, n * n, b, CUDA_R_16F, n, n * n,
                                                 &zero, c, CUDA_R_32F, n, n * n, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    status("sgemm, captured", cublasSgemm(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
    status("batched, captured", cublasGemmBatchedEx(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, (const void **) table, CUDA_R_16F, n,
                                                    (const void **) (table + 1), CUDA_R_16F, n, &zero, (void **) (table + 2), CUDA_R_32F, n, 1,
                                                    CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    CALL(cudaStreamEndCapture(s, &g));
    yes("it has nodes", nodes(g) >= 2);
    CALL(instantiate(&x, g));
    CALL(cudaGraphLaunch(x, s));
    CALL(cudaStreamSynchronize(s));
    CALL(cudaGraphExecDestroy(x));
    CALL(cudaGraphDestroy(g));
    status("destroy", cublasDestroy(h));
    CALL(cudaFree(a));
    CALL(cudaFree(b));
    CALL(cudaFree(c));
    CALL(cudaFree(table));
    return 0;
}
