/* CUDA graphs: work that a program adds as nodes, or gives to a stream that is captured. A graph that is launched runs
   its nodes one after the other, each behind those that it depends on. Numbers of errors are the driver API's. */
#include "driver.h"

enum { UNSUPPORTED = 900, INVALIDATED, UNMATCHED = 903, UNJOINED, ISOLATION, IMPLICIT, CAPTURED_EVENT, UPDATE_FAILURE = 910 };

struct node {
  struct work work;
  struct node *next, **before; /* nodes that it depends on */
  struct node *origin;         /* of an executable graph: the node that it was made of */
  struct graph *graph;
  size_t count;
  int placed;
};
struct graph { struct node *first, **end; size_t count; };

static struct graph *new_graph(void) {
  struct graph *graph = calloc(1, sizeof *graph);
  if (graph) graph->end = &graph->first;
  return graph;
}
static void drop_graph(struct graph *graph) {
  for (struct node *node = graph ? graph->first : NULL, *next; node; node = next) {
    next = node->next;
    convc_drop(&node->work);
    free(node->before), free(node);
  }
  free(graph);
}
void convc_drop(struct work *work) {
  if (work->kind == KERNEL_NODE) free(work->launch);
  if (work->kind == GRAPH_NODE) drop_graph(work->child);
}

/* A new node, which takes the work over. */
result convc_add(struct node **out, struct graph *graph, struct node *const *before, size_t count, struct work work) {
  struct node *node = calloc(1, sizeof *node);
  if (!node || !(node->before = malloc((count + 1) * sizeof node))) return NO_MEMORY;
  if (count) memcpy(node->before, before, count * sizeof node);
  node->work = work, node->graph = graph, node->count = count;
  *graph->end = node, graph->end = &node->next, graph->count++;
  if (out) *out = node;
  return OK;
}
static int ready(const struct node *node) {
  for (size_t i = 0; i < node->count; i++)
    if (!node->before[i]->placed) return 0;
  return !node->placed;
}
static struct graph *copied(const struct graph *graph);
static struct work copied_work(struct work work) {
  if (work.kind == GRAPH_NODE) work.child = copied(work.child);
  if (work.kind == KERNEL_NODE) {
    size_t bytes = sizeof *work.launch + work.launch->size;
    struct launch *launch = malloc(bytes);
    work.launch = launch ? memcpy(launch, work.launch, bytes) : NULL;
  }
  return work;
}
/* The nodes in the order of their dependencies; NULL where these go round in a circle. */
static struct graph *copied(const struct graph *graph) {
  struct graph *ordered = new_graph();
  size_t placed;
  if (!ordered) return NULL;
  for (struct node *node = graph->first; node; node = node->next) node->placed = 0;
  do {
    placed = ordered->count;
    for (struct node *node = graph->first, *copy; node; node = node->next)
      if (ready(node) && !convc_add(&copy, ordered, NULL, 0, copied_work(node->work))) copy->origin = node, node->placed = 1;
  } while (ordered->count > placed);
  if (ordered->count == graph->count) return ordered;
  return drop_graph(ordered), NULL;
}
result convc_run(const struct graph *graph) {
  result said = OK;
  for (const struct node *node = graph->first; node && !said; node = node->next) said = convc_do(&node->work);
  return said;
}
result convc_change(struct graph *exec, struct node *node, struct work work) {
  for (struct node *each = exec ? exec->first : node; each; each = each->next) {
    if (exec && each->origin != node) continue;
    if (each->work.kind != work.kind) break;
    convc_drop(&each->work);
    return each->work = work, OK;
  }
  return convc_drop(&work), INVALID_VALUE;
}

/* ---- captures ------------------------------------------------------------------------------------------------------ */

enum { CAPTURES = 16 };
static struct capture { u64 id; struct graph *graph; struct stream *origin; u32 branches, length[BRANCHES]; int blocking, broken; } captures[CAPTURES];

/* NULL for the legacy stream, which is never captured. */
static struct stream *stream_of(void *handle) {
  static struct stream per_thread;
  return handle == (void *)2 ? &per_thread : (u64)handle < 2 ? NULL : handle;
}
static struct capture *capture_at(const struct position *position) {
  for (int i = 0; position && position->capture && i < CAPTURES; i++)
    if (captures[i].id == position->capture) return captures + i;
  return NULL;
}
static struct capture *capture_of(void *handle) {
  struct stream *stream = stream_of(handle);
  return stream ? capture_at(&stream->position) : NULL;
}
/* A call that a capture does not allow ends it: what is captured later is not kept. */
static result broken(struct capture *capture, result why) { return capture->broken = 1, why; }
/* For what has no stream of its own: the capture that it disturbs. */
static struct capture *disturbed(int blocking) {
  for (int i = 0; i < CAPTURES; i++)
    if (captures[i].id && captures[i].blocking >= blocking) return captures + i;
  return NULL;
}

result convc_give(void *handle, struct work work) {
  struct capture *capture = capture_of(handle);
  struct stream *stream = stream_of(handle);
  result said;
  if (capture && !capture->broken) {
    struct position *at = &stream->position;
    return at->seen[at->branch] = ++capture->length[at->branch], convc_add(NULL, capture->graph, NULL, 0, work);
  }
  if (capture) said = INVALIDATED;
  else if (!stream && (capture = disturbed(1))) said = broken(capture, IMPLICIT);
  else said = convc_do(&work);
  return convc_drop(&work), said;
}
int convc_captured(void *handle) { return capture_of(handle) != NULL; }
result convc_waits(void *handle) {
  struct capture *capture = handle ? capture_of(handle) : disturbed(0);
  return capture ? broken(capture, UNSUPPORTED) : OK;
}
API(cuStreamBeginCapture, void *handle, u32 mode) {
  static u64 last;
  struct stream *stream = stream_of(handle);
  if (!stream || capture_of(handle)) return stream ? INVALID_VALUE : UNSUPPORTED;
  for (int i = 0; i < CAPTURES; i++) {
    if (captures[i].id) continue;
    captures[i] = (struct capture){++last, new_graph(), stream, 1};
    captures[i].blocking = !(stream->flags & 1);
    stream->position = (struct position){last};
    return captures[i].graph ? OK : NO_MEMORY;
  }
  convc_refuse("cuStreamBeginCapture of more than 16 streams at once");
  return INVALID_VALUE;
}
V2(cuStreamBeginCapture, void *, u32);
API(cuStreamEndCapture, void *handle, struct graph **graph) {
  struct capture *capture = capture_of(handle);
  result said = OK;
  if (!capture) return *graph = NULL, INVALID_VALUE;
  if (capture->origin != stream_of(handle)) return broken(capture, UNMATCHED);
  for (u32 i = 0; i < capture->branches; i++)
    if (capture->length[i] > capture->origin->position.seen[i]) said = UNJOINED;
  if (capture->broken) said = INVALIDATED;
  capture->id = 0;
  if (said) drop_graph(capture->graph);
  return *graph = said ? NULL : capture->graph, said;
}
API(cuStreamIsCapturing, void *handle, u32 *status) {
  struct capture *capture = capture_of(handle);
  return *status = capture ? 1 + capture->broken : 0, OK;
}
API(cuStreamGetCaptureInfo, void *handle, u32 *status, u64 *id) {
  struct capture *capture = capture_of(handle);
  if (capture && id) *id = capture->id;
  return cuStreamIsCapturing(handle, status);
}
V2(cuStreamGetCaptureInfo, void *, u32 *, u64 *);
ALSO(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, void *, u32 *, u64 *);

API(cuEventRecord, struct event *event, void *handle) {
  struct stream *stream = stream_of(handle);
  event->position = capture_of(handle) ? stream->position : (struct position){0};
  event->recorded = 1;
  return clock_gettime(CLOCK_MONOTONIC, &event->at), OK;
}
API(cuEventRecordWithFlags, struct event *event, void *stream, u32 external) {
  if (external && convc_captured(stream)) convc_refuse("cuEventRecordWithFlags of an external event on a stream that is captured");
  return cuEventRecord(event, stream);
}
API(cuStreamWaitEvent, void *handle, struct event *event, u32 flags) {
  struct capture *mine = capture_of(handle), *its = capture_at(&event->position);
  struct stream *stream = stream_of(handle);
  if (!its) return mine && event->recorded ? broken(mine, ISOLATION) : OK;
  if (!stream || (mine && mine != its)) return broken(its, stream ? 902 : IMPLICIT);
  if (!mine && its->branches == BRANCHES) convc_refuse("cuStreamWaitEvent of more than 64 streams in one capture");
  if (!mine) stream->position = (struct position){its->id, its->branches++};
  for (u32 i = 0; i < BRANCHES; i++)
    if (stream->position.seen[i] < event->position.seen[i]) stream->position.seen[i] = event->position.seen[i];
  return OK;
}
/* Whether the host may ask for an event. */
result convc_asks(struct event *event) {
  struct capture *capture = capture_at(&event->position);
  return capture ? broken(capture, CAPTURED_EVENT) : OK;
}

/* ---- the driver's functions ---------------------------------------------------------------------------------------- */

API(cuGraphCreate, struct graph **graph, u32 flags) { return (*graph = new_graph()) ? OK : NO_MEMORY; }
API(cuGraphDestroy, struct graph *graph) { return drop_graph(graph), OK; }
ALSO(cuGraphDestroy, cuGraphExecDestroy, struct graph *);
DONE(cuGraphUpload)
API(cuGraphInstantiate, struct graph **exec, struct graph *graph) { return (*exec = copied(graph)) ? OK : INVALID_VALUE; }
V2(cuGraphInstantiate, struct graph **, struct graph *);
ALSO(cuGraphInstantiate, cuGraphInstantiateWithFlags, struct graph **, struct graph *);
API(cuGraphLaunch, struct graph *exec, void *stream) { return convc_give(stream, (struct work){GRAPH_NODE, .child = copied(exec)}); }

API(cuGraphGetNodes, struct graph *graph, struct node **nodes, size_t *count) {
  size_t room = nodes ? *count : 0;
  for (struct node *node = graph->first; node && room; node = node->next, room--) *nodes++ = node;
  if (!nodes || *count > graph->count) *count = graph->count;
  return OK;
}
API(cuGraphNodeGetType, struct node *node, u32 *kind) { return *kind = node->work.kind, OK; }
API(cuGraphAddDependencies, struct graph *graph, struct node *const *from, struct node *const *to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct node *node = to[i], **before = realloc(node->before, (node->count + 1) * sizeof node);
    if (!before) return NO_MEMORY;
    node->before = before, before[node->count++] = from[i];
  }
  return OK;
}
API(cuGraphAddDependencies_v2, struct graph *graph, struct node *const *from, struct node *const *to, const void *edges, size_t count) {
  return cuGraphAddDependencies(graph, from, to, count);
}

#define BEFORE struct node **out, struct graph *graph, struct node *const *before, size_t count
#define ADD(...) convc_add(out, graph, before, count, (struct work){__VA_ARGS__})

static result kernel_work(struct work *work, const struct kernel_node *k) {
  struct config config = {{k->grid[0], k->grid[1], k->grid[2]}, {k->block[0], k->block[1], k->block[2]}, k->shared};
  struct function *f = k->function ? k->function : ((struct function **)(k + 1))[0]; /* as a CUkernel */
  *work = (struct work){KERNEL_NODE, .launch = convc_pack(&config, f, k->params, k->extra)};
  return work->launch ? OK : INVALID_VALUE;
}
API(cuGraphAddKernelNode_v2, BEFORE, const struct kernel_node *params) {
  struct work work;
  result said = kernel_work(&work, params);
  return said ? said : convc_add(out, graph, before, count, work);
}
API(cuGraphExecKernelNodeSetParams_v2, struct graph *exec, struct node *node, const struct kernel_node *params) {
  struct work work;
  result said = kernel_work(&work, params);
  return said ? said : convc_change(exec, node, work);
}
API(cuGraphKernelNodeSetParams_v2, struct node *node, const struct kernel_node *params) { return cuGraphExecKernelNodeSetParams_v2(NULL, node, params); }
API(cuGraphAddMemsetNode, BEFORE, const struct fill *fill, void *context) { return ADD(FILL_NODE, .fill = *fill); }
API(cuGraphExecMemsetNodeSetParams, struct graph *exec, struct node *node, const struct fill *fill, void *context) {
  return convc_change(exec, node, (struct work){FILL_NODE, .fill = *fill});
}
API(cuGraphAddHostNode, BEFORE, const struct host_call *host) { return ADD(HOST_NODE, .host = *host); }
API(cuGraphAddEmptyNode, BEFORE) { return ADD(EMPTY_NODE); }
API(cuGraphAddChildGraphNode, BEFORE, const struct graph *child) {
  struct graph *copy = copied(child);
  return copy ? ADD(GRAPH_NODE, .child = copy) : INVALID_VALUE;
}
struct update { u32 result; void *nodes[2]; };
API(cuGraphExecUpdate_v2, struct graph *exec, const struct graph *graph, struct update *info) {
  struct graph *fresh = copied(graph);
  struct node *old = exec->first, *node = fresh ? fresh->first : NULL;
  for (; old && node && old->work.kind == node->work.kind; old = old->next, node = node->next) ;
  int same = fresh && !old && !node;
  if (info) memset(info, 0, sizeof *info), info->result = same ? 0 : 2; /* another topology */
  for (old = exec->first, node = fresh ? fresh->first : NULL; same && node; old = old->next, node = node->next) {
    struct work work = old->work;
    old->work = node->work, node->work = work;
  }
  return drop_graph(fresh), same ? OK : UPDATE_FAILURE;
}
