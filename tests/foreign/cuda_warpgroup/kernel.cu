// C = A B^T: one warpgroup copies tiles by tensor copies into a ring, two multiply them by wgmma.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cstdint>

constexpr int M = 128, N = 64, K = 64, STAGES = 3;

struct alignas(1024) Stage {
  __half a[M][K];
  __half b[N][K];
};

__device__ uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// A matrix with rows of 128 bytes, swizzled over 128 bytes.
__device__ uint64_t descriptor(const void* p) {
  return (shared(p) & 0x3FFFF) >> 4 | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

__device__ void wait(uint64_t* bar, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }" ::"r"(shared(bar)),
      "r"(parity)
      : "memory");
}

__device__ void load(void* to, const CUtensorMap* map, int x, int y, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared(bar))
      : "memory");
}

__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate));
}

// c: [gridDim.y * M][gridDim.x * N]; steps: blocks of K.
extern "C" __global__ void __launch_bounds__(384, 1)
    warpgroup(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int steps) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Stage* ring = (Stage*)raw;
  __shared__ uint64_t full[STAGES], empty[STAGES];
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&full[s])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(shared(&empty[s])));
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  int group = threadIdx.x / 128;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int i = 0; i < steps; i++) {
        int s = i % STAGES;
        if (i >= STAGES) wait(&empty[s], (i / STAGES + 1) & 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&full[s])),
                     "n"(sizeof(Stage)) : "memory");
        load(ring[s].a, &a, i * K, blockIdx.y * M, &full[s]);
        load(ring[s].b, &b, i * K, blockIdx.x * N, &full[s]);
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32];
    int rows = (group - 1) * 64;
    for (int i = 0; i < steps; i++) {
      int s = i % STAGES;
      wait(&full[s], (i / STAGES) & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int k = 0; k < K; k += 16)
        multiply(d, descriptor(&ring[s].a[rows][0]) + k / 8, descriptor(ring[s].b) + k / 8, i || k);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      // The wgmma of the step before are done; one thread says so, without a branch that parts its warp.
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; @p mbarrier.arrive.shared::cta.b64 _, [%0]; }" ::"r"(
                       shared(&empty[(i + STAGES - 1) % STAGES])),
                   "r"((int)(i && threadIdx.x % 128 == 0))
                   : "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    int t = threadIdx.x % 128;
    float* out = c + (blockIdx.y * M + rows + t / 32 * 16 + t % 32 / 4) * gridDim.x * N + blockIdx.x * N + t % 4 * 2;
    for (int i = 0; i < 32; i++) out[(i / 2 % 2 * 8) * gridDim.x * N + i / 4 * 8 + i % 2] = d[i];
  }
}
