// The smallest kernel that leaves something in every section.
extern "C" __global__ void scale(float *x, float a) { x[threadIdx.x] *= a; }
