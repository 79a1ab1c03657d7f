/* A host program of the driver API, as its documentation has it: it loads the driver by itself, and a text of PTX.
   What it does is said by its first argument. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
static void *driver;
static char *text, *library;
static u64 module;

#define CALL(name, ...) ((int (*)())dlsym(driver, name))(__VA_ARGS__)
#define CHECK(name, ...) check(name, CALL(name, __VA_ARGS__))

static void check(const char *name, int result) {
  const char *said = "";
  if (!result) return;
  CALL("cuGetErrorString", result, &said);
  printf("%s: %d, %s\n", name, result, said);
  exit(1);
}
static void *function(const char *name) {
  void *found = NULL;
  CHECK("cuModuleGetFunction", &found, module, name);
  return found;
}
static u64 allocated(size_t bytes) {
  u64 address = 0;
  CHECK("cuMemAlloc_v2", &address, bytes);
  return address;
}
static int launch(const char *name, unsigned grid, unsigned block, unsigned shared, void **params) {
  return CALL("cuLaunchKernel", function(name), grid, 1u, 1u, block, 1u, 1u, shared, (void *)NULL, params, (void **)NULL);
}

static int add(void) {
  float x[256], y[256];
  u64 dx = allocated(sizeof x), dy = allocated(sizeof y);
  void *params[] = {&dx, &dy};
  for (int i = 0; i < 256; i++) x[i] = i, y[i] = 1;
  CHECK("cuMemcpyHtoD_v2", dx, x, sizeof x);
  CHECK("cuMemcpyHtoD_v2", dy, y, sizeof y);
  check("cuLaunchKernel", launch("add", 2, 128, 0, params));
  CHECK("cuMemcpyDtoH_v2", y, dy, sizeof y);
  for (int i = 0; i < 256; i++)
    if (y[i] != i + 1) return printf("wrong at %d\n", i), 3;
  CHECK("cuMemFree_v2", dx);
  if (!CALL("cuMemFree_v2", dx)) return 4; /* once is enough */
  return puts("passed"), 0;
}

/* A 2-D tensor through its map: rows of 16 floats, of which a box of 4 x 8 is copied. */
static int tensor(void) {
  float from[8 * 16], to[4 * 8];
  u64 dfrom = allocated(sizeof from), dto = allocated(sizeof to);
  _Alignas(64) char map[128];
  u64 dims[2] = {16, 8}, strides[1] = {64};
  unsigned box[2] = {8, 4}, steps[2] = {1, 1};
  void *params[] = {map, &dto};
  for (int i = 0; i < 8 * 16; i++) from[i] = i;
  CHECK("cuMemcpyHtoD_v2", dfrom, from, sizeof from);
  CHECK("cuTensorMapEncodeTiled", map, 7, 2, dfrom, dims, strides, box, steps, 0, 0, 0, 0);
  check("cuLaunchKernel", launch("tensor", 1, 32, 0, params));
  CHECK("cuMemcpyDtoH_v2", to, dto, sizeof to);
  for (int i = 0; i < 4 * 8; i++)
    if (to[i] != (i / 8 + 2) * 16 + i % 8 + 4) return printf("wrong at %d\n", i), 3;
  strides[0] = 60;
  printf("stride 60: %d\n", CALL("cuTensorMapEncodeTiled", map, 7, 2, dfrom, dims, strides, box, steps, 0, 0, 0, 0));
  return puts("passed"), 0;
}

/* What a kernel leaves in a variable the next one finds; dynamic shared memory has to be asked for. */
static int state(void) {
  u64 out = allocated(4), counter = 0, step = 0;
  size_t bytes = 0;
  unsigned got = 0, two = 2;
  void *params[] = {&out};
  CHECK("cuModuleGetGlobal_v2", &step, &bytes, module, "step");
  CHECK("cuMemcpyHtoD_v2", step, &two, sizeof two);
  check("cuLaunchKernel", launch("count", 1, 1, 0, params));
  check("cuLaunchKernel", launch("count", 1, 1, 0, params));
  CHECK("cuModuleGetGlobal_v2", &counter, &bytes, module, "counter");
  CHECK("cuMemcpyDtoH_v2", &got, counter, sizeof got);
  printf("counter %u of %zu bytes\n", got, bytes);
  printf("too much: %d\n", launch("count", 1, 1, 60000, params));
  CHECK("cuFuncSetAttribute", function("count"), 8, 60000);
  printf("asked for: %d\n", launch("count", 1, 1, 60000, params));
  return got == 9 ? 0 : 3;
}

/* Two CTAs of a cluster, and memory that host and device share. */
static int cluster(void) {
  struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; } config = {{4, 1, 1}, {32, 1, 1}};
  struct { unsigned id, pad, words[16]; } attribute = {4, 0, {2, 1, 1}};
  unsigned *shared = NULL;
  void *params[] = {&shared};
  config.attributes = &attribute, config.count = 1;
  CHECK("cuMemAllocManaged", &shared, (size_t)16, 1);
  check("cuLaunchKernelEx", CALL("cuLaunchKernelEx", &config, function("rank"), params, (void **)NULL));
  printf("ranks %u %u %u %u\n", shared[0], shared[1], shared[2], shared[3]);
  return 0;
}

static int fault(void) {
  u64 nowhere = 0x123456789000;
  void *params[] = {&nowhere, &nowhere};
  int said = launch("add", 1, 32, 0, params);
  check("cuLaunchKernel", said);
  return 0;
}

static int missing(void) {
  int (*call)(void *, unsigned) = NULL;
  int status = 0;
  CHECK("cuGetProcAddress_v2", "cuTexObjectCreate", (void **)&call, 13000, (u64)0, &status);
  return call(&module, 0);
}

/* As NVIDIA's runtime asks the driver, in this program or in a library of it. */
static int table(void) {
  int (*ask)(void *) = library ? (int (*)(void *))dlsym(dlopen(library, RTLD_NOW), "ask") : NULL;
  void *call = dlsym(driver, "cuGetExportTable");
  int said = ask ? ask(call) : ((int (*)(void *, void *))call)(NULL, NULL);
  return printf("%d\n", said), said;
}

static int race(void) {
  u64 out = allocated(4);
  void *params[] = {&out};
  check("cuLaunchKernel", launch("race", 1, 64, 0, params));
  return puts("passed"), 0;
}

int main(int count, char **words) {
  static const struct { const char *name; int (*run)(void); } all[] = {
    {"add", add}, {"tensor", tensor}, {"state", state}, {"cluster", cluster}, {"fault", fault}, {"missing", missing}, {"table", table}, {"race", race},
  };
  FILE *file = fopen(words[2], "rb");
  int device = 7, major = 0;
  void *context = NULL;
  library = words[3];
  text = calloc(1, 1 << 20);
  if (!file || !fread(text, 1, (1 << 20) - 1, file)) return 5;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return puts(dlerror()), 6;
  CHECK("cuInit", 0);
  CHECK("cuDeviceGet", &device, 0);
  CHECK("cuDeviceGetAttribute", &major, 75, device);
  CHECK("cuDevicePrimaryCtxRetain", &context, device);
  CHECK("cuCtxSetCurrent", context);
  CHECK("cuModuleLoadData", &module, text);
  printf("device %d, compute capability %d\n", device, major);
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(words[1], all[i].name)) return all[i].run();
  return 7;
}
