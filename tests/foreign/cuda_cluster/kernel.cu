// A histogram spread over the shared memory of a cluster, and a sum that st.async and red.async bring from the next CTA.
#include <cooperative_groups.h>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// counts: of each cluster, [4][per] bins. sums: for each thread, what its neighbour's thread sent, plus their count.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster(const int* x, int* counts, int* sums, int per) {
  extern __shared__ int bins[];
  __shared__ alignas(16) int inbox[32];
  __shared__ int senders;
  __shared__ uint64_t arrived;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank(), next = (rank + 1) % 4;
  for (int i = threadIdx.x; i < per; i += blockDim.x) bins[i] = 0;
  if (threadIdx.x == 0) {
    senders = 0;
    ptx::mbarrier_init(&arrived, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &arrived, 2 * 4 * 32);
  }
  cluster.sync();

  int v = x[blockIdx.x * blockDim.x + threadIdx.x], bin = v % (4 * per);
  atomicAdd(cluster.map_shared_rank(bins, bin / per) + bin % per, 1);
  uint64_t* bell = cluster.map_shared_rank(&arrived, next);
  ptx::st_async(cluster.map_shared_rank(inbox, next) + threadIdx.x, v, bell);
  ptx::red_async(ptx::op_add, cluster.map_shared_rank(&senders, next), 1, bell);
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0)) {
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = inbox[threadIdx.x] + senders;

  cluster.sync();
  for (int i = threadIdx.x; i < per; i += blockDim.x) counts[blockIdx.x * per + i] = bins[i];
}
