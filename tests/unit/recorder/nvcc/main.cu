// Of two translation units (-rdc=true): a function, a variable and a constant are of the other one.
#include <cstdio>

extern __device__ int scaled(int);
extern __device__ int base;
extern __constant__ int step;
static __device__ int own(int x) { return x + 1; }
void set_base(int);

__global__ void kernel(int *out) { out[threadIdx.x] = scaled(own(threadIdx.x)) + base + step; }

int main() {
  int *out, host[32], wrong = 0;
  cudaMalloc(&out, sizeof host);
  set_base(7);
  kernel<<<1, 32>>>(out);
  wrong = cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 32; i++) wrong += host[i] != 2 * (i + 1) + 7 + 3;
  puts(wrong ? "failed" : "passed");
}
