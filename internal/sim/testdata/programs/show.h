// What the test programs share: every call is printed with what it returned, in
// words that are the same on a card and on the simulated device.
//
// A program whose first line says "sim-only" must not run on a real card.
#pragma once
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t) 1 << 20)

static inline cudaError_t shown(const char * what, cudaError_t e) {
    printf("%-44s %s\n", what, cudaGetErrorName(e));
    return e;
}
// CALL prints the call as it stands in the source.
#define CALL(call) shown(#call, call)
// LAST prints the last error and clears it.
#define LAST() shown("  last error", cudaGetLastError())

static inline void yes(const char * what, int is) { printf("%-44s %s\n", what, is ? "yes" : "no"); }
static inline void number(const char * what, long long n) { printf("%-44s %lld\n", what, n); }

// What changed its signature from CUDA 11 to 13.
static inline cudaError_t instantiate(cudaGraphExec_t * exec, cudaGraph_t graph) {
#if CUDART_VERSION >= 12000
    return cudaGraphInstantiate(exec, graph, 0);
#else
    return cudaGraphInstantiate(exec, graph, NULL, NULL, 0);
#endif
}
static inline cudaError_t update(cudaGraphExec_t exec, cudaGraph_t graph) {
#if CUDART_VERSION >= 12000
    cudaGraphExecUpdateResultInfo info;
    return cudaGraphExecUpdate(exec, graph, &info);
#else
    cudaGraphNode_t bad;
    enum cudaGraphExecUpdateResult result;
    return cudaGraphExecUpdate(exec, graph, &bad, &result);
#endif
}
static inline cudaStream_t stream(void) {
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    return s;
}
static inline long long nodes(cudaGraph_t g) {
    size_t n = 0;
    cudaGraphGetNodes(g, NULL, &n);
    return (long long) n;
}
