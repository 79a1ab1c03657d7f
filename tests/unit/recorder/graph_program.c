/* Graphs by the runtime API, as nvcc's programs have them: captured from two streams, and made of nodes. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 256, BYTES = COUNT * sizeof(float) };
struct dim3 { unsigned x, y, z; };
static void *runtime, *s, *t, *event[2];
static float from[COUNT], to[COUNT], *x, *y;
static int calls;

#define CALL(name, ...) ((int (*)())dlsym(runtime, name))(__VA_ARGS__)
#define CHECK(name, ...) check(name, CALL(name, __VA_ARGS__))
static void check(const char *name, int result) {
  if (result) printf("%s: %d\n", name, result), exit(1);
}
static void add(void) {}
static void host(void *data) { ++*(int *)data; }
static int launch(void *stream) {
  void *params[] = {&x, &y};
  return ((int (*)(void *, struct dim3, struct dim3, void **, size_t, void *))dlsym(runtime, "cudaLaunchKernel"))(add, (struct dim3){2, 1, 1}, (struct dim3){128, 1, 1}, params, 0, stream);
}
static void begin(void) { CHECK("cudaStreamBeginCapture", s, 0); }
static int end(void **graph) { return CALL("cudaStreamEndCapture", s, graph); }
static void set(float value) {
  for (int i = 0; i < COUNT; i++) from[i] = value + i;
}
static int differ(float value, float step) {
  for (int i = 0; i < COUNT; i++)
    if (to[i] != value + step * i) return printf("wrong at %d: %g\n", i, to[i]), 1;
  return 0;
}

/* Onto the host's numbers, which are others each time, y is added, which a second stream has set. */
static int captured(void) {
  void *graph, *exec;
  size_t nodes = 0;
  int status[2];
  begin();
  CHECK("cudaMemcpyAsync", x, from, (size_t)BYTES, 1, s);
  CHECK("cudaEventRecord", event[0], s);
  CHECK("cudaStreamWaitEvent", t, event[0], 0);
  CHECK("cudaMemsetAsync", y, 0, (size_t)BYTES, t);
  check("launch", launch(t));
  check("launch", launch(t));
  CHECK("cudaEventRecord", event[1], t);
  CHECK("cudaLaunchHostFunc", s, host, &calls);
  CHECK("cudaStreamWaitEvent", s, event[1], 0);
  CHECK("cudaMemcpyAsync", to, y, (size_t)BYTES, 2, s);
  CHECK("cudaStreamIsCapturing", t, status);
  check("cudaStreamEndCapture", end(&graph));
  CHECK("cudaStreamIsCapturing", t, status + 1);
  CHECK("cudaGraphGetNodes", graph, (void *)0, &nodes);
  printf("%zu nodes, %d calls, first %g, captured %d then %d\n", nodes, calls, to[0], status[0], status[1]);
  CHECK("cudaGraphInstantiate", &exec, graph, (uint64_t)0);
  CHECK("cudaGraphDestroy", graph);
  for (int i = 1; i < 4; i++) {
    set(i);
    CHECK("cudaGraphLaunch", exec, s);
    if (differ(2 * i, 2)) return 3;
  }
  CHECK("cudaGraphExecDestroy", exec);
  return printf("%d calls\n", calls), 0;
}

struct node { void *function; unsigned grid[3], block[3], shared; void **params, **extra; };
struct fill { void *to; size_t pitch; unsigned value, unit; size_t width, height; };
struct cuboid { struct { void *array; size_t x, y, z; char *at; size_t pitch, width, height; } from, to; size_t extent[3]; int kind; };

/* The kernel is added first, and runs behind the memset and a copy of two rows of each of four boxes. */
static int explicit(void) {
  void *graph, *exec, *kernel, *zero, *copy, *out, *child, *params[] = {&x, &y}, *swapped[] = {&y, &x};
  struct node node = {add, {2, 1, 1}, {128, 1, 1}, 0, params};
  struct fill fill = {y, 0, 0x40000000, 4, COUNT, 1}; /* 2.0f */
  struct cuboid cuboid = {{0, 0, 0, 0, (char *)from, 64, 64, 4}, {0, 0, 0, 0, (char *)x, 64, 64, 4}, {64, 2, 4}, 1};
  CHECK("cudaMemset", x, 0, (size_t)BYTES);
  CHECK("cudaGraphCreate", &graph, 0);
  CHECK("cudaGraphCreate", &child, 0);
  CHECK("cudaGraphAddKernelNode", &kernel, graph, (void *)0, (size_t)0, &node);
  params[0] = params[1] = NULL; /* their values were taken */
  CHECK("cudaGraphAddMemcpyNode", &copy, child, (void *)0, (size_t)0, &cuboid);
  CHECK("cudaGraphAddChildGraphNode", &copy, graph, (void *)0, (size_t)0, child);
  CHECK("cudaGraphAddMemsetNode", &zero, graph, &copy, (size_t)1, &fill);
#ifdef EDGES
  CHECK("cudaGraphAddDependencies", graph, &zero, &kernel, (void *)0, (size_t)1);
#else
  CHECK("cudaGraphAddDependencies", graph, &zero, &kernel, (size_t)1);
#endif
  CHECK("cudaGraphAddMemcpyNode1D", &out, graph, &kernel, (size_t)1, to, y, (size_t)BYTES, 2);
  CHECK("cudaGraphInstantiateWithFlags", &exec, graph, (uint64_t)0);
  set(5);
  CHECK("cudaGraphLaunch", exec, (void *)0);
  for (int i = 0; i < COUNT; i++)
    if (to[i] != 2 + (i / 16 % 4 < 2 ? from[i] : 0)) return printf("wrong at %d: %g\n", i, to[i]), 3;
  node.params = swapped, fill.to = x;
  CHECK("cudaGraphExecKernelNodeSetParams", exec, kernel, &node);
  CHECK("cudaGraphExecMemsetNodeSetParams", exec, zero, &fill);
  CHECK("cudaGraphExecMemcpyNodeSetParams1D", exec, out, to, x, (size_t)BYTES, 2);
  CHECK("cudaMemcpy", y, from, (size_t)BYTES, 1);
  CHECK("cudaGraphLaunch", exec, (void *)0);
  if (differ(7, 1)) return 3;
  CHECK("cudaGraphAddDependencies", graph, &out, &copy, (void *)1, (size_t)1);
  return printf("a circle: %d\n", CALL("cudaGraphInstantiate", &exec, graph, (uint64_t)0)), 0;
}

/* What the driver refuses while a stream is captured; each ends the capture. */
static int refused(void) {
  void *graph = s;
  int said;
  CHECK("cudaEventRecord", event[1], t);
  begin();
  CHECK("cudaEventRecord", event[0], s);
  CHECK("cudaStreamWaitEvent", t, event[0], 0);
  check("launch", launch(t));
  said = end(&graph);
  printf("fork without join: %d, %s\n", said, graph ? "a graph" : "no graph");
  begin();
  said = launch(NULL);
  printf("legacy stream: %d, then %d\n", said, end(&graph));
  begin();
  said = CALL("cudaStreamSynchronize", s);
  printf("synchronize: %d, then %d\n", said, end(&graph));
  begin();
  said = CALL("cudaStreamWaitEvent", s, event[1], 0);
  printf("event from outside: %d, then %d\n", said, end(&graph));
  begin();
  CHECK("cudaEventRecord", event[0], s);
  said = CALL("cudaEventQuery", event[0]);
  printf("event inside: %d, then %d\n", said, end(&graph));
  CHECK("cudaDeviceSynchronize");
  return printf("launches now: %d\n", launch(NULL)), 0;
}

int main(int count, char **words) {
  static uint64_t image[1 << 15];
  static struct { int magic, version; const void *data, *rest; } wrapper = {0x466243b1, 1, image};
  FILE *file = fopen(words[2], "rb");
  if (!file || !fread(image, 1, sizeof image, file)) return 5;
  runtime = dlopen(RUNTIME, RTLD_NOW);
  if (!runtime) return puts(dlerror()), 6;
  void **handle = ((void **(*)(void *))dlsym(runtime, "__cudaRegisterFatBinary"))(&wrapper);
  CALL("__cudaRegisterFunction", handle, (void *)add, "add", "add", -1, (void *)0, (void *)0, (void *)0, (void *)0, (void *)0);
  CHECK("cudaMalloc", &x, (size_t)BYTES);
  CHECK("cudaMalloc", &y, (size_t)BYTES);
  CHECK("cudaStreamCreate", &s);
  CHECK("cudaStreamCreate", &t);
  CHECK("cudaEventCreate", event);
  CHECK("cudaEventCreate", event + 1);
  return !strcmp(words[1], "captured") ? captured() : !strcmp(words[1], "explicit") ? explicit() : refused();
}
