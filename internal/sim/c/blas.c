// cuBLAS: nothing is computed. Each operand is checked to lie in live memory, and
// is part of a graph that captures the call. Of the batched calls the arrays of
// pointers are known, and not what stands in them.
#include "sim.h"
#include <cublas_v2.h>

struct blas {
	cudaStream_t stream;
	cublasMath_t math;
};

struct operand {
	const void *p;
	size_t bytes; // 0: unknown
};

static cublasStatus_t status(cudaError_t e)
{
	switch (e) {
	case cudaSuccess: return CUBLAS_STATUS_SUCCESS;
	case cudaErrorInitializationError: return CUBLAS_STATUS_NOT_INITIALIZED;
	case cudaErrorInvalidValue: return CUBLAS_STATUS_INVALID_VALUE;
	case cudaErrorMemoryAllocation: return CUBLAS_STATUS_ALLOC_FAILED;
	case cudaErrorNotSupported: return CUBLAS_STATUS_NOT_SUPPORTED;
	default: return CUBLAS_STATUS_EXECUTION_FAILED;
	}
}

static cublasStatus_t out(cudaError_t e)
{
	return status(finish(e));
}

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
	cudaError_t e = begin();
	if (!e)
		e = unsafe_call(); // it allocates
	if (!e) {
		struct blas *b = own_alloc(NULL, 0, sizeof *b);
		*b = (struct blas){0};
		*handle = handle_new(H_BLAS, b);
	}
	return out(e);
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
	cudaError_t e = begin();
	if (!e)
		e = unsafe_call();
	if (e)
		return out(e);
	struct blas *b = handle_take(H_BLAS, handle);
	own_free(b, sizeof *b * !!b);
	return out(b ? cudaSuccess : cudaErrorInitializationError);
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
	cudaError_t e = begin();
	struct blas *b = e ? NULL : handle_get(H_BLAS, handle);
	if (b)
		b->stream = stream;
	return out(b ? cudaSuccess : e ? e : cudaErrorInitializationError);
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
	cudaError_t e = begin();
	struct blas *b = e ? NULL : handle_get(H_BLAS, handle);
	if (b)
		b->math = mode;
	return out(b ? cudaSuccess : e ? e : cudaErrorInitializationError);
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t size)
{
	cudaError_t e = begin();
	struct blas *b = e ? NULL : handle_get(H_BLAS, handle);
	struct alloc *a = b ? find((uintptr_t)workspace) : NULL;
	if (b && size && (!a || !a->live || size > a->base + a->size - (uintptr_t)workspace))
		return out(cudaErrorInvalidValue);
	return out(b ? cudaSuccess : e ? e : cudaErrorInitializationError);
}

const char *cublasGetStatusString(cublasStatus_t s)
{
	switch (s) {
	case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
	case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
	case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
	case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
	case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
	case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
	default: return "CUBLAS_STATUS_UNKNOWN";
	}
}

static size_t width(cudaDataType type)
{
	switch (type) {
	case CUDA_R_8I: case CUDA_R_8U: return 1;
	case CUDA_R_16F: case CUDA_R_16BF: return 2;
	case CUDA_R_32F: case CUDA_R_32I: return 4;
	case CUDA_R_64F: return 8;
	default: return 0;
	}
}

// matrix is rows x columns in column-major order, batch of them stride apart.
static struct operand matrix(const void *p, cublasOperation_t op, int rows, int columns, int lead, long long stride, int batch, size_t size)
{
	if (op != CUBLAS_OP_N) {
		int swap = rows;
		rows = columns;
		columns = swap;
	}
	if (rows < 1 || columns < 1 || batch < 1 || lead < rows)
		return (struct operand){p, 0};
	return (struct operand){p, ((size_t)lead * (columns - 1) + rows + (size_t)stride * (batch - 1)) * size};
}

static bool inside(const struct operand *o)
{
	uint64_t p = (uintptr_t)o->p, end = p + (o->bytes ? o->bytes : 1);
	struct alloc *a = find(p);
	while (a && a->live && end > a->base + a->size)
		a = find(a->base + a->size);
	if (a && a->live)
		return true;
	struct alloc *first = find(p);
	if (a)
		fault("blas", "alloc=%llu bytes=%zu alloc-stack=%u free-stack=%u here=%u", (unsigned long long)a->id, a->size, a->made, a->freed,
		      stack_here());
	else
		fault("bounds", "call=cublas alloc=%llu bytes=%zu offset=%llu needs=%zu alloc-stack=%u here=%u",
		      (unsigned long long)(first ? first->id : 0), first ? first->size : 0, (unsigned long long)(first ? p - first->base : 0),
		      o->bytes, first ? first->made : 0, stack_here());
	return false;
}

static cublasStatus_t multiply(cublasHandle_t handle, const struct operand *operands, uint32_t n)
{
	cudaError_t e = begin();
	if (e)
		return out(e);
	struct blas *b = handle_get(H_BLAS, handle);
	if (!b)
		return out(cudaErrorInitializationError);
	struct stream *s;
	if ((e = stream_for(b->stream, &s)))
		return out(e);
	uint64_t pointers[4];
	for (uint32_t i = 0; i < n; i++)
		pointers[i] = (uintptr_t)operands[i].p;
	now->blas_calls++;
	if (s->capture)
		return out(capture_node(s, (struct node){.op = OP_BLAS}, pointers, n));
	struct mark work = late_work(s);
	for (uint32_t i = 0; i < n; i++) {
		inside(&operands[i]);
		late_uses(work, pointers[i]);
	}
	return out(sticky);
}

static cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *A, cudaDataType at,
			   int lda, long long sa, const void *B, cudaDataType bt, int ldb, long long sb, const void *C, cudaDataType ct, int ldc,
			   long long sc, int batch)
{
	const struct operand o[] = {
		matrix(A, ta, m, k, lda, sa, batch, width(at)),
		matrix(B, tb, k, n, ldb, sb, batch, width(bt)),
		matrix(C, CUBLAS_OP_N, m, n, ldc, sc, batch, width(ct)),
	};
	return multiply(h, o, LEN(o));
}

// Of the scales alpha and beta nothing is needed.
#pragma GCC diagnostic ignored "-Wunused-parameter"

cublasStatus_t cublasSgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float *alpha,
			   const float *A, int lda, const float *B, int ldb, const float *beta, float *C, int ldc)
{
	return gemm(h, ta, tb, m, n, k, A, CUDA_R_32F, lda, 0, B, CUDA_R_32F, ldb, 0, C, CUDA_R_32F, ldc, 0, 1);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float *alpha,
					 const float *A, int lda, long long sa, const float *B, int ldb, long long sb, const float *beta,
					 float *C, int ldc, long long sc, int batch)
{
	return gemm(h, ta, tb, m, n, k, A, CUDA_R_32F, lda, sa, B, CUDA_R_32F, ldb, sb, C, CUDA_R_32F, ldc, sc, batch);
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha, const void *A,
			    cudaDataType at, int lda, const void *B, cudaDataType bt, int ldb, const void *beta, void *C, cudaDataType ct,
			    int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	return gemm(h, ta, tb, m, n, k, A, at, lda, 0, B, bt, ldb, 0, C, ct, ldc, 0, 1);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha,
					  const void *A, cudaDataType at, int lda, long long sa, const void *B, cudaDataType bt, int ldb,
					  long long sb, const void *beta, void *C, cudaDataType ct, int ldc, long long sc, int batch,
					  cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	return gemm(h, ta, tb, m, n, k, A, at, lda, sa, B, bt, ldb, sb, C, ct, ldc, sc, batch);
}

static cublasStatus_t pointed(cublasHandle_t h, const void *A, const void *B, const void *C, int batch)
{
	const struct operand o[] = {{A, batch * sizeof(void *)}, {B, batch * sizeof(void *)}, {C, batch * sizeof(void *)}};
	return multiply(h, o, C ? 3 : 2);
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha,
				   const void *const A[], cudaDataType at, int lda, const void *const B[], cudaDataType bt, int ldb,
				   const void *beta, void *const C[], cudaDataType ct, int ldc, int batch, cublasComputeType_t compute,
				   cublasGemmAlgo_t algo)
{
	return pointed(h, A, B, C, batch);
}

cublasStatus_t cublasSgemmBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float *alpha,
				  const float *const A[], int lda, const float *const B[], int ldb, const float *beta, float *const C[],
				  int ldc, int batch)
{
	return pointed(h, A, B, C, batch);
}

cublasStatus_t cublasStrsmBatched(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op, cublasDiagType_t diag,
				  int m, int n, const float *alpha, const float *const A[], int lda, float *const B[], int ldb, int batch)
{
	return pointed(h, A, B, NULL, batch);
}
