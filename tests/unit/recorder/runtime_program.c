/* What nvcc makes of a host program with one kernel: a fat binary and a kernel that are registered, and a launch. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct dim3 { unsigned x, y, z; };
static void *runtime;
#define CALL(name, ...) ((int (*)())dlsym(runtime, name))(__VA_ARGS__)

static void stub(void) {}
static void increment(void) {}
static void answer(void *stream, int result, void *value) { *(int *)value = 3 + result; }

int main(int count, char **words) {
  static uint64_t image[1 << 15];
  static struct { int magic, version; const void *data, *rest; } wrapper = {0x466243b1, 1, image};
  int values[32], extents[4] = {0}, step = 3, left = 0, right = 1, *total = NULL, called = 0;
  void *pool = NULL;
  uint64_t kept = ~0ull;
  struct dim3 one = {1, 1, 1};
  void **(*registered)(void *), *out = NULL, *params[] = {&out}, *event[2];
  unsigned char properties[1032];
  float ms = -1;
  static uint64_t units[2][1 << 12];
  static void *all_units[3] = {units[0], units[1]};
  FILE *file = fopen(words[1], "rb");
  if (!file || !fread(image, 1, sizeof image, file)) return 5;
  for (int i = 2; i < count; i++) { /* translation units, as nvcc -rdc=true wraps them */
    FILE *unit = fopen(words[i], "rb");
    if (!unit || !fread(units[i - 2], 1, sizeof units[0], unit)) return 5;
    wrapper.version = 2, wrapper.rest = all_units;
  }
  runtime = dlopen(RUNTIME, RTLD_NOW);
  if (!runtime) return puts(dlerror()), 6;
  registered = (void **(*)(void *))dlsym(runtime, "__cudaRegisterFatBinary");
  void **handle = registered(&wrapper);
  CALL("__cudaRegisterFunction", handle, (void *)stub, "count", "count", -1, (void *)0, (void *)0, (void *)0, (void *)0, (void *)0);
  CALL("__cudaRegisterVar", handle, (void *)&step, "step", "step", 0, (size_t)4, 1, 0);
  CALL("__cudaRegisterFunction", handle, (void *)increment, "increment", "increment", -1, (void *)0, (void *)0, (void *)0, (void *)0, (void *)0);
  CALL("__cudaRegisterManagedVar", handle, (void **)&total, "total", "total", 0, (size_t)4, 0, 0);
  CALL("__cudaRegisterFatBinaryEnd", handle);

  if (CALL(SMS == 384 ? "cudaGetDeviceProperties" : "cudaGetDeviceProperties_v2", properties, 0)) return 7;
  printf("%s: %d SMs\n", (char *)properties, *(int *)(properties + SMS)); /* where cudaDeviceProp has them */
  if (CALL("cudaDeviceGetDefaultMemPool", &pool, 0) || CALL("cudaMemPoolSetAttribute", pool, 4, &kept)) return 14;
  if (CALL("cudaMallocFromPoolAsync", &out, (size_t)4, pool, (void *)0)) return 8;
  if (CALL("cudaStreamAddCallback", (void *)0, answer, &called, 0) || called != 3) return 15;
  if (CALL("cudaMemcpyToSymbol", (void *)&step, &step, (size_t)4, (size_t)0, 1)) return 9;
  CALL("cudaEventCreate", event), CALL("cudaEventCreate", event + 1);
  CALL("cudaEventRecord", event[0], (void *)0);
  int (*launch)(const void *, struct dim3, struct dim3, void **, size_t, void *) = (void *)dlsym(runtime, "cudaLaunchKernel");
  int said = launch((void *)stub, one, one, params, 0, NULL);
  CALL("cudaEventRecord", event[1], (void *)0);
  CALL("cudaEventElapsedTime", &ms, event[0], event[1]);
  if (said || CALL("cudaDeviceSynchronize") || CALL("cudaMemcpy_ptds", values, out, (size_t)4, 2)) return 10;
  printf("value %d, time %s\n", values[0], ms > 0 ? "passed" : "stood still");
  if (!(char)CALL("__cudaInitModule", handle)) return 11;
  ++*total;
  if (launch((void *)increment, one, one, NULL, 0, NULL) || CALL("cudaDeviceSynchronize")) return 12;
  ++*total;
  if (CALL("cudaMemcpyFromSymbol", values, (void *)total, (size_t)4, (size_t)0, 2)) return 13;
  printf("managed %d, as a symbol %d\n", *total, values[0]);
  said = CALL("cudaLaunchKernel", (void *)main, one, one, params, (size_t)0, (void *)0);
  left = CALL("cudaGetLastError"), right = CALL("cudaGetLastError");
  printf("unknown kernel: %s, then %d\n", ((const char *(*)(int))dlsym(runtime, "cudaGetErrorString"))(left), right);
  return 0;
}
