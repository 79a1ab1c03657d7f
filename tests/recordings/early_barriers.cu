// Does an arrival from the peer get lost where the fence.mbarrier_init of a thread stands ahead of its mbarrier.init, and
// the cluster barrier's arrival is relaxed? The manual orders only what stands ahead of the fence. Counts phases that
// never end, for a fence behind the initialisations, ahead of them, and none.
//
//     nvcc -std=c++17 -arch=sm_90a -O2 -o early_barriers early_barriers.cu && ./early_barriers
#include <cstdio>
#include <cstdint>
#include <cuda_runtime.h>
template <int MODE>
__global__ void __cluster_dims__(2, 1, 1) meet(unsigned* lost, unsigned junk) {
  __shared__ alignas(16) uint64_t bar[64];
  uint32_t rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  // what was there before: junk, written by other lanes
  for (int i = threadIdx.x; i < 64; i += blockDim.x) bar[i] = 0xdeadbeef00000000ull + junk + i;
  __syncthreads();
  uint32_t here = (uint32_t)__cvta_generic_to_shared(bar);
  if (threadIdx.x == 0) {
    if (MODE == 1) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i < 64; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(here + 8 * i) : "memory");
    if (MODE == 0) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) {
    for (int i = 0; i < 64; i++) {
      uint32_t far;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(here + 8 * i), "r"(rank ^ 1));
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far) : "memory");
    }
    for (int i = 0; i < 64; i++) {
      uint32_t ok = 0;
      for (int t = 0; t < 20000 && !ok; t++)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(ok) : "r"(here + 8 * i) : "memory");
      if (!ok) atomicAdd(lost, 1);
    }
  }
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
template <int MODE>
void count(const char* name, int n) {
  unsigned* d; unsigned h = 0; cudaMalloc(&d, 4); cudaMemset(d, 0, 4);
  for (int i = 0; i < n; i++) meet<MODE><<<264, 128>>>(d, i);
  cudaError_t e = cudaDeviceSynchronize();
  cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost);
  printf("%s: %d launches, %lld mbarriers, %u lost, %s\n", name, n, 264ll * 64 * n, h, cudaGetErrorString(e));
}
int main() {
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); printf("%s\n", p.name);
  count<0>("fence behind init", 20000);
  count<1>("fence ahead of init", 20000);
  count<2>("no fence", 20000);
}
