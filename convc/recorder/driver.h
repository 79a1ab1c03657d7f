/* What the files of the two stand-ins share: libcuda.c, graphs.c and libcudart.c. */
#ifndef CONVC_DRIVER_H
#define CONVC_DRIVER_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int32_t result;
typedef uint64_t u64;
typedef uint32_t u32;

enum { OK = 0, INVALID_VALUE = 1, NO_MEMORY = 2, NOT_FOUND = 500, LAUNCH_FAILED = 719 };

#define API(name, ...) result name(__VA_ARGS__)
#define ALSO(name, other, ...) __attribute__((alias(#name))) result other(__VA_ARGS__)
#define V2(name, ...) ALSO(name, name##_v2, __VA_ARGS__)
#define DONE(name) result name(void) { return OK; } /* nothing to be done, whatever its arguments */

/* The end of a program that calls what is not here; convc says so. */
void convc_refuse(const char *name);

/* ---- work: what a stream is given, or a node of a graph has. Kinds are those of CUgraphNodeType. ----------------- */

enum { KERNEL_NODE, COPY_NODE, FILL_NODE, HOST_NODE, GRAPH_NODE, EMPTY_NODE };

struct launch { u64 numbers[136], size; u32 count; unsigned char params[]; };
struct box { u64 to, to_pitch, to_slice, from, from_pitch, from_slice, width, height, depth; }; /* width in bytes */
struct fill { u64 to, pitch; u32 value, unit; u64 width, height; };                           /* CUDA_MEMSET_NODE_PARAMS */
struct host_call { void (*call)(void *); void *data; };                                       /* CUDA_HOST_NODE_PARAMS */
struct graph;
struct node;
struct work {
  u32 kind;
  union { struct launch *launch; struct box box; struct fill fill; struct host_call host; struct graph *child; };
};

result convc_do(const struct work *work);                    /* at once */
result convc_give(void *stream, struct work work);           /* to a stream: at once, or as a node where it is captured */
result convc_add(struct node **out, struct graph *graph, struct node *const *before, size_t count, struct work work);
result convc_change(struct graph *exec, struct node *node, struct work work); /* exec NULL: the node itself */
result convc_run(const struct graph *graph);
int convc_captured(void *stream);
void convc_drop(struct work *work);

/* Where a stream, or the event that was recorded in it, stands in a capture: nodes of each branch that lie before it. */
enum { BRANCHES = 64 };
struct position { u64 capture; u32 branch, seen[BRANCHES]; };
struct stream { struct position position; u32 flags; };
struct event { struct position position; struct timespec at; int recorded; };
result convc_waits(void *stream); /* whether the host may wait for a stream; NULL: for all */
result convc_asks(struct event *event);

/* ---- kernels and their launches ---------------------------------------------------------------------------------- */

struct function { u64 id, module, count, at[120], size[120]; char name[]; }; /* where its parameters lie */
struct attribute { u32 id, pad; union { u32 words[16]; } value; };
struct config { u32 grid[3], block[3], shared; void *stream; struct attribute *attributes; u32 count; };
struct kernel_node { struct function *function; u32 grid[3], block[3], shared; void **params, **extra; };

struct launch *convc_pack(const struct config *c, struct function *f, void **params, void **extra);
#endif
