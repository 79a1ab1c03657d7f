/* The CUDA driver's stand-in of `convc record`: what a host program calls, passed on to the simulator over a socket.

   Device memory is one shared file that both sides map, so copies and memsets happen here. Everything that has to be
   known about kernels, and their launches, is asked of convc. Addresses are those of the simulator: allocation n lies at
   n << 40. Memory that the host may touch too is mapped at its own address; device memory is mapped anywhere.
   Streams and events are in program order: a launch has ended when its call returns.

   Types are those of the driver API's documentation, written out: no header of NVIDIA's is needed to build this. */
#include "driver.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HELLO, DEVICE, ALLOC, FREE, LOAD, KERNEL, GLOBAL, NAMES, GET, SET, LAUNCH, OCCUPANCY, ENCODE, ERROR, MISSING };
enum { DEVICE_MEMORY, PINNED, MANAGED };
enum { NUMBERS = 0x4000, SHIFT = 40, DRIVER_VERSION = 13990 };

/* ---- the line to convc ----------------------------------------------------------------------------------------- */

static int line = -1, memory = -1;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static result failed; /* what a launch came to, which all that waits for it is told */

static void transfer(int writes, void *data, u64 bytes) {
  for (char *at = data; bytes;) {
    ssize_t done = writes ? send(line, at, bytes, MSG_NOSIGNAL) : recv(line, at, bytes, 0);
    if (done <= 0) _exit(2); /* convc has said why it went away */
    at += done, bytes -= (u64)done;
  }
}

/* One question: numbers and bytes there, a result and at most 256 numbers and `room` bytes back. */
static result ask(u32 what, const u64 *numbers, u32 count, const void *bytes, u64 size, u64 *back, void *answer, u64 room) {
  struct { u32 what, count; u64 size; } head = {what, count, size};
  u64 all[256];
  pthread_mutex_lock(&one_at_a_time);
  transfer(1, &head, sizeof head);
  transfer(1, (void *)numbers, 8ull * count);
  transfer(1, (void *)bytes, size);
  transfer(0, &head, sizeof head);
  if (head.count > 256 || head.size > room) _exit(2);
  transfer(0, all, 8ull * head.count);
  transfer(0, answer, head.size);
  pthread_mutex_unlock(&one_at_a_time);
  if (back) memcpy(back, all, 8ull * head.count);
  return (result)head.what;
}

#define ASK(what, back, ...) ask(what, (u64[]){__VA_ARGS__}, sizeof((u64[]){__VA_ARGS__}) / 8, NULL, 0, back, NULL, 0)

void convc_refuse(const char *name) {
  ask(MISSING, NULL, 0, name, strlen(name), NULL, NULL, 0);
  _exit(2);
}

__attribute__((constructor)) static void connect_to_convc(void) {
  const char *path = getenv("CONVC_RECORD");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char shared[256] = "";
  if (!path || strlen(path) >= sizeof address.sun_path) {
    fprintf(stderr, "this libcuda.so.1 is the stand-in of `convc record`: run the program with it\n");
    return;
  }
  strcpy(address.sun_path, path);
  line = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(line, (struct sockaddr *)&address, sizeof address)) {
    fprintf(stderr, "`convc record` does not answer at %s\n", path);
    _exit(2);
  }
  ask(HELLO, NULL, 0, NULL, 0, NULL, shared, sizeof shared - 1);
  memory = open(shared, O_RDWR | O_CLOEXEC);
  if (memory < 0) {
    fprintf(stderr, "the memory that `convc record` shares cannot be opened: %s\n", shared);
    _exit(2);
  }
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static struct { char *at; u64 bytes; int kind; } held[NUMBERS];

/* Map an allocation where it is not yet; `offset`: its place in the shared file. */
static result map(u64 number, u64 offset, u64 bytes, int kind) {
  void *wanted = kind == DEVICE_MEMORY ? NULL : (void *)(number << SHIFT);
  int fixed = wanted ? MAP_FIXED_NOREPLACE : 0;
  if (held[number].at) return OK;
  char *at = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, memory, (off_t)offset);
  if (at == MAP_FAILED || (wanted && at != wanted)) return NO_MEMORY;
  held[number].at = at, held[number].bytes = bytes, held[number].kind = kind;
  return OK;
}
static result allocate(u64 *address, u64 bytes, int kind) {
  u64 got[2]; /* its number, and where it lies in the shared file */
  result said = ASK(ALLOC, got, bytes, (u64)kind);
  if (!said) said = map(got[0], got[1], bytes, kind);
  if (!said) *address = got[0] << SHIFT;
  return said;
}

static result release(u64 address) {
  u64 number = address >> SHIFT;
  if (!address) return OK;
  if (number >= NUMBERS || !held[number].at || address != number << SHIFT) return INVALID_VALUE;
  munmap(held[number].at, held[number].bytes);
  held[number].at = NULL;
  return ASK(FREE, NULL, number);
}

/* Whether an address is one of the simulator's. */
static int known(u64 address) { return address >> SHIFT < NUMBERS && held[address >> SHIFT].at; }

/* Where the bytes of an address lie in this process; NULL where an allocation ends before. */
static char *place(u64 address, u64 bytes) {
  u64 number = address >> SHIFT, offset = address & ((1ull << SHIFT) - 1);
  if (!known(address)) return number < 128 ? (char *)address : NULL;
  return offset + bytes <= held[number].bytes ? held[number].at + offset : NULL;
}

static result copy(u64 to, u64 from, u64 bytes) {
  char *target = place(to, bytes), *source = place(from, bytes);
  if (!bytes || failed) return failed;
  if (!target || !source) return INVALID_VALUE;
  memmove(target, source, bytes);
  return OK;
}

static result copy_box(const struct box *b) {
  result said = OK;
  for (u64 z = 0; z < b->depth; z++)
    for (u64 y = 0; y < b->height && !said; y++)
      said = copy(b->to + z * b->to_slice + y * b->to_pitch, b->from + z * b->from_slice + y * b->from_pitch, b->width);
  return said;
}
static result fill(const struct fill *f) {
  u64 bytes = f->width * f->unit;
  if (f->unit != 1 && f->unit != 2 && f->unit != 4) return INVALID_VALUE;
  for (u64 row = 0; row < f->height && !failed; row++) {
    char *target = place(f->to + row * f->pitch, bytes);
    if (bytes && !target) return INVALID_VALUE;
    if (f->unit == 1) memset(target, (int)f->value, bytes);
    else for (u64 i = 0; i < bytes; i += f->unit) memcpy(target + i, &f->value, f->unit);
  }
  return failed;
}
static result do_launch(const struct launch *launch) {
  result said = ask(LAUNCH, launch->numbers, launch->count, launch->params, launch->size, NULL, NULL, 0);
  if (said == LAUNCH_FAILED) failed = said;
  return said;
}
result convc_do(const struct work *work) {
  switch (work->kind) {
    case KERNEL_NODE: return do_launch(work->launch);
    case COPY_NODE: return copy_box(&work->box);
    case FILL_NODE: return fill(&work->fill);
    case HOST_NODE: return work->host.call(work->host.data), OK;
    case GRAPH_NODE: return work->child ? convc_run(work->child) : NO_MEMORY;
    default: return OK;
  }
}
static result copy_on(void *stream, u64 to, u64 from, u64 bytes) {
  return convc_give(stream, (struct work){COPY_NODE, .box = {to, 0, 0, from, 0, 0, bytes, 1, 1}});
}
static result fill_on(void *stream, u64 to, u64 pitch, u32 value, u32 unit, u64 width, u64 height) {
  return convc_give(stream, (struct work){FILL_NODE, .fill = {to, pitch, value, unit, width, height}});
}
static result allocate_on(void *stream, u64 *address, u64 bytes) {
  if (convc_captured(stream)) convc_refuse("cuMemAllocAsync on a stream that is captured");
  return allocate(address, bytes, DEVICE_MEMORY);
}
static result release_on(void *stream, u64 address) {
  if (convc_captured(stream)) convc_refuse("cuMemFreeAsync on a stream that is captured");
  return release(address);
}

#define WAITS(name) result name(void) { result said = convc_waits(NULL); return said ? said : failed; } /* all is over, well or not */

API(cuMemAlloc, u64 *address, size_t bytes) { return allocate(address, bytes, DEVICE_MEMORY); }
API(cuMemAllocAsync, u64 *address, size_t bytes, void *stream) { return allocate_on(stream, address, bytes); }
API(cuMemAllocFromPoolAsync, u64 *address, size_t bytes, void *pool, void *stream) { return allocate_on(stream, address, bytes); }
API(cuMemAllocManaged, u64 *address, size_t bytes, u32 flags) { return allocate(address, bytes, MANAGED); }
API(cuMemHostAlloc, void **address, size_t bytes, u32 flags) { return allocate((u64 *)address, bytes, PINNED); }
API(cuMemAllocHost, void **address, size_t bytes) { return allocate((u64 *)address, bytes, PINNED); }
API(cuMemAllocPitch, u64 *address, size_t *pitch, size_t width, size_t height, u32 element) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(address, *pitch * height, DEVICE_MEMORY);
}
API(cuMemFree, u64 address) { return release(address); }
API(cuMemFreeAsync, u64 address, void *stream) { return release_on(stream, address); }
API(cuMemFreeHost, void *address) { return release((u64)address); }
API(cuMemHostGetDevicePointer, u64 *address, void *host, u32 flags) {
  *address = (u64)host;
  return known((u64)host) ? OK : INVALID_VALUE; /* registered memory is the host's alone here */
}
API(cuMemHostGetFlags, u32 *flags, void *host) { return *flags = 0, OK; }
DONE(cuMemHostRegister) DONE(cuMemHostUnregister) DONE(cuMemPrefetchAsync) DONE(cuMemAdvise)
API(cuMemGetInfo, size_t *available, size_t *total) { return ASK(DEVICE, (u64[2]){0}, 2) ? INVALID_VALUE : (*available = *total = 64ull << 30, OK); }
API(cuMemGetAddressRange, u64 *base, size_t *bytes, u64 address) {
  if (!known(address)) return INVALID_VALUE;
  if (base) *base = address >> SHIFT << SHIFT;
  if (bytes) *bytes = held[address >> SHIFT].bytes;
  return OK;
}
API(cuPointerGetAttribute, void *data, u32 which, u64 address) {
  int kind = known(address) ? held[address >> SHIFT].kind : -1;
  switch (which) {
    case 1: return kind < 0 ? INVALID_VALUE : (*(void **)data = (void *)held, OK);
    case 2: return kind < 0 ? INVALID_VALUE : (*(u32 *)data = kind == PINNED ? 1 : 2, OK);
    case 3: return kind < 0 ? INVALID_VALUE : (*(u64 *)data = address, OK);
    case 4: return kind < 1 ? INVALID_VALUE : (*(u64 *)data = address, OK);
    case 8: return *(u32 *)data = kind == MANAGED, OK;
    case 7: return *(u64 *)data = address >> SHIFT, OK;
    case 9: return *(int *)data = 0, OK;
    case 11: return *(u64 *)data = address >> SHIFT << SHIFT, OK;
    case 12: return *(u64 *)data = kind < 0 ? 0 : held[address >> SHIFT].bytes, OK;
    case 13: return *(u32 *)data = kind >= 0, OK;
    default: return *(u32 *)data = 0, OK;
  }
}
API(cuPointerGetAttributes, u32 count, u32 *which, void **data, u64 address) {
  for (u32 i = 0; i < count; i++)
    if (cuPointerGetAttribute(data[i], which[i], address)) memset(data[i], 0, which[i] == 2 || which[i] == 9 ? 4 : 8);
  return OK;
}

API(cuMemcpy, u64 to, u64 from, size_t bytes) { return copy(to, from, bytes); }
API(cuMemcpyAsync, u64 to, u64 from, size_t bytes, void *stream) { return copy_on(stream, to, from, bytes); }
API(cuMemcpyHtoD, u64 to, const void *from, size_t bytes) { return copy_on(NULL, to, (u64)from, bytes); }
API(cuMemcpyHtoDAsync, u64 to, const void *from, size_t bytes, void *stream) { return copy_on(stream, to, (u64)from, bytes); }
API(cuMemcpyDtoH, void *to, u64 from, size_t bytes) { return copy_on(NULL, (u64)to, from, bytes); }
API(cuMemcpyDtoHAsync, void *to, u64 from, size_t bytes, void *stream) { return copy_on(stream, (u64)to, from, bytes); }
API(cuMemcpyDtoD, u64 to, u64 from, size_t bytes) { return copy_on(NULL, to, from, bytes); }
API(cuMemcpyDtoDAsync, u64 to, u64 from, size_t bytes, void *stream) { return copy_on(stream, to, from, bytes); }
API(cuMemcpyPeer, u64 to, void *a, u64 from, void *b, size_t bytes) { return copy_on(NULL, to, from, bytes); }
API(cuMemcpyPeerAsync, u64 to, void *a, u64 from, void *b, size_t bytes, void *stream) { return copy_on(stream, to, from, bytes); }

/* Of a rectangle or a box: what it is part of, as CUDA_MEMCPY2D and CUDA_MEMCPY3D have it. */
struct side { u32 kind; const void *host; u64 device; void *array; };
static u64 start_of(const struct side *side) {
  if (side->array) convc_refuse("a copy from or to a CUarray");
  return side->kind == 1 || (side->kind == 4 && !side->device) ? (u64)side->host : side->device;
}
struct rectangle {
  size_t from_x, from_y; struct side from; size_t from_pitch;
  size_t to_x, to_y; struct side to; size_t to_pitch;
  size_t width, height;
};
API(cuMemcpy2DAsync, const struct rectangle *r, void *stream) {
  u64 to = start_of(&r->to) + r->to_y * r->to_pitch + r->to_x, from = start_of(&r->from) + r->from_y * r->from_pitch + r->from_x;
  return convc_give(stream, (struct work){COPY_NODE, .box = {to, r->to_pitch, 0, from, r->from_pitch, 0, r->width, r->height, 1}});
}
API(cuMemcpy2D, const struct rectangle *r) { return cuMemcpy2DAsync(r, NULL); }
API(cuMemcpy2DUnaligned, const struct rectangle *r) { return cuMemcpy2DAsync(r, NULL); }

struct corner { size_t x, y, z, level; struct side side; void *reserved; size_t pitch, height; };
struct cuboid { struct corner from, to; size_t width, height, depth; };
static u64 corner_of(const struct corner *c) { return start_of(&c->side) + (c->z * c->height + c->y) * c->pitch + c->x; }
static struct work cuboid_work(const struct cuboid *c) {
  const struct corner *to = &c->to, *from = &c->from;
  return (struct work){COPY_NODE, .box = {corner_of(to), to->pitch, to->pitch * to->height, corner_of(from), from->pitch,
                                          from->pitch * from->height, c->width, c->height, c->depth}};
}
API(cuMemcpy3DAsync, const struct cuboid *c, void *stream) { return convc_give(stream, cuboid_work(c)); }
API(cuMemcpy3D, const struct cuboid *c) { return cuMemcpy3DAsync(c, NULL); }
API(cuGraphAddMemcpyNode, struct node **out, struct graph *graph, struct node *const *before, size_t count, const struct cuboid *c, void *context) {
  return convc_add(out, graph, before, count, cuboid_work(c));
}
API(cuGraphExecMemcpyNodeSetParams, struct graph *exec, struct node *node, const struct cuboid *c, void *context) { return convc_change(exec, node, cuboid_work(c)); }

API(cuMemsetD8, u64 to, unsigned char value, size_t count) { return fill_on(NULL, to, 0, value, 1, count, 1); }
API(cuMemsetD16, u64 to, unsigned short value, size_t count) { return fill_on(NULL, to, 0, value, 2, count, 1); }
API(cuMemsetD32, u64 to, u32 value, size_t count) { return fill_on(NULL, to, 0, value, 4, count, 1); }
API(cuMemsetD8Async, u64 to, unsigned char value, size_t count, void *stream) { return fill_on(stream, to, 0, value, 1, count, 1); }
API(cuMemsetD16Async, u64 to, unsigned short value, size_t count, void *stream) { return fill_on(stream, to, 0, value, 2, count, 1); }
API(cuMemsetD32Async, u64 to, u32 value, size_t count, void *stream) { return fill_on(stream, to, 0, value, 4, count, 1); }
API(cuMemsetD2D8, u64 to, size_t pitch, unsigned char value, size_t width, size_t height) { return fill_on(NULL, to, pitch, value, 1, width, height); }
API(cuMemsetD2D8Async, u64 to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream) { return fill_on(stream, to, pitch, value, 1, width, height); }
API(cuMemsetD2D32, u64 to, size_t pitch, u32 value, size_t width, size_t height) { return fill_on(NULL, to, pitch, value, 4, width, height); }

/* ---- the device, its context, pools, streams and events ---------------------------------------------------------- */

static void *current = held; /* the one context; its address says no more */
#define GIVES(name, type, value) result name(type *out) { return *out = (value), OK; }

API(cuInit, u32 flags) { return line < 0 ? 100 : OK; }
GIVES(cuDriverGetVersion, int, DRIVER_VERSION)
GIVES(cuDeviceGetCount, int, 1)
API(cuDeviceGet, int *device, int ordinal) { return *device = 0, ordinal ? 101 : OK; }
API(cuDeviceGetName, char *name, int room, int device) { return snprintf(name, (size_t)room, "the simulator of convc"), OK; }
API(cuDeviceGetUuid, char *bytes, int device) { return memcpy(bytes, "convc simulator", 16), OK; }
API(cuDeviceTotalMem, size_t *bytes, int device) { return *bytes = 64ull << 30, OK; }
API(cuDeviceGetAttribute, int *value, u32 which, int device) {
  u64 got[1];
  result said = ASK(DEVICE, got, which);
  return said ? said : (*value = (int)got[0], OK);
}
API(cuDeviceComputeCapability, int *major, int *minor, int device) { return cuDeviceGetAttribute(major, 75, 0) | cuDeviceGetAttribute(minor, 76, 0); }
API(cuDeviceGetPCIBusId, char *name, int room, int device) { return snprintf(name, (size_t)room, "0000:00:00.0"), OK; }
API(cuDeviceCanAccessPeer, int *can, int a, int b) { return *can = 0, OK; }
API(cuDeviceGetP2PAttribute, int *value, u32 which, int a, int b) { return *value = 0, OK; }
API(cuDevicePrimaryCtxRetain, void **context, int device) { return *context = current, OK; }
API(cuDevicePrimaryCtxGetState, int device, u32 *flags, int *active) { return *flags = 0, *active = 1, OK; }
DONE(cuDevicePrimaryCtxRelease) DONE(cuDevicePrimaryCtxReset) DONE(cuDevicePrimaryCtxSetFlags)
API(cuCtxCreate, void **context) { return *context = current, OK; }
__attribute__((alias("cuCtxCreate"))) result cuCtxCreate_v3(void **), cuCtxCreate_v4(void **);
GIVES(cuCtxGetCurrent, void *, current) GIVES(cuCtxPopCurrent, void *, current)
GIVES(cuCtxGetDevice, int, 0) GIVES(cuCtxGetFlags, u32, 0)
DONE(cuCtxDestroy) DONE(cuCtxSetCurrent) DONE(cuCtxPushCurrent) WAITS(cuCtxSynchronize) DONE(cuCtxSetLimit) DONE(cuCtxSetFlags)
DONE(cuCtxSetCacheConfig) DONE(cuCtxSetSharedMemConfig) DONE(cuCtxResetPersistingL2Cache) DONE(cuCtxEnablePeerAccess)
API(cuCtxGetLimit, size_t *value, u32 which) { return *value = 1 << 20, OK; }
API(cuCtxGetApiVersion, void *context, u32 *version) { return *version = DRIVER_VERSION, OK; }
API(cuCtxGetStreamPriorityRange, int *least, int *greatest) { return least ? *least = 0 : 0, greatest ? *greatest = -5 : 0, OK; }
GIVES(cuCtxGetCacheConfig, int, 0) GIVES(cuCtxGetSharedMemConfig, int, 0)
DONE(cuProfilerStart) DONE(cuProfilerStop)

API(cuDeviceGetDefaultMemPool, void **pool, int device) { return *pool = held, OK; }
API(cuDeviceGetMemPool, void **pool, int device) { return *pool = held, OK; }
API(cuMemPoolCreate, void **pool, const void *properties) { return *pool = held, OK; }
API(cuMemPoolGetAttribute, void *pool, u32 which, u64 *value) { return *value = 0, OK; }
DONE(cuDeviceSetMemPool) DONE(cuMemPoolDestroy) DONE(cuMemPoolSetAttribute) DONE(cuMemPoolTrimTo) DONE(cuMemPoolSetAccess)

API(cuStreamCreate, struct stream **stream, u32 flags) {
  if (!(*stream = calloc(1, sizeof **stream))) return NO_MEMORY;
  return (*stream)->flags = flags, OK;
}
API(cuStreamCreateWithPriority, struct stream **stream, u32 flags, int priority) { return cuStreamCreate(stream, flags); }
API(cuStreamGetPriority, void *stream, int *priority) { return *priority = 0, OK; }
API(cuStreamGetFlags, void *stream, u32 *flags) { return *flags = 0, OK; }
API(cuStreamGetCtx, void *stream, void **context) { return *context = current, OK; }
API(cuStreamGetDevice, void *stream, int *device) { return *device = 0, OK; }
API(cuStreamGetId, void *stream, u64 *id) { return *id = (u64)stream, OK; }
API(cuStreamSynchronize, void *stream) {
  result said = convc_waits(stream);
  return said ? said : failed;
}
API(cuStreamQuery, void *stream) { return cuStreamSynchronize(stream); }
DONE(cuStreamDestroy) DONE(cuStreamAttachMemAsync)
DONE(cuStreamSetAttribute) DONE(cuThreadExchangeStreamCaptureMode)
API(cuLaunchHostFunc, void *stream, void (*call)(void *), void *data) { return convc_give(stream, (struct work){HOST_NODE, .host = {call, data}}); }
API(cuStreamAddCallback, void *stream, void (*call)(void *, result, void *), void *data, u32 flags) {
  if (convc_captured(stream)) convc_refuse("cuStreamAddCallback on a stream that is captured");
  return call(stream, OK, data), OK;
}
API(cuEventCreate, struct event **event, u32 flags) { return (*event = calloc(1, sizeof **event)) ? OK : NO_MEMORY; }
API(cuEventSynchronize, struct event *event) {
  result said = convc_asks(event);
  return said ? said : failed;
}
API(cuEventQuery, struct event *event) { return cuEventSynchronize(event); }
API(cuEventDestroy, struct event *event) { return free(event), OK; }
API(cuEventElapsedTime, float *ms, const struct event *from, const struct event *to) {
  *ms = (float)((double)(to->at.tv_sec - from->at.tv_sec) * 1e3 + (double)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6);
  return OK;
}

/* ---- modules and kernels: the handles are convc's numbers --------------------------------------------------------- */

static u64 bytes_of(const void *image) {
  const struct { u32 magic; unsigned short version, head; u64 bytes; } *fat = image;
  if (fat->magic == 0xBA55ED50) return fat->head + fat->bytes;
  if (!memcmp(image, "\177ELF", 4)) return 64; /* machine code is refused by its first bytes */
  return strlen(image);
}
/* An image, or what nvcc wraps it in: of a program of several translation units (-rdc=true) with an image of each. */
static result load(u64 *module, const void *image) {
  const struct { u32 magic, version; const void *data, *const *units; } *wrapper = image;
  enum { WRAPPED = 0x466243b1, OF_UNITS = 2 };
  const void *const *units = wrapper->magic == WRAPPED && wrapper->version == OF_UNITS ? wrapper->units : NULL;
  if (wrapper->magic == WRAPPED) image = wrapper->data;
  u64 bytes = bytes_of(image), at = bytes;
  for (int i = 0; units && units[i]; i++) bytes += bytes_of(units[i]);
  if (bytes == at) return ask(LOAD, NULL, 0, image, bytes, module, NULL, 0);
  char *all = malloc(bytes);
  if (!all) return NO_MEMORY;
  memcpy(all, image, at);
  for (; *units; at += bytes_of(*units++)) memcpy(all + at, *units, bytes_of(*units));
  result said = ask(LOAD, NULL, 0, all, bytes, module, NULL, 0);
  return free(all), said;
}
static result load_file(u64 *module, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return 301;
  fseek(file, 0, SEEK_END);
  long bytes = ftell(file);
  char *image = calloc(1, (size_t)bytes + 64);
  rewind(file);
  result said = image && fread(image, 1, (size_t)bytes, file) == (size_t)bytes ? load(module, image) : NO_MEMORY;
  free(image), fclose(file);
  return said;
}
API(cuModuleLoadData, u64 *module, const void *image) { return load(module, image); }
API(cuModuleLoadDataEx, u64 *module, const void *image, u32 count, void *options, void **values) { return load(module, image); }
API(cuModuleLoadFatBinary, u64 *module, const void *image) { return load(module, image); }
API(cuLibraryLoadData, u64 *module, const void *image) { return load(module, image); }
API(cuModuleLoad, u64 *module, const char *path) { return load_file(module, path); }
API(cuLibraryLoadFromFile, u64 *module, const char *path) { return load_file(module, path); }
DONE(cuModuleUnload) DONE(cuLibraryUnload)
GIVES(cuModuleGetLoadingMode, int, 2)
API(cuLibraryGetModule, u64 *module, u64 library) { return *module = library, OK; }

static result find(struct function **out, u64 module, const char *name) {
  u64 got[256];
  result said = ask(KERNEL, &module, 1, name, strlen(name), got, NULL, 0);
  if (said) return said;
  struct function *f = calloc(1, sizeof *f + strlen(name) + 1);
  if (!f) return NO_MEMORY;
  f->id = got[0], f->module = module, f->count = got[1];
  for (u64 i = 0; i < f->count; i++) f->at[i] = got[2 + 2 * i], f->size[i] = got[3 + 2 * i];
  strcpy(f->name, name);
  return *out = f, OK;
}
API(cuModuleGetFunction, struct function **out, u64 module, const char *name) { return find(out, module, name); }
API(cuLibraryGetKernel, struct function **out, u64 module, const char *name) { return find(out, module, name); }
API(cuKernelGetFunction, struct function **out, struct function *f) { return *out = f, OK; }
API(cuKernelGetLibrary, u64 *module, struct function *f) { return *module = f->module, OK; }
API(cuFuncGetModule, u64 *module, struct function *f) { return *module = f->module, OK; }
API(cuFuncGetName, const char **name, struct function *f) { return *name = f->name, OK; }
API(cuKernelGetName, const char **name, struct function *f) { return *name = f->name, OK; }
API(cuFuncGetParamInfo, struct function *f, size_t index, size_t *at, size_t *size) {
  if (index >= f->count) return INVALID_VALUE;
  *at = f->at[index];
  if (size) *size = f->size[index];
  return OK;
}
API(cuKernelGetParamInfo, struct function *f, size_t index, size_t *at, size_t *size) { return cuFuncGetParamInfo(f, index, at, size); }
API(cuFuncIsLoaded, int *state, struct function *f) { return *state = 1, OK; }
DONE(cuFuncLoad) DONE(cuFuncSetCacheConfig) DONE(cuFuncSetSharedMemConfig) DONE(cuKernelSetCacheConfig)
API(cuModuleGetFunctionCount, u32 *count, u64 module) {
  u64 got[1];
  result said = ASK(NAMES, got, module);
  return *count = (u32)got[0], said;
}
API(cuLibraryGetKernelCount, u32 *count, u64 module) { return cuModuleGetFunctionCount(count, module); }
API(cuLibraryEnumerateKernels, struct function **out, u32 count, u64 module) {
  char names[1 << 16], *name = names;
  result said = ask(NAMES, &module, 1, NULL, 0, NULL, names, sizeof names);
  for (u32 i = 0; !said && i < count; i++, name += strlen(name) + 1) said = find(out + i, module, name);
  return said;
}
API(cuModuleGetGlobal, u64 *address, size_t *bytes, u64 module, const char *name) {
  u64 got[4]; /* number, place in the shared file, bytes, whether it is managed */
  result said = ask(GLOBAL, &module, 1, name, strlen(name), got, NULL, 0);
  if (!said) said = map(got[0], got[1], got[2], got[3] ? MANAGED : DEVICE_MEMORY);
  if (said) return said;
  if (address) *address = got[0] << SHIFT;
  if (bytes) *bytes = got[2];
  return OK;
}
API(cuLibraryGetGlobal, u64 *address, size_t *bytes, u64 module, const char *name) { return cuModuleGetGlobal(address, bytes, module, name); }
API(cuFuncGetAttribute, int *value, u32 which, struct function *f) {
  u64 got[1];
  result said = ASK(GET, got, f->id, which);
  return said ? said : (*value = (int)got[0], OK);
}
API(cuFuncSetAttribute, struct function *f, u32 which, int value) { return ASK(SET, NULL, f->id, which, (u64)(int64_t)value); }
API(cuKernelGetAttribute, int *value, u32 which, struct function *f, int device) { return cuFuncGetAttribute(value, which, f); }
API(cuKernelSetAttribute, u32 which, int value, struct function *f, int device) { return cuFuncSetAttribute(f, which, value); }

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* A launch as convc is asked for it; NULL where there is no memory, or its parameters are too many. */
struct launch *convc_pack(const struct config *c, struct function *f, void **params, void **extra) {
  enum { ATTRIBUTES = 32, WORDS = 8, MOST = 1 << 16 };
  u64 size = f->count ? f->at[f->count - 1] + f->size[f->count - 1] : 0;
  struct launch *launch = size > MOST ? NULL : calloc(1, sizeof *launch + size);
  if (!launch) return NULL;
  u64 words[WORDS] = {f->id, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared}, *at = launch->numbers;
  memcpy(at, words, sizeof words), at += WORDS;
  for (u32 i = 0; i < c->count && i < ATTRIBUTES; i++) {
    *at++ = c->attributes[i].id;
    for (int word = 0; word < 3; word++) *at++ = c->attributes[i].value.words[word];
  }
  launch->count = (u32)(at - launch->numbers), launch->size = size;
  if (params)
    for (u64 i = 0; i < f->count; i++) memcpy(launch->params + f->at[i], params[i], f->size[i]);
  else
    for (; extra && *extra; extra += 2)
      if (extra[0] == (void *)1) memcpy(launch->params, extra[1], size);
  return launch;
}
API(cuLaunchKernelEx, const struct config *c, struct function *f, void **params, void **extra) {
  struct launch *launch = convc_pack(c, f, params, extra);
  return launch ? convc_give(c->stream, (struct work){KERNEL_NODE, .launch = launch}) : INVALID_VALUE;
}
API(cuLaunchKernel, struct function *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, void *stream, void **params, void **extra) {
  struct config c = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
  return cuLaunchKernelEx(&c, f, params, extra);
}
API(cuLaunchCooperativeKernel, struct function *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, void *stream, void **params) {
  struct attribute together = {2, 0, {{1}}};
  struct config c = {{gx, gy, gz}, {bx, by, bz}, shared, stream, &together, 1};
  return cuLaunchKernelEx(&c, f, params, NULL);
}
API(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, struct function *f, int threads, size_t shared) {
  u64 got[1];
  result said = ASK(OCCUPANCY, got, f->id, (u64)threads, shared, 1);
  return said ? said : (*blocks = (int)got[0], OK);
}
API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks, struct function *f, int threads, size_t shared, u32 flags) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
static u64 ctas_of(const struct config *c) {
  for (u32 i = 0; i < c->count; i++)
    if (c->attributes[i].id == 4) return (u64)c->attributes[i].value.words[0] * c->attributes[i].value.words[1] * c->attributes[i].value.words[2];
  return 1;
}
API(cuOccupancyMaxActiveClusters, int *clusters, struct function *f, const struct config *c) {
  u64 got[2];
  result said = ASK(OCCUPANCY, got, f->id, (u64)c->block[0] * c->block[1] * c->block[2], c->shared, ctas_of(c));
  return said ? said : (*clusters = (int)got[1], OK);
}
API(cuOccupancyMaxPotentialClusterSize, int *ctas, struct function *f, const struct config *c) { return *ctas = 8, OK; }
API(cuOccupancyAvailableDynamicSMemPerBlock, size_t *bytes, struct function *f, int blocks, int threads) {
  u64 got[1];
  result said = ASK(GET, got, f->id, 100);
  return said ? said : (*bytes = got[0] / (u64)(blocks ? blocks : 1), OK);
}
API(cuOccupancyMaxPotentialBlockSize, int *grid, int *block, struct function *f, size_t (*shared)(int), size_t dynamic, int limit) {
  int blocks = 0, sms = 0;
  result said = cuFuncGetAttribute(block, 0, f) | cuDeviceGetAttribute(&sms, 16, 0);
  if (limit > 0 && *block > limit) *block = limit;
  said |= cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, *block, shared ? shared(*block) : dynamic);
  return said ? said : (*grid = blocks * sms, OK);
}

/* A tensor map: which encoder, and its arguments in the order of the driver API, arrays by their elements. */
static result encode(void *map, const u64 *head, u32 rank, const u64 *dims, const u64 *strides, const u32 *box, const u32 *steps, const int *lower, const int *upper, u32 corners, const u64 *tail) {
  u64 numbers[64], *at = numbers;
  for (int i = 0; i < 4; i++) *at++ = head[i];
  for (u32 i = 0; i < 9; i++) *at++ = tail[i];
  if (rank < 1 || rank > 5) return INVALID_VALUE;
  for (u32 i = 0; i < rank; i++) *at++ = dims[i];
  for (u32 i = 0; i + 1 < rank; i++) *at++ = strides[i];
  for (u32 i = 0; i < rank; i++) *at++ = steps[i];
  for (u32 i = 0; box && i < rank; i++) *at++ = box[i];
  for (u32 i = 0; i < corners; i++) *at++ = (u64)(int64_t)lower[i];
  for (u32 i = 0; i < corners; i++) *at++ = (u64)(int64_t)upper[i];
  return ask(ENCODE, numbers, (u32)(at - numbers), NULL, 0, NULL, map, 128);
}
API(cuTensorMapEncodeTiled, void *map, u32 type, u32 rank, u64 address, const u64 *dims, const u64 *strides, const u32 *box, const u32 *steps, u32 interleave, u32 swizzle, u32 l2, u32 fill) {
  return encode(map, (u64[]){0, type, rank, address}, rank, dims, strides, box, steps, NULL, NULL, 0, (u64[9]){interleave, swizzle, l2, fill});
}
API(cuTensorMapEncodeIm2col, void *map, u32 type, u32 rank, u64 address, const u64 *dims, const u64 *strides, const int *lower, const int *upper, u32 channels, u32 pixels, const u32 *steps, u32 interleave, u32 swizzle, u32 l2, u32 fill) {
  u32 corners = rank < 3 || rank > 5 ? 0 : rank - 2;
  return encode(map, (u64[]){1, type, rank, address}, rank, dims, strides, NULL, steps, lower, upper, corners, (u64[9]){interleave, swizzle, l2, fill, channels, pixels});
}
API(cuTensorMapEncodeIm2colWide, void *map, u32 type, u32 rank, u64 address, const u64 *dims, const u64 *strides, int lower, int upper, u32 channels, u32 pixels, const u32 *steps, u32 interleave, u32 mode, u32 swizzle, u32 l2, u32 fill) {
  return encode(map, (u64[]){mode ? 3 : 2, type, rank, address}, rank, dims, strides, NULL, steps, &lower, &upper, 1, (u64[9]){interleave, swizzle, l2, fill, channels, pixels});
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static result error_text(u64 error, u64 described, const char **out) {
  static char *texts[2][1024];
  char text[256] = {0};
  if (error >= 1024) return INVALID_VALUE;
  if (!texts[described][error]) {
    ask(ERROR, (u64[]){error, described}, 2, NULL, 0, NULL, text, sizeof text - 1);
    texts[described][error] = strdup(text);
  }
  return *out = texts[described][error], OK;
}
API(cuGetErrorName, int error, const char **out) { return error_text((u64)error, 0, out); }
API(cuGetErrorString, int error, const char **out) { return error_text((u64)error, 1, out); }

/* How NVIDIA's runtime asks whether the driver is NVIDIA's: it is not. Convc is told which file the runtime is in. */
API(cuGetExportTable, const void **table, const void *id) {
  Dl_info info = {0};
  char text[4096] = "cuGetExportTable";
  if (dladdr(__builtin_return_address(0), &info)) snprintf(text, sizeof text, "cuGetExportTable %s", info.dli_fname);
  return convc_refuse(text), NOT_FOUND;
}

V2(cuMemAlloc); V2(cuMemAllocPitch); V2(cuMemFree); V2(cuMemGetInfo); V2(cuMemGetAddressRange); V2(cuMemHostGetDevicePointer);
V2(cuMemAllocHost); V2(cuMemHostRegister); V2(cuMemcpyHtoD); V2(cuMemcpyHtoDAsync); V2(cuMemcpyDtoH); V2(cuMemcpyDtoHAsync); V2(cuMemcpyDtoD);
V2(cuMemcpyDtoDAsync); V2(cuMemcpy2D); V2(cuMemcpy2DAsync); V2(cuMemcpy2DUnaligned); V2(cuMemcpy3D); V2(cuMemcpy3DAsync); V2(cuMemsetD8); V2(cuMemsetD16);
V2(cuMemsetD32); V2(cuMemsetD2D8); V2(cuMemsetD2D32); V2(cuModuleGetGlobal); V2(cuStreamDestroy); V2(cuEventDestroy);
V2(cuCtxCreate); V2(cuCtxDestroy); V2(cuCtxPushCurrent); V2(cuCtxPopCurrent); V2(cuDeviceTotalMem); V2(cuDeviceGetUuid);
V2(cuDevicePrimaryCtxRelease); V2(cuDevicePrimaryCtxReset); V2(cuDevicePrimaryCtxSetFlags);
V2(cuMemPrefetchAsync); V2(cuMemAdvise); V2(cuEventElapsedTime);

/* What is not here: a stub for each name that is asked for, which refuses by that name when it is called. */
#define E1(macro, n) macro(n##0) macro(n##1) macro(n##2) macro(n##3) macro(n##4) macro(n##5) macro(n##6) macro(n##7)
#define E2(macro, n) E1(macro, n##0) E1(macro, n##1) E1(macro, n##2) E1(macro, n##3) E1(macro, n##4) E1(macro, n##5) E1(macro, n##6) E1(macro, n##7)
#define E3(macro, n) E2(macro, n##0) E2(macro, n##1) E2(macro, n##2) E2(macro, n##3) E2(macro, n##4) E2(macro, n##5) E2(macro, n##6) E2(macro, n##7)
enum { STUBS = 512 }; /* numbered in octal */
static char *wanted[STUBS];
#define STUB(n) static void stub_##n(void) { convc_refuse(wanted[n]); }
#define NAMED(n) stub_##n,
E3(STUB, 0)
static void (*const stubs[STUBS])(void) = {E3(NAMED, 0)};

API(cuGetProcAddress, const char *name, void **out, int version, u64 flags) {
  char whole[128];
  static void *here;
  Dl_info info;
  if (!here && dladdr((void *)convc_refuse, &info)) here = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  size_t length = strlen(name);
  if (length > 100 || strncmp(name, "cu", 2)) return INVALID_VALUE;
  strcpy(whole, name);
  if (length > 5 && (!strcmp(whole + length - 5, "_ptsz") || !strcmp(whole + length - 5, "_ptds"))) whole[length - 5] = 0;
  if (!strcmp(whole, "cuGetProcAddress") && version >= 12000) strcat(whole, "_v2");
  if ((*out = dlsym(here, whole))) return OK;
  for (int i = 0; i < STUBS; i++) {
    if (!wanted[i]) wanted[i] = strdup(whole);
    if (!strcmp(wanted[i], whole)) return *out = (void *)stubs[i], OK;
  }
  return NOT_FOUND;
}
API(cuGetProcAddress_v2, const char *name, void **out, int version, u64 flags, int *status) {
  result said = cuGetProcAddress(name, out, version, flags);
  if (status) *status = said ? 1 : 0;
  return said;
}
