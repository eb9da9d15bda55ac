// sim-only
// Kernels that name freed memory: directly, inside a structure, in an array.
#include "show.h"

struct odd { int before; const float * p; int after; };
struct many { void * p[6]; };

static __global__ void direct(float * p, long long stride, int n) { (void) p; (void) stride; (void) n; }
static __global__ void inside(odd o) { (void) o; }
static __global__ void array(many m) { (void) m; }

static void all(float * p, cudaStream_t s) {
    direct<<<1, 32, 0, s>>>(p, 1ll << 40, 7);
    inside<<<1, 32, 0, s>>>(odd{1, p + 5, 2});
    many m = {};
    m.p[4] = p;
    array<<<1, 32, 0, s>>>(m);
    void * args[] = {&p};
    cudaLaunchCooperativeKernel((void *) direct, dim3(1), dim3(32), args, 0, s);
    LAST();
}

int main() {
    float * p, * q;
    cudaStream_t s = stream();
    cudaMalloc((void **) &p, MIB);
    cudaMalloc((void **) &q, MIB);
    printf("live, and one behind the end: no fault\n");
    all(p, s);
    all(p + MIB / 4, s);
    printf("captured: no fault\n");
    cudaGraph_t g;
    cudaGraphExec_t x[3];
    for (int i = 0; i < 3; i++) {
        cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
        direct<<<1, 32, 0, s>>>(q, 1, 1);
        switch (i) {
            case 0: direct<<<1, 32, 0, s>>>(p, 1, 1); break;
            case 1: inside<<<1, 32, 0, s>>>(odd{1, p, 2}); break;
        }
        cudaStreamEndCapture(s, &g);
        instantiate(&x[i], g);
        CALL(cudaGraphLaunch(x[i], s));
    }
    cudaFree(p);
    printf("freed: four faults\n");
    all(p, s);
    printf("two graphs name it: two faults; the third does not\n");
    for (int i = 0; i < 3; i++) {
        CALL(cudaGraphLaunch(x[i], s));
    }
    return 0;
}
