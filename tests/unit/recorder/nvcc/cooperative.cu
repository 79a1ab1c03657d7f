// A sum over a grid whose CTAs wait for one another (cooperative groups).
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;

__global__ void sum(int *parts, int *out, int n) {
  auto grid = cg::this_grid();
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int mine = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) mine += i;
  for (int by = 16; by; by /= 2) mine += warp.shfl_down(mine, by);
  if (warp.thread_rank() == 0) parts[grid.thread_rank() / 32] = mine;
  grid.sync();
  if (grid.thread_rank()) return;
  *out = 0;
  for (int i = 0; i < grid.size() / 32; i++) *out += parts[i];
}
int main() {
  int *parts, *out, n = 500, result = 0;
  cudaMalloc(&parts, 1024);
  cudaMalloc(&out, sizeof(int));
  void *params[] = {&parts, &out, &n};
  cudaError_t said = cudaLaunchCooperativeKernel((void *)sum, dim3(3), dim3(64), params, 0, 0);
  cudaMemcpy(&result, out, sizeof(int), cudaMemcpyDeviceToHost);
  puts(said || result != n * (n - 1) / 2 ? "failed" : "passed");
}
