/* The CUDA runtime's stand-in of `convc record`: the runtime API by means of the driver's stand-in (libcuda.c).

   What nvcc puts into a host program registers fat binaries, kernels and variables here before main; a module is loaded
   when something of it is used first. Types are those of the runtime API's documentation, written out. */
#include "driver.h"

typedef void *stream;
struct dim3 { u32 x, y, z; };

enum { INVALID_SYMBOL = 13, INVALID_FUNCTION = 98, RUNTIME_VERSION = VERSION >= 13 ? 13000 : 12090 };

result cuMemAlloc(void *, size_t), cuMemAllocManaged(void *, size_t, u32), cuMemHostAlloc(void *, size_t, u32), cuMemFree(u64);
result cuMemAllocAsync(void *, size_t, stream), cuMemFreeAsync(u64, stream), cuDeviceGetDefaultMemPool(void **, int);
result cuStreamAddCallback(stream, void *, void *, u32);
result cuMemAllocPitch(void *, size_t *, size_t, size_t, u32), cuMemGetInfo(size_t *, size_t *);
result cuPointerGetAttribute(void *, u32, u64), cuMemHostGetDevicePointer(u64 *, void *, u32);
result cuDeviceGetAttribute(int *, u32, int), cuDeviceGetName(char *, int, int), cuDeviceGetUuid(char *, int);
result cuStreamCreate(stream *, u32), cuEventCreate(void **, u32), cuEventRecordWithFlags(void *, stream, u32), cuEventDestroy(void *);
result cuEventElapsedTime(float *, void *, void *), cuGetErrorName(int, const char **), cuGetErrorString(int, const char **);
result cuModuleLoadData(u64 *, const void *), cuModuleGetFunction(struct function **, u64, const char *);
result cuModuleGetGlobal(u64 *, size_t *, u64, const char *), cuFuncGetAttribute(int *, u32, struct function *);
result cuFuncSetAttribute(struct function *, u32, int), cuLaunchKernelEx(const struct config *, struct function *, void **, void **);
result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, struct function *, int, size_t);
result cuOccupancyMaxActiveClusters(int *, struct function *, const struct config *);
result cuOccupancyMaxPotentialBlockSize(int *, int *, struct function *, size_t (*)(int), size_t, int);
result cuOccupancyAvailableDynamicSMemPerBlock(size_t *, struct function *, int, int);
result cuCtxSynchronize(void), cuStreamSynchronize(stream), cuEventSynchronize(void *), cuStreamWaitEvent(stream, void *, u32);
result cuStreamBeginCapture(stream, u32), cuStreamEndCapture(stream, void **), cuStreamGetCaptureInfo(stream, u32 *, u64 *);
result cuGraphCreate(void **, u32), cuGraphDestroy(void *), cuGraphInstantiate(void **, void *), cuGraphLaunch(void *, stream);
result cuGraphGetNodes(void *, void **, size_t *), cuGraphNodeGetType(void *, u32 *), cuGraphExecUpdate_v2(void *, void *, void *);
result cuGraphAddDependencies(void *, void *, void *, size_t), cuGraphAddChildGraphNode(void *, void *, void *, size_t, void *);
result cuGraphAddKernelNode_v2(void *, void *, void *, size_t, const struct kernel_node *);
result cuGraphExecKernelNodeSetParams_v2(void *, void *, const struct kernel_node *);
result cuGetProcAddress(const char *, void **, int, u64), cuDriverGetVersion(int *);

static _Thread_local result last;
static result kept(result said) { return said ? last = said : OK; }

#define WAITS(name) result name(void) { return kept(cuCtxSynchronize()); }

/* ---- what the program has in it ------------------------------------------------------------------------------------ */

struct module { const void *image; u64 id; int loaded; };
struct named { const void *host; struct module *module; const char *name; struct function *function; struct named *next; };
static struct named *kernels, *variables, *managed; /* managed: `host` is where its address goes */

void **__cudaRegisterFatBinary(const void *image) {
  struct module *module = calloc(1, sizeof *module);
  if (!module) abort();
  module->image = image;
  return (void **)module;
}
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}
static void note(struct named **list, void **handle, const void *host, const char *name) {
  struct named *noted = calloc(1, sizeof *noted);
  if (!noted) abort();
  *noted = (struct named){host, (struct module *)handle, name, NULL, *list};
  *list = noted;
}
void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name) { note(&kernels, handle, host, name); }
void __cudaRegisterVar(void **handle, const void *host, char *device, const char *name) { note(&variables, handle, host, name); }
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name) { note(&managed, handle, host, name); }

static result loaded(struct module *module) {
  if (module->loaded) return OK;
  result said = cuModuleLoadData(&module->id, module->image);
  module->loaded = !said;
  for (struct named *each = managed; each && !said; each = each->next)
    if (each->module == module) said = cuModuleGetGlobal((u64 *)each->host, NULL, module->id, each->name);
  return said;
}
/* What the host calls before it uses a managed variable. */
char __cudaInitModule(void **handle) { return !kept(loaded((struct module *)handle)); }
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
  for (struct named *each = managed; each; each = each->next)
    if (*(const void **)each->host == host) return cuModuleGetGlobal(address, bytes, each->module->id, each->name);
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
static result launch(const void *host, struct dim3 g, struct dim3 b, void **params, size_t shared, stream s, void *attributes, u32 count) {
  struct config config = {{g.x, g.y, g.z}, {b.x, b.y, b.z}, (u32)shared, s, attributes, count};
  struct function *function;
  result said = kernel_of(&function, host);
  return kept(said ? said : cuLaunchKernelEx(&config, function, params, NULL));
}
API(cudaLaunchKernel, const void *host, struct dim3 grid, struct dim3 block, void **params, size_t shared, stream s) { return launch(host, grid, block, params, shared, s, NULL, 0); }
API(__cudaLaunchKernel, const void *kernel, struct dim3 grid, struct dim3 block, void **params, size_t shared, stream s) { return launch(kernel, grid, block, params, shared, s, NULL, 0); }
API(cudaLaunchCooperativeKernel, const void *host, struct dim3 grid, struct dim3 block, void **params, size_t shared, stream s) {
  u32 together[18] = {2, 0, 1};
  return launch(host, grid, block, params, shared, s, together, 1);
}
struct wide { struct dim3 grid, block; size_t shared; stream stream; void *attributes; u32 count; };
API(cudaLaunchKernelExC, const struct wide *c, const void *host, void **params) { return launch(host, c->grid, c->block, params, c->shared, c->stream, c->attributes, c->count); }
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
API(cudaMallocAsync, void **out, size_t bytes, stream s) { return *out = NULL, bytes ? kept(cuMemAllocAsync(out, bytes, s)) : OK; }
API(cudaMallocFromPoolAsync, void **out, size_t bytes, void *pool, stream s) { return cudaMallocAsync(out, bytes, s); }
API(cudaDeviceGetDefaultMemPool, void **pool, int device) { return kept(cuDeviceGetDefaultMemPool(pool, device)); }
API(cudaDeviceGetMemPool, void **pool, int device) { return kept(cuDeviceGetDefaultMemPool(pool, device)); }
DONE(cudaDeviceSetMemPool) DONE(cudaMemPoolSetAttribute) DONE(cudaMemPoolTrimTo) DONE(cudaMemPoolSetAccess)
API(cudaMallocManaged, void **out, size_t bytes, u32 flags) { return kept(cuMemAllocManaged(out, bytes, flags)); }
API(cudaMallocHost, void **out, size_t bytes) { return kept(cuMemHostAlloc(out, bytes, 0)); }
API(cudaHostAlloc, void **out, size_t bytes, u32 flags) { return kept(cuMemHostAlloc(out, bytes, flags)); }
API(cudaMallocPitch, void **out, size_t *pitch, size_t width, size_t height) { return kept(cuMemAllocPitch(out, pitch, width, height, 16)); }
API(cudaFree, u64 address) { return kept(cuMemFree(address)); }
API(cudaFreeAsync, u64 address, stream s) { return kept(cuMemFreeAsync(address, s)); }
API(cudaFreeHost, u64 address) { return kept(cuMemFree(address)); }
API(cudaHostGetDevicePointer, u64 *out, void *host, u32 flags) { return kept(cuMemHostGetDevicePointer(out, host, flags)); }
API(cudaMemGetInfo, size_t *available, size_t *total) { return kept(cuMemGetInfo(available, total)); }
DONE(cudaHostRegister) DONE(cudaHostUnregister) DONE(cudaMemPrefetchAsync) DONE(cudaMemAdvise)

/* Work of a stream; functions without one give theirs to the legacy stream. */
static result copy_on(stream s, u64 to, u64 to_pitch, u64 from, u64 from_pitch, u64 width, u64 height) {
  return kept(convc_give(s, (struct work){COPY_NODE, .box = {to, to_pitch, 0, from, from_pitch, 0, width, height, 1}}));
}
static result fill_on(stream s, u64 to, u64 pitch, int value, u64 width, u64 height) {
  return kept(convc_give(s, (struct work){FILL_NODE, .fill = {to, pitch, (unsigned char)value, 1, width, height}}));
}
API(cudaMemcpyAsync, u64 to, u64 from, size_t bytes, u32 kind, stream s) { return copy_on(s, to, 0, from, 0, bytes, 1); }
API(cudaMemcpy, u64 to, u64 from, size_t bytes, u32 kind) { return copy_on(NULL, to, 0, from, 0, bytes, 1); }
API(cudaMemcpyPeer, u64 to, int a, u64 from, int b, size_t bytes) { return copy_on(NULL, to, 0, from, 0, bytes, 1); }
API(cudaMemcpyPeerAsync, u64 to, int a, u64 from, int b, size_t bytes, stream s) { return copy_on(s, to, 0, from, 0, bytes, 1); }
API(cudaMemcpy2DAsync, u64 to, size_t to_pitch, u64 from, size_t from_pitch, size_t width, size_t height, u32 kind, stream s) { return copy_on(s, to, to_pitch, from, from_pitch, width, height); }
API(cudaMemcpy2D, u64 to, size_t to_pitch, u64 from, size_t from_pitch, size_t width, size_t height, u32 kind) { return copy_on(NULL, to, to_pitch, from, from_pitch, width, height); }
API(cudaMemsetAsync, u64 to, int value, size_t bytes, stream s) { return fill_on(s, to, 0, value, bytes, 1); }
API(cudaMemset, u64 to, int value, size_t bytes) { return fill_on(NULL, to, 0, value, bytes, 1); }
API(cudaMemset2DAsync, u64 to, size_t pitch, int value, size_t width, size_t height, stream s) { return fill_on(s, to, pitch, value, width, height); }
API(cudaMemset2D, u64 to, size_t pitch, int value, size_t width, size_t height) { return fill_on(NULL, to, pitch, value, width, height); }

struct pitched { u64 at, pitch, width, height; };
struct corner { void *array; u64 x, y, z; struct pitched in; };
struct cuboid { struct corner from, to; u64 width, height, depth; u32 kind; }; /* cudaMemcpy3DParms */
static u64 corner_of(const struct corner *c) {
  if (c->array) convc_refuse("cudaMemcpy3D of a cudaArray");
  return c->in.at + (c->z * c->in.height + c->y) * c->in.pitch + c->x;
}
static struct work cuboid_work(const struct cuboid *c) {
  const struct pitched *to = &c->to.in, *from = &c->from.in;
  return (struct work){COPY_NODE, .box = {corner_of(&c->to), to->pitch, to->pitch * to->height, corner_of(&c->from), from->pitch,
                                          from->pitch * from->height, c->width, c->height, c->depth}};
}
API(cudaMemcpy3DAsync, const struct cuboid *c, stream s) { return kept(convc_give(s, cuboid_work(c))); }
API(cudaMemcpy3D, const struct cuboid *c) { return cudaMemcpy3DAsync(c, NULL); }
API(cudaGetSymbolAddress, u64 *out, const void *host) { return kept(variable_of(out, NULL, host)); }
API(cudaGetSymbolSize, size_t *out, const void *host) { return kept(variable_of(NULL, out, host)); }
API(cudaMemcpyToSymbolAsync, const void *host, u64 from, size_t bytes, size_t offset, u32 kind, stream s) {
  u64 address;
  result said = variable_of(&address, NULL, host);
  return said ? kept(said) : copy_on(s, address + offset, 0, from, 0, bytes, 1);
}
API(cudaMemcpyToSymbol, const void *host, u64 from, size_t bytes, size_t offset, u32 kind) { return cudaMemcpyToSymbolAsync(host, from, bytes, offset, kind, NULL); }
API(cudaMemcpyFromSymbolAsync, u64 to, const void *host, size_t bytes, size_t offset, u32 kind, stream s) {
  u64 address;
  result said = variable_of(&address, NULL, host);
  return said ? kept(said) : copy_on(s, to, 0, address + offset, 0, bytes, 1);
}
API(cudaMemcpyFromSymbol, u64 to, const void *host, size_t bytes, size_t offset, u32 kind) { return cudaMemcpyFromSymbolAsync(to, host, bytes, offset, kind, NULL); }
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

/* cudaDeviceProp: where CUDA 13 and CUDA 12 have the fields that repeat attributes of the device; 0: nowhere. */
API(cudaGetDeviceProperties_v2, char *out, int device) {
  enum { WHOLE = VERSION >= 13 ? 1008 : 1032, NAME = 256, TOTAL = 288, SIZE = 8 };
  static const struct { short at_13, at_12, width, which; } fields[] = {
    {296, 296, 8, 8}, {304, 304, 4, 12}, {308, 308, 4, 10}, {312, 312, 8, 11}, {320, 320, 4, 1}, {324, 324, 4, 2}, {328, 328, 4, 3},
    {332, 332, 4, 4}, {336, 336, 4, 5}, {340, 340, 4, 6}, {344, 344, 4, 7}, {0, 348, 4, 13}, {352, 352, 8, 9}, {360, 360, 4, 75},
    {364, 364, 4, 76}, {368, 368, 8, 14}, {376, 376, 8, 51}, {384, 388, 4, 16}, {392, 400, 4, 19}, {560, 576, 4, 31}, {584, 600, 4, 40},
    {588, 604, 4, 41}, {592, 612, 4, 37}, {596, 616, 4, 38}, {600, 620, 4, 108}, {604, 624, 4, 39}, {608, 628, 4, 78}, {612, 632, 4, 79},
    {616, 636, 4, 80}, {624, 640, 8, 81}, {632, 648, 4, 82}, {636, 652, 4, 83}, {656, 676, 4, 89}, {668, 688, 4, 95}, {672, 696, 8, 97},
    {688, 712, 4, 106}, {696, 720, 8, 111}, {720, 744, 4, 115}, {748, 772, 4, 120}, {752, 776, 4, 129}, {0, 384, 4, 15}, {0, 608, 4, 36},
  };
  memset(out, 0, WHOLE);
  cuDeviceGetName(out, NAME, 0), cuDeviceGetUuid(out + NAME, 0);
  *(u64 *)(out + TOTAL) = 64ull << 30;
  for (u32 i = 0; i < sizeof fields / sizeof *fields; i++) {
    int value = 0;
    short at = VERSION >= 13 ? fields[i].at_13 : fields[i].at_12;
    result said = at ? cuDeviceGetAttribute(&value, (u32)fields[i].which, 0) : OK;
    if (said) return kept(said);
    if (at && fields[i].width == SIZE) *(u64 *)(out + at) = (u64)value;
    else if (at) *(int *)(out + at) = value;
  }
  return OK;
}
#if VERSION >= 13
ALSO(cudaGetDeviceProperties_v2, cudaGetDeviceProperties, char *, int);
#else
result cudaGetDeviceProperties(void) { return convc_refuse("cudaGetDeviceProperties of CUDA 11"), OK; }
#endif

API(cudaStreamCreate, stream *out) { return kept(cuStreamCreate(out, 0)); }
API(cudaStreamCreateWithFlags, stream *out, u32 flags) { return kept(cuStreamCreate(out, flags)); }
API(cudaStreamCreateWithPriority, stream *out, u32 flags, int priority) { return kept(cuStreamCreate(out, flags)); }
API(cudaStreamGetPriority, stream s, int *priority) { return *priority = 0, OK; }
API(cudaStreamGetFlags, stream s, u32 *flags) { return *flags = 0, OK; }
API(cudaStreamSynchronize, stream s) { return kept(cuStreamSynchronize(s)); }
API(cudaStreamQuery, stream s) { return kept(cuStreamSynchronize(s)); }
API(cudaStreamWaitEvent, stream s, void *event, u32 flags) { return kept(cuStreamWaitEvent(s, event, flags)); }
DONE(cudaStreamDestroy) DONE(cudaStreamSetAttribute) DONE(cudaThreadExchangeStreamCaptureMode)
API(cudaLaunchHostFunc, stream s, void (*call)(void *), void *data) { return kept(convc_give(s, (struct work){HOST_NODE, .host = {call, data}})); }
API(cudaStreamAddCallback, stream s, void *call, void *data, u32 flags) { return kept(cuStreamAddCallback(s, call, data, flags)); }
API(cudaEventCreate, void **out) { return kept(cuEventCreate(out, 0)); }
API(cudaEventCreateWithFlags, void **out, u32 flags) { return kept(cuEventCreate(out, flags)); }
API(cudaEventRecord, void *event, stream s) { return kept(cuEventRecordWithFlags(event, s, 0)); }
API(cudaEventRecordWithFlags, void *event, stream s, u32 flags) { return kept(cuEventRecordWithFlags(event, s, flags)); }
API(cudaEventSynchronize, void *event) { return kept(cuEventSynchronize(event)); }
API(cudaEventQuery, void *event) { return kept(cuEventSynchronize(event)); }
API(cudaEventDestroy, void *event) { return kept(cuEventDestroy(event)); }
API(cudaEventElapsedTime, float *ms, void *from, void *to) { return kept(cuEventElapsedTime(ms, from, to)); }
V2(cudaEventElapsedTime, float *, void *, void *);

/* ---- graphs (graphs.c) ------------------------------------------------------------------------------------------------ */

#define BEFORE void **out, void *graph, void *before, size_t count
API(cudaStreamBeginCapture, stream s, u32 mode) { return kept(cuStreamBeginCapture(s, mode)); }
API(cudaStreamEndCapture, stream s, void **graph) { return kept(cuStreamEndCapture(s, graph)); }
API(cudaStreamIsCapturing, stream s, u32 *status) { return kept(cuStreamGetCaptureInfo(s, status, NULL)); }
API(cudaStreamGetCaptureInfo, stream s, u32 *status, u64 *id) { return kept(cuStreamGetCaptureInfo(s, status, id)); }
V2(cudaStreamGetCaptureInfo, stream, u32 *, u64 *);
ALSO(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_v3, stream, u32 *, u64 *);
API(cudaGraphCreate, void **graph, u32 flags) { return kept(cuGraphCreate(graph, flags)); }
API(cudaGraphDestroy, void *graph) { return kept(cuGraphDestroy(graph)); }
API(cudaGraphExecDestroy, void *exec) { return kept(cuGraphDestroy(exec)); }
API(cudaGraphInstantiate, void **exec, void *graph) { return kept(cuGraphInstantiate(exec, graph)); }
API(cudaGraphInstantiateWithFlags, void **exec, void *graph) { return kept(cuGraphInstantiate(exec, graph)); }
API(cudaGraphLaunch, void *exec, stream s) { return kept(cuGraphLaunch(exec, s)); }
API(cudaGraphGetNodes, void *graph, void **nodes, size_t *count) { return kept(cuGraphGetNodes(graph, nodes, count)); }
API(cudaGraphNodeGetType, void *node, u32 *kind) { return kept(cuGraphNodeGetType(node, kind)); }
API(cudaGraphExecUpdate, void *exec, void *graph, void *info) { return kept(cuGraphExecUpdate_v2(exec, graph, info)); }
DONE(cudaGraphUpload)
API(cudaGraphAddDependencies_v2, void *graph, void *from, void *to, const void *edges, size_t count) { return kept(cuGraphAddDependencies(graph, from, to, count)); }
#if VERSION >= 13
ALSO(cudaGraphAddDependencies_v2, cudaGraphAddDependencies, void *, void *, void *, const void *, size_t);
#else
API(cudaGraphAddDependencies, void *graph, void *from, void *to, size_t count) { return kept(cuGraphAddDependencies(graph, from, to, count)); }
#endif
API(cudaGraphAddKernelNode, BEFORE, const struct kernel_node *params) {
  struct kernel_node node = *params;
  result said = kernel_of(&node.function, params->function);
  return kept(said ? said : cuGraphAddKernelNode_v2(out, graph, before, count, &node));
}
API(cudaGraphExecKernelNodeSetParams, void *exec, void *node, const struct kernel_node *params) {
  struct kernel_node found = *params;
  result said = kernel_of(&found.function, params->function);
  return kept(said ? said : cuGraphExecKernelNodeSetParams_v2(exec, node, &found));
}
API(cudaGraphKernelNodeSetParams, void *node, const struct kernel_node *params) { return cudaGraphExecKernelNodeSetParams(NULL, node, params); }
#define ADD(...) kept(convc_add((struct node **)out, graph, before, count, (struct work){__VA_ARGS__}))
API(cudaGraphAddMemcpyNode, BEFORE, const struct cuboid *c) { return kept(convc_add((struct node **)out, graph, before, count, cuboid_work(c))); }
API(cudaGraphAddMemcpyNode1D, BEFORE, u64 to, u64 from, size_t bytes, u32 kind) { return ADD(COPY_NODE, .box = {to, 0, 0, from, 0, 0, bytes, 1, 1}); }
API(cudaGraphAddMemsetNode, BEFORE, const struct fill *fill) { return ADD(FILL_NODE, .fill = *fill); }
API(cudaGraphAddHostNode, BEFORE, const struct host_call *host) { return ADD(HOST_NODE, .host = *host); }
API(cudaGraphAddEmptyNode, BEFORE) { return ADD(EMPTY_NODE); }
API(cudaGraphAddChildGraphNode, BEFORE, void *child) { return kept(cuGraphAddChildGraphNode(out, graph, before, count, child)); }
API(cudaGraphExecMemcpyNodeSetParams, void *exec, void *node, const struct cuboid *c) { return kept(convc_change(exec, node, cuboid_work(c))); }
API(cudaGraphExecMemcpyNodeSetParams1D, void *exec, void *node, u64 to, u64 from, size_t bytes, u32 kind) {
  return kept(convc_change(exec, node, (struct work){COPY_NODE, .box = {to, 0, 0, from, 0, 0, bytes, 1, 1}}));
}
API(cudaGraphExecMemsetNodeSetParams, void *exec, void *node, const struct fill *fill) { return kept(convc_change(exec, node, (struct work){FILL_NODE, .fill = *fill})); }

/* ---- errors, and the driver's functions ------------------------------------------------------------------------------- */

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
