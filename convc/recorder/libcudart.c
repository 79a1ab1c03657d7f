/* The CUDA runtime's stand-in of `convc record`: the runtime API by means of the driver's stand-in (libcuda.c).

   What nvcc puts into a host program registers fat binaries, kernels and variables here before main; a module is loaded
   when something of it is used first. Types are those of the runtime API's documentation, written out. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t result;
typedef uint64_t u64;
typedef uint32_t u32;
typedef void *stream;
struct dim3 { u32 x, y, z; };
struct function;
struct config { u32 grid[3], block[3], shared; stream stream; void *attributes; u32 count; };

enum { OK = 0, INVALID_VALUE = 1, INVALID_SYMBOL = 13, INVALID_FUNCTION = 98, RUNTIME_VERSION = 13000 };

void convc_refuse(const char *name);
result cuMemAlloc(void *, size_t), cuMemAllocManaged(void *, size_t, u32), cuMemHostAlloc(void *, size_t, u32), cuMemFree(u64);
result cuMemAllocPitch(void *, size_t *, size_t, size_t, u32), cuMemcpy(u64, u64, size_t), cuMemsetD8(u64, unsigned char, size_t);
result cuMemsetD2D8(u64, size_t, unsigned char, size_t, size_t), cuMemGetInfo(size_t *, size_t *);
result cuPointerGetAttribute(void *, u32, u64), cuMemHostGetDevicePointer(u64 *, void *, u32);
result cuDeviceGetAttribute(int *, u32, int), cuDeviceGetName(char *, int, int), cuDeviceGetUuid(char *, int);
result cuStreamCreate(stream *, u32), cuEventCreate(void **, u32), cuEventRecord(void *, stream), cuEventDestroy(void *);
result cuEventElapsedTime(float *, void *, void *), cuGetErrorName(int, const char **), cuGetErrorString(int, const char **);
result cuModuleLoadData(u64 *, const void *), cuModuleGetFunction(struct function **, u64, const char *);
result cuModuleGetGlobal(u64 *, size_t *, u64, const char *), cuFuncGetAttribute(int *, u32, struct function *);
result cuFuncSetAttribute(struct function *, u32, int), cuLaunchKernelEx(const struct config *, struct function *, void **, void **);
result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, struct function *, int, size_t);
result cuOccupancyMaxActiveClusters(int *, struct function *, const struct config *);
result cuOccupancyMaxPotentialBlockSize(int *, int *, struct function *, size_t (*)(int), size_t, int);
result cuOccupancyAvailableDynamicSMemPerBlock(size_t *, struct function *, int, int);
result cuCtxSynchronize(void);
result cuGetProcAddress(const char *, void **, int, u64), cuDriverGetVersion(int *);

static _Thread_local result last;
static result kept(result said) { return said ? last = said : OK; }

#define API(name, ...) result name(__VA_ARGS__)
#define DONE(name) result name(void) { return OK; } /* nothing to be done, whatever its arguments */

#define WAITS(name) result name(void) { return kept(cuCtxSynchronize()); }

/* ---- what the program has in it ------------------------------------------------------------------------------------ */

struct module { const void *image; u64 id; int loaded; };
struct named { const void *host; struct module *module; const char *name; struct function *function; struct named *next; };
static struct named *kernels, *variables;

void **__cudaRegisterFatBinary(const void *image) {
  struct module *module = calloc(1, sizeof *module);
  if (!module) abort();
  module->image = image;
  return (void **)module;
}
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}
char __cudaInitModule(void **handle) { return 1; }
static void note(struct named **list, void **handle, const void *host, const char *name) {
  struct named *noted = calloc(1, sizeof *noted);
  if (!noted) abort();
  *noted = (struct named){host, (struct module *)handle, name, NULL, *list};
  *list = noted;
}
void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name) { note(&kernels, handle, host, name); }
void __cudaRegisterVar(void **handle, const void *host, char *device, const char *name) { note(&variables, handle, host, name); }
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name) { convc_refuse("__cudaRegisterManagedVar"); }

static result loaded(struct module *module) {
  if (module->loaded) return OK;
  result said = cuModuleLoadData(&module->id, module->image);
  module->loaded = !said;
  return said;
}
/* The kernel of a host function, or one that was got before. */
static result kernel_of(struct function **out, const void *host) {
  for (struct named *each = kernels; each; each = each->next) {
    if (each->function && host == each->function) return *out = each->function, OK;
    if (each->host != host) continue;
    result said = loaded(each->module);
    if (!said && !each->function) said = cuModuleGetFunction(&each->function, each->module->id, each->name);
    return *out = each->function, said;
  }
  return INVALID_FUNCTION;
}
static result variable_of(u64 *address, size_t *bytes, const void *host) {
  for (struct named *each = variables; each; each = each->next) {
    if (each->host != host) continue;
    result said = loaded(each->module);
    return said ? said : cuModuleGetGlobal(address, bytes, each->module->id, each->name);
  }
  return INVALID_SYMBOL;
}

/* ---- launches ------------------------------------------------------------------------------------------------------ */

static _Thread_local struct { struct dim3 grid, block; size_t shared; stream stream; } pushed;

u32 __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, stream stream) {
  pushed.grid = grid, pushed.block = block, pushed.shared = shared, pushed.stream = stream;
  return 0;
}
API(__cudaPopCallConfiguration, struct dim3 *grid, struct dim3 *block, size_t *shared, stream *stream) {
  *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *stream = pushed.stream;
  return OK;
}
static result launch(const void *host, struct dim3 g, struct dim3 b, void **params, size_t shared, void *attributes, u32 count) {
  struct config config = {{g.x, g.y, g.z}, {b.x, b.y, b.z}, (u32)shared, NULL, attributes, count};
  struct function *function;
  result said = kernel_of(&function, host);
  return kept(said ? said : cuLaunchKernelEx(&config, function, params, NULL));
}
API(cudaLaunchKernel, const void *host, struct dim3 grid, struct dim3 block, void **params, size_t shared, stream s) { return launch(host, grid, block, params, shared, NULL, 0); }
API(__cudaLaunchKernel, const void *kernel, struct dim3 grid, struct dim3 block, void **params, size_t shared, stream s) { return launch(kernel, grid, block, params, shared, NULL, 0); }
API(cudaLaunchCooperativeKernel, const void *host, struct dim3 grid, struct dim3 block, void **params, size_t shared, stream s) {
  u32 together[18] = {2, 0, 1};
  return launch(host, grid, block, params, shared, together, 1);
}
struct wide { struct dim3 grid, block; size_t shared; stream stream; void *attributes; u32 count; };
API(cudaLaunchKernelExC, const struct wide *c, const void *host, void **params) { return launch(host, c->grid, c->block, params, c->shared, c->attributes, c->count); }
API(__cudaGetKernel, struct function **out, const void *host) { return kept(kernel_of(out, host)); }
API(cudaGetKernel, struct function **out, const void *host) { return kept(kernel_of(out, host)); }
API(cudaGetFuncBySymbol, struct function **out, const void *host) { return kept(kernel_of(out, host)); }

struct attributes { size_t shared, constant, local; int threads, registers, ptx, binary, cached, dynamic, carveout, must, width, height, depth, policy, beyond, reserved[16]; };
API(cudaFuncGetAttributes, struct attributes *out, const void *host) {
  int got[16] = {0};
  struct function *function;
  result said = kernel_of(&function, host);
  for (u32 i = 0; !said && i < 16; i++) said = cuFuncGetAttribute(got + i, i, function);
  *out = (struct attributes){(size_t)got[1], (size_t)got[2], (size_t)got[3], got[0], got[4], got[5], got[6], got[7], got[8], got[9], got[10], got[11], got[12], got[13], got[15], got[14]};
  return kept(said);
}
API(cudaFuncSetAttribute, const void *host, u32 which, int value) {
  struct function *function;
  result said = kernel_of(&function, host);
  return kept(said ? said : cuFuncSetAttribute(function, which, value));
}
API(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, const void *host, int threads, size_t shared) {
  struct function *function;
  result said = kernel_of(&function, host);
  return kept(said ? said : cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}
API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks, const void *host, int threads, size_t shared, u32 flags) { return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, threads, shared); }
API(cudaOccupancyMaxActiveClusters, int *clusters, const void *host, const struct wide *c) {
  struct config config = {{c->grid.x, c->grid.y, c->grid.z}, {c->block.x, c->block.y, c->block.z}, (u32)c->shared, NULL, c->attributes, c->count};
  struct function *function;
  result said = kernel_of(&function, host);
  return kept(said ? said : cuOccupancyMaxActiveClusters(clusters, function, &config));
}
API(cudaOccupancyMaxPotentialClusterSize, int *ctas, const void *host, const struct wide *c) { return *ctas = 8, OK; }
API(cudaOccupancyAvailableDynamicSMemPerBlock, size_t *bytes, const void *host, int blocks, int threads) {
  struct function *function;
  result said = kernel_of(&function, host);
  return kept(said ? said : cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads));
}
DONE(cudaFuncSetCacheConfig) DONE(cudaFuncSetSharedMemConfig)

/* ---- memory -------------------------------------------------------------------------------------------------------- */

API(cudaMalloc, void **out, size_t bytes) { return *out = NULL, bytes ? kept(cuMemAlloc(out, bytes)) : OK; }
API(cudaMallocAsync, void **out, size_t bytes, stream s) { return cudaMalloc(out, bytes); }
API(cudaMallocManaged, void **out, size_t bytes, u32 flags) { return kept(cuMemAllocManaged(out, bytes, flags)); }
API(cudaMallocHost, void **out, size_t bytes) { return kept(cuMemHostAlloc(out, bytes, 0)); }
API(cudaHostAlloc, void **out, size_t bytes, u32 flags) { return kept(cuMemHostAlloc(out, bytes, flags)); }
API(cudaMallocPitch, void **out, size_t *pitch, size_t width, size_t height) { return kept(cuMemAllocPitch(out, pitch, width, height, 16)); }
API(cudaFree, u64 address) { return kept(cuMemFree(address)); }
API(cudaFreeAsync, u64 address, stream s) { return kept(cuMemFree(address)); }
API(cudaFreeHost, u64 address) { return kept(cuMemFree(address)); }
API(cudaHostGetDevicePointer, u64 *out, void *host, u32 flags) { return kept(cuMemHostGetDevicePointer(out, host, flags)); }
API(cudaMemGetInfo, size_t *available, size_t *total) { return kept(cuMemGetInfo(available, total)); }
DONE(cudaHostRegister) DONE(cudaHostUnregister) DONE(cudaMemPrefetchAsync) DONE(cudaMemAdvise)

API(cudaMemcpy, u64 to, u64 from, size_t bytes, u32 kind) { return kept(cuMemcpy(to, from, bytes)); }
API(cudaMemcpyAsync, u64 to, u64 from, size_t bytes, u32 kind, stream s) { return kept(cuMemcpy(to, from, bytes)); }
API(cudaMemcpyPeer, u64 to, int a, u64 from, int b, size_t bytes) { return kept(cuMemcpy(to, from, bytes)); }
API(cudaMemcpy2D, u64 to, size_t to_pitch, u64 from, size_t from_pitch, size_t width, size_t height, u32 kind) {
  result said = OK;
  for (size_t y = 0; !said && y < height; y++) said = cuMemcpy(to + y * to_pitch, from + y * from_pitch, width);
  return kept(said);
}
API(cudaMemcpy2DAsync, u64 to, size_t to_pitch, u64 from, size_t from_pitch, size_t width, size_t height, u32 kind, stream s) { return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind); }
API(cudaMemset, u64 to, int value, size_t bytes) { return kept(cuMemsetD8(to, (unsigned char)value, bytes)); }
API(cudaMemsetAsync, u64 to, int value, size_t bytes, stream s) { return cudaMemset(to, value, bytes); }
API(cudaMemset2D, u64 to, size_t pitch, int value, size_t width, size_t height) { return kept(cuMemsetD2D8(to, pitch, (unsigned char)value, width, height)); }
API(cudaGetSymbolAddress, u64 *out, const void *host) { return kept(variable_of(out, NULL, host)); }
API(cudaGetSymbolSize, size_t *out, const void *host) { return kept(variable_of(NULL, out, host)); }
API(cudaMemcpyToSymbol, const void *host, u64 from, size_t bytes, size_t offset, u32 kind) {
  u64 address;
  result said = variable_of(&address, NULL, host);
  return kept(said ? said : cuMemcpy(address + offset, from, bytes));
}
API(cudaMemcpyToSymbolAsync, const void *host, u64 from, size_t bytes, size_t offset, u32 kind, stream s) { return cudaMemcpyToSymbol(host, from, bytes, offset, kind); }
API(cudaMemcpyFromSymbol, u64 to, const void *host, size_t bytes, size_t offset, u32 kind) {
  u64 address;
  result said = variable_of(&address, NULL, host);
  return kept(said ? said : cuMemcpy(to, address + offset, bytes));
}
API(cudaMemcpyFromSymbolAsync, u64 to, const void *host, size_t bytes, size_t offset, u32 kind, stream s) { return cudaMemcpyFromSymbol(to, host, bytes, offset, kind); }
struct pointer { u32 type; int device; u64 on_device, on_host; long reserved[8]; };
API(cudaPointerGetAttributes, struct pointer *out, u64 address) {
  u32 kind = 0, managed = 0;
  memset(out, 0, sizeof *out);
  if (cuPointerGetAttribute(&kind, 2, address)) return out->on_host = address, out->device = -2, OK;
  cuPointerGetAttribute(&managed, 8, address);
  out->type = managed ? 3 : kind, out->on_device = address, out->on_host = managed || kind == 1 ? address : 0;
  return OK;
}

/* ---- the device, streams and events ---------------------------------------------------------------------------------- */

API(cudaGetDevice, int *device) { return *device = 0, OK; }
API(cudaSetDevice, int device) { return kept(device ? 101 : OK); }
API(cudaGetDeviceCount, int *count) { return *count = 1, OK; }
API(cudaDeviceGetAttribute, int *value, u32 which, int device) { return kept(cuDeviceGetAttribute(value, which, 0)); }
API(cudaRuntimeGetVersion, int *version) { return *version = RUNTIME_VERSION, OK; }
API(cudaDriverGetVersion, int *version) { return cuDriverGetVersion(version); }
API(cudaDeviceCanAccessPeer, int *can, int a, int b) { return *can = 0, OK; }
API(cudaDeviceGetLimit, size_t *value, u32 which) { return *value = 1 << 20, OK; }
API(cudaDeviceGetStreamPriorityRange, int *least, int *greatest) { return *least = 0, *greatest = -5, OK; }
WAITS(cudaDeviceSynchronize) DONE(cudaDeviceReset) DONE(cudaDeviceSetLimit) DONE(cudaDeviceSetCacheConfig) DONE(cudaSetDeviceFlags)
DONE(cudaInitDevice) DONE(cudaProfilerStart) DONE(cudaProfilerStop) DONE(cudaDeviceEnablePeerAccess) DONE(cudaCtxResetPersistingL2Cache)

/* cudaDeviceProp of CUDA 13: where its fields are, by the attributes of the device that they repeat. */
API(cudaGetDeviceProperties, char *out, int device) {
  enum { WHOLE = 1008, NAME = 256, TOTAL = 288, SIZE = 8 };
  static const struct { short at, width, which; } fields[] = {
    {296, 8, 8}, {304, 4, 12}, {308, 4, 10}, {312, 8, 11}, {320, 4, 1}, {324, 4, 2}, {328, 4, 3}, {332, 4, 4},
    {336, 4, 5}, {340, 4, 6}, {344, 4, 7}, {352, 8, 9}, {360, 4, 75}, {364, 4, 76}, {368, 8, 14}, {376, 8, 51},
    {384, 4, 16}, {392, 4, 19}, {560, 4, 31}, {584, 4, 40}, {588, 4, 41}, {592, 4, 37}, {596, 4, 38}, {600, 4, 108},
    {604, 4, 39}, {608, 4, 78}, {612, 4, 79}, {616, 4, 80}, {624, 8, 81}, {632, 4, 82}, {636, 4, 83}, {656, 4, 89},
    {668, 4, 95}, {672, 8, 97}, {688, 4, 106}, {696, 8, 111}, {720, 4, 115}, {748, 4, 120}, {752, 4, 129},
  };
  memset(out, 0, WHOLE);
  cuDeviceGetName(out, NAME, 0), cuDeviceGetUuid(out + NAME, 0);
  *(u64 *)(out + TOTAL) = 64ull << 30;
  for (u32 i = 0; i < sizeof fields / sizeof *fields; i++) {
    int value = 0;
    result said = cuDeviceGetAttribute(&value, (u32)fields[i].which, 0);
    if (said) return kept(said);
    if (fields[i].width == SIZE) *(u64 *)(out + fields[i].at) = (u64)value;
    else *(int *)(out + fields[i].at) = value;
  }
  return OK;
}

API(cudaStreamCreate, stream *out) { return kept(cuStreamCreate(out, 0)); }
API(cudaStreamCreateWithFlags, stream *out, u32 flags) { return kept(cuStreamCreate(out, 0)); }
API(cudaStreamCreateWithPriority, stream *out, u32 flags, int priority) { return kept(cuStreamCreate(out, 0)); }
API(cudaStreamIsCapturing, stream s, int *status) { return *status = 0, OK; }
API(cudaStreamGetCaptureInfo, stream s, int *status) { return *status = 0, OK; }
API(cudaStreamGetPriority, stream s, int *priority) { return *priority = 0, OK; }
API(cudaStreamGetFlags, stream s, u32 *flags) { return *flags = 0, OK; }
DONE(cudaStreamDestroy) WAITS(cudaStreamSynchronize) WAITS(cudaStreamQuery) DONE(cudaStreamWaitEvent) DONE(cudaStreamSetAttribute)
DONE(cudaThreadExchangeStreamCaptureMode) WAITS(cudaEventSynchronize) WAITS(cudaEventQuery)
API(cudaLaunchHostFunc, stream s, void (*call)(void *), void *data) { return call(data), OK; }
API(cudaEventCreate, void **out) { return kept(cuEventCreate(out, 0)); }
API(cudaEventCreateWithFlags, void **out, u32 flags) { return kept(cuEventCreate(out, flags)); }
API(cudaEventRecord, void *event, stream s) { return kept(cuEventRecord(event, s)); }
API(cudaEventRecordWithFlags, void *event, stream s, u32 flags) { return kept(cuEventRecord(event, s)); }
API(cudaEventDestroy, void *event) { return kept(cuEventDestroy(event)); }
API(cudaEventElapsedTime, float *ms, void *from, void *to) { return kept(cuEventElapsedTime(ms, from, to)); }

API(cudaGetLastError, void) { result said = last; return last = OK, said; }
API(cudaPeekAtLastError, void) { return last; }
static const char *text_of(result (*find)(int, const char **), int error) {
  const char *text = "";
  return find(error, &text), text;
}
const char *cudaGetErrorName(int error) { return text_of(cuGetErrorName, error); }
const char *cudaGetErrorString(int error) { return text_of(cuGetErrorString, error); }
API(cudaGetDriverEntryPointByVersion, const char *name, void **out, u32 version, u64 flags, int *status) {
  result said = cuGetProcAddress(name, out, (int)version, flags);
  if (status) *status = said ? 1 : 0;
  return kept(said);
}
API(cudaGetDriverEntryPoint, const char *name, void **out, u64 flags, int *status) { return cudaGetDriverEntryPointByVersion(name, out, RUNTIME_VERSION, flags, status); }
