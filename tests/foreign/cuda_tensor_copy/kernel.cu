// Tiles by tensor copies: loaded on a cuda::barrier, scaled, stored, and added up by a bulk reduction.
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>

namespace ptx = cuda::ptx;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int ROWS = 16, COLUMNS = 32;

// Through `to`: the tensor of `from` times scale. sum: [16][32], all scaled tiles added up.
extern "C" __global__ void tensor_copy(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
                                       float* sum, float scale) {
  __shared__ alignas(128) float tile[ROWS][COLUMNS];
  __shared__ Barrier full;
  if (threadIdx.x == 0) {
    init(&full, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  int32_t at[2] = {(int32_t)blockIdx.x * COLUMNS, (int32_t)blockIdx.y * ROWS};
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    uint64_t* bell = cuda::device::barrier_native_handle(full);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, &tile, &from, at, bell);
    token = cuda::device::barrier_arrive_tx(full, 1, sizeof(tile));
  } else {
    token = full.arrive();
  }
  full.wait(std::move(token));

  for (int row = threadIdx.x / COLUMNS; row < ROWS; row += blockDim.x / COLUMNS) tile[row][threadIdx.x % COLUMNS] *= scale;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &to, at, &tile);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sum, &tile[0][0], sizeof(tile));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
