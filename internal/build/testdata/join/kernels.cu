// What kernel.nvcc.o and kernel.ll were made from: each way in which nvcc on Linux and
// clang for MinGW name a kernel differently, and a variable.
//   nvcc -ccbin g++-11 -gencode arch=compute_75,code=sm_75 -gencode arch=compute_86,code=sm_86 -O1 -std=c++17 -c kernels.cu -o kernels.nvcc.o   (CUDA 11.8)
//   clang++-19 --target=x86_64-w64-mingw32 -x cuda --cuda-path=CUDA --cuda-gpu-arch=sm_86 -O1 -I ggml/src/ggml-cuda/mingw --cuda-host-only
//     -Xclang -fcuda-include-gpubinary -Xclang device-code -S -emit-llvm kernels.cu -o kernels.ll   (CUDA 11.2; device-code as win7-cuda-clang has it)
#include <cuda_runtime.h>
#include <stdint.h>
static __device__ void one(float *p) { *p = 1; }
template <typename T> static __device__ void two(T *p) { *p = 2; }
template <typename T, int n> static __global__ void scale(const T *x, T *y, int64_t k, size_t m) { if (k > 0) y[0] = x[0] * (T) n + (T) m; }
template <void (*f)(float *)> static __global__ void apply(float *p) { f(p); }
template <size_t n> __global__ void sized(float *p) { p[0] = n; }
namespace { __global__ void hidden(float *p) { p[0] = 1; } }
extern "C" __global__ void plain(float *p) { p[0] = 2; }
__device__ int counter;
void start(float *a, double *b) {
    scale<float, 3><<<1, 1>>>(a, a, 5, 6);
    scale<double, 4><<<1, 1>>>(b, b, 5, 6);
    apply<one><<<1, 1>>>(a);
    apply<two<float>><<<1, 1>>>(a);
    sized<128><<<1, 1>>>(a);
    hidden<<<1, 1>>>(a);
    plain<<<1, 1>>>(a);
    int h = 0;
    cudaMemcpyToSymbol(counter, &h, sizeof h);
}
