// Two streams that meet by events, run directly and as a captured graph; the sum is in a managed variable.
#include <cstdio>

__managed__ int wrong = -1;
__global__ void scale(float *x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
__global__ void compare(const float *x, const float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] + y[i] != 5.f * i) atomicAdd(&wrong, 1);
}
static void check(cudaError_t result) {
  if (result) printf("%s\n", cudaGetErrorString(result)), exit(1);
}
static void work(cudaStream_t s, cudaStream_t t, cudaEvent_t begun, cudaEvent_t done, float *x, float *y, float *host, int n) {
  check(cudaEventRecord(begun, s));
  check(cudaStreamWaitEvent(t, begun, 0));
  check(cudaMemcpyAsync(x, host, n * sizeof(float), cudaMemcpyHostToDevice, s));
  check(cudaMemcpyAsync(y, host, n * sizeof(float), cudaMemcpyHostToDevice, t));
  scale<<<8, 128, 0, s>>>(x, 2, n);
  scale<<<8, 128, 0, t>>>(y, 3, n);
  check(cudaEventRecord(done, t));
  check(cudaStreamWaitEvent(s, done, 0));
  compare<<<8, 128, 0, s>>>(x, y, n);
  check(cudaGetLastError());
}
int main() {
  const int n = 1000;
  float *x, *y, *host;
  cudaStream_t s, t;
  cudaEvent_t begun, done;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaMallocHost(&host, n * sizeof(float)));
  for (int i = 0; i < n; i++) host[i] = i;
  check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  check(cudaStreamCreate(&t));
  check(cudaEventCreate(&begun));
  check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  check(cudaMallocAsync(&x, n * sizeof(float), s));
  check(cudaMallocAsync(&y, n * sizeof(float), t));
  wrong = 0;
  work(s, t, begun, done, x, y, host, n);
  check(cudaStreamSynchronize(s));
  check(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  work(s, t, begun, done, x, y, host, n);
  check(cudaStreamEndCapture(s, &graph));
  check(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; i++) check(cudaGraphLaunch(exec, s));
  check(cudaDeviceSynchronize());
  puts(wrong ? "failed" : "passed");
  return wrong;
}
