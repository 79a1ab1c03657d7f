__device__ int base = 1;
__constant__ int step = 3;
static __device__ __noinline__ int own(int x) { return 2 * x; }
__device__ int scaled(int x) { return own(x); }
void set_base(int value) { cudaMemcpyToSymbol(base, &value, sizeof value); }
