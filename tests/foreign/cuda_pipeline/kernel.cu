// Tiles arrive through a pipeline of two stages (cuda::pipeline over cp.async); a cuda::barrier orders the last step.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int WIDTH = 128, STAGES = 2;

// out[block]: the sum of the block's tiles, reversed, plus the same one place further on.
extern "C" __global__ void pipeline(const float* x, float* out, int tiles) {
  __shared__ alignas(16) float stages[STAGES][WIDTH];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
  cg::thread_block block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);

  float sum = 0;
  for (int used = 0, fetched = 0; used < tiles; used++) {
    for (; fetched < tiles && fetched < used + STAGES; fetched++) {
      pipe.producer_acquire();
      const float* from = x + (blockIdx.x * tiles + fetched) * WIDTH;
      cuda::memcpy_async(block, stages[fetched % STAGES], from, cuda::aligned_size_t<16>(4 * WIDTH), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stages[used % STAGES][WIDTH - 1 - threadIdx.x];
    pipe.consumer_release();
  }

  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier ready;
  __shared__ float sums[WIDTH];
  if (threadIdx.x == 0) init(&ready, blockDim.x);
  __syncthreads();
  sums[threadIdx.x] = sum;
  ready.arrive_and_wait();
  out[blockIdx.x * WIDTH + threadIdx.x] = sums[threadIdx.x] + sums[(threadIdx.x + 1) % WIDTH];
}
