// Put before every HIP file of a host-only build: a cooperative launch says how many
// arguments it has, which the runtime cannot know (the other launches need nothing here).
#pragma once
extern "C" hipError_t sim_launch_cooperative(const void * func, dim3 grid, dim3 block, void ** args, size_t n, size_t shared, hipStream_t stream);
template <class T>
static inline hipError_t sim_cooperative(const void * func, dim3 grid, dim3 block, const T & args, size_t shared = 0, hipStream_t stream = 0) {
    if (__is_array(T)) {
        return sim_launch_cooperative(func, grid, block, (void **) args, sizeof(T) / sizeof(void *), shared, stream);
    }
    return hipLaunchCooperativeKernel(func, grid, block, (void **) args, shared, stream);
}
#define hipLaunchCooperativeKernel(func, ...) sim_cooperative((const void *) (func), __VA_ARGS__)
