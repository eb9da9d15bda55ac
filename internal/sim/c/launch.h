// Put before every CUDA file of a host-only build: what clang needs for its older
// way to launch a kernel, in which each argument is handed over with its size.
#pragma once
extern "C" {
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
cudaError_t cudaSetupArgument(const void * arg, size_t size, size_t offset);
cudaError_t cudaLaunch(const void * func);
cudaError_t sim_launch_cooperative(const void * func, dim3 grid, dim3 block, void ** args, size_t n, size_t shared, cudaStream_t stream);
}

// The length of the array of arguments is known here, and not in the runtime.
template <class T>
static inline cudaError_t sim_cooperative(const void * func, dim3 grid, dim3 block, const T & args, size_t shared = 0, cudaStream_t stream = 0) {
    if (__is_array(T)) {
        return sim_launch_cooperative(func, grid, block, (void **) args, sizeof(T) / sizeof(void *), shared, stream);
    }
    return cudaLaunchCooperativeKernel(func, grid, block, (void **) args, shared, stream);
}
#define cudaLaunchCooperativeKernel(func, ...) sim_cooperative((const void *) (func), __VA_ARGS__)
