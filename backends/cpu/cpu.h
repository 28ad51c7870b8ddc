/* cpu.h: the device, its memory and its queue, and what belongs to the thread
 * that runs. README.md says how the folders hang together. */
#ifndef TN_CPU_H
#define TN_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/plugin.h>

#include "simd/routines.h"

extern const tn_host *tn__cpu_host;

#define TN_CPU_ALIGN 64
#define TN_CPU_MAX_OPERANDS 32
#define TN_CPU_NONE 0xffffffffu

/* ---- devices, buffers, queues (cpu_device.c) ------------------------------- */

/* Windows of three columns by fewer products (conv_winograd.c): option
 * "winograd", not given, 0, 1. */
typedef enum conv_choice {
    CONV_BY_COST,
    CONV_DIRECT,
    CONV_WINOGRAD
} conv_choice;

struct tn_plugin_device {
    const tn_cpu_routines *routines;
    int64_t stream_bytes; /* written from which on stores pass the caches by */
    conv_choice conv;
};

struct tn_buffer {
    char *memory; /* aligned to 64 where owned */
    uint64_t bytes;
    bool wrapped; /* memory is the program's */
};

struct tn_queue {
    const tn_cpu_routines *routines;
    int64_t stream_bytes; /* the device's */
    conv_choice conv;     /* likewise */
};

/* The first failure of the calling thread since its last queue_sync. A call
 * of this synchronous plugin may run beside others on the same queue; what it
 * failed with is asked for by the thread that made it. */
tn_status tn__cpu_fault_raise(const tn_fault *fault);
tn_status tn__cpu_fault_take(tn_fault *fault);

/* At least bytes of scratch memory that belong to the calling thread until it
 * asks again; NULL when memory runs out. */
void *tn__cpu_scratch(size_t bytes);

/* Memory for all tasks of the calling thread's call, one at a time; NULL when
 * there is none. What was lent is given back before the call returns, and the
 * next call has the same: fresh memory of the system costs a page fault for
 * each 4 KiB. */
void *tn__cpu_memory_acquire(size_t bytes);
void tn__cpu_memory_release(void *memory);

/* The floating-point state that programs need (round to nearest, subnormals
 * kept); restore gives back the thread's own. */
unsigned tn__cpu_fpu_set(void);
void tn__cpu_fpu_restore(unsigned state);
/* x rounded to float in that state. */
float tn__cpu_round_f32(double x);

static inline char *tn__cpu_at(const tn_buffer *buffer, int64_t offset,
                               size_t bytes)
{
    return buffer ? buffer->memory + offset * (int64_t)bytes : NULL;
}

static inline int64_t tn__cpu_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Memory is asked for, a line of the cache at a time; it may lie behind what is
 * there. */
static inline void tn__cpu_prefetch(const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)from + i, 0, 3);
}

extern const uint8_t tn__cpu_dtype_bytes[TN_DTYPE_END];
/* A number as the first bytes of a register of type (8 are written). */
void tn__cpu_number_store(void *at, unsigned type, tn_number number);
/* Register blocks of this dtype are as memory is. */
static inline bool tn__cpu_is_as_stored(unsigned dtype)
{
    return dtype == TN_F32 || dtype == TN_F64 || dtype == TN_I32 ||
           dtype == TN_I64;
}

/* The row-major count of points; 1 for no dimensions. */
static inline int64_t tn__cpu_numel(const int64_t *extent, uint32_t ndim)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < ndim; d++)
        count *= extent[d];
    return count;
}

#endif
