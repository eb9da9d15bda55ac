// hipBLAS: cuBLAS's calls with numbers of its own (hipblas.h of HIP 6.4). Data types are
// those of HIP, which are CUDA's, or hipBLAS's older ones from 150 on.
#include "../sim.h"
#include <cublas_v2.h>

static int status(cublasStatus_t s)
{
	switch (s) {
	case CUBLAS_STATUS_SUCCESS: return 0;
	case CUBLAS_STATUS_NOT_INITIALIZED: return 1;
	case CUBLAS_STATUS_ALLOC_FAILED: return 2;
	case CUBLAS_STATUS_INVALID_VALUE: return 3;
	case CUBLAS_STATUS_NOT_SUPPORTED: return 7;
	default: return 5; // HIPBLAS_STATUS_EXECUTION_FAILED
	}
}

static cublasOperation_t op(int o)
{
	return o == 111 ? CUBLAS_OP_N : o == 112 ? CUBLAS_OP_T : CUBLAS_OP_C;
}

static cudaDataType type(int t)
{
	switch (t) {
	case 150: return CUDA_R_16F;
	case 151: return CUDA_R_32F;
	case 152: return CUDA_R_64F;
	case 160: return CUDA_R_8I;
	case 161: return CUDA_R_8U;
	case 162: return CUDA_R_32I;
	case 168: return CUDA_R_16BF;
	default: return t;
	}
}

int hipblasCreate(cublasHandle_t *h)
{
	return status(cublasCreate(h));
}

int hipblasDestroy(cublasHandle_t h)
{
	return status(cublasDestroy(h));
}

int hipblasSetStream(cublasHandle_t h, cudaStream_t s)
{
	return status(cublasSetStream(h, s));
}

int hipblasSgemm(cublasHandle_t h, int ta, int tb, int m, int n, int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
		 const float *beta, float *C, int ldc)
{
	return status(cublasSgemm(h, op(ta), op(tb), m, n, k, alpha, A, lda, B, ldb, beta, C, ldc));
}

// How precisely, and by which algorithm, is nothing to memory.
int hipblasGemmEx(cublasHandle_t h, int ta, int tb, int m, int n, int k, const void *alpha, const void *A, int at, int lda, const void *B,
		  int bt, int ldb, const void *beta, void *C, int ct, int ldc, int compute, int algo)
{
	(void)compute, (void)algo;
	return status(cublasGemmEx(h, op(ta), op(tb), m, n, k, alpha, A, type(at), lda, B, type(bt), ldb, beta, C, type(ct), ldc, 0, 0));
}

int hipblasGemmStridedBatchedEx(cublasHandle_t h, int ta, int tb, int m, int n, int k, const void *alpha, const void *A, int at, int lda,
				long long sa, const void *B, int bt, int ldb, long long sb, const void *beta, void *C, int ct, int ldc,
				long long sc, int batch, int compute, int algo)
{
	(void)compute, (void)algo;
	return status(cublasGemmStridedBatchedEx(h, op(ta), op(tb), m, n, k, alpha, A, type(at), lda, sa, B, type(bt), ldb, sb, beta, C, type(ct), ldc,
						 sc, batch, 0, 0));
}

int hipblasGemmBatchedEx(cublasHandle_t h, int ta, int tb, int m, int n, int k, const void *alpha, const void *const A[], int at, int lda,
			 const void *const B[], int bt, int ldb, const void *beta, void *const C[], int ct, int ldc, int batch, int compute,
			 int algo)
{
	(void)compute, (void)algo;
	return status(cublasGemmBatchedEx(h, op(ta), op(tb), m, n, k, alpha, A, type(at), lda, B, type(bt), ldb, beta, C, type(ct), ldc, batch, 0, 0));
}

int hipblasStrsmBatched(cublasHandle_t h, int side, int fill, int o, int diag, int m, int n, const float *alpha, float *const A[], int lda,
			float *const B[], int ldb, int batch)
{
	(void)side, (void)fill, (void)diag;
	return status(cublasStrsmBatched(h, 0, 0, op(o), 0, m, n, alpha, (const float *const *)A, lda, B, ldb, batch));
}
