// Sums and scans by cooperative groups: blocks, warps, tiles of 8, the threads of a branch, threads with one label.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

// total: the sum of x. scans: of the first block, [4][blockDim.x].
extern "C" __global__ void groups(const float* x, float* total, int* scans, int n) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(warp);
  __shared__ float parts[32];

  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = sum;
  block.sync();
  if (warp.meta_group_rank() == 0) {
    float part = warp.thread_rank() < warp.meta_group_size() ? parts[warp.thread_rank()] : 0.f;
    part = cg::reduce(warp, part, cg::plus<float>());
    if (warp.thread_rank() == 0) atomicAdd(total, part);
  }

  int id = threadIdx.x, width = blockDim.x;
  if (blockIdx.x != 0) return;
  scans[id] = cg::exclusive_scan(tile, id);
  scans[width + id] = cg::inclusive_scan(tile, id ^ 5, cg::greater<int>());
  if (id % 3 == 0) {
    cg::coalesced_group some = cg::coalesced_threads();
    scans[2 * width + id] = cg::reduce(some, id, cg::greater<int>()) * 100 + some.thread_rank();
  }
  cg::coalesced_group same = cg::labeled_partition(warp, id % 5);
  scans[3 * width + id] = same.size() * 100 + same.shfl(id, 0);
}
