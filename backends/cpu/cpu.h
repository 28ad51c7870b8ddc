/* cpu.h: the CPU device, its buffers and queue, and per-thread state. All files
 * of the plugin include it. README.md explains how the folders depend on each
 * other. */
#ifndef TN_CPU_H
#define TN_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/plugin.h>

#include "simd/routines.h"

extern const tn_host *tn__cpu_host;

/* Sets and returns an error: `call`, a function of the plugin's table, got a
 * kind or flag that this version of the plugin does not support. */
tn_status tn__cpu_unknown(const char *call);

#define TN_CPU_ALIGN 64
#define TN_CPU_MAX_OPERANDS 32
#define TN_CPU_NONE 0xffffffffu

/* ---- devices, buffers, queues (cpu_device.c) ----------------------------- */

/* The algorithm that convolutions use. The caller chooses it with the device
 * option `winograd` (README.md). */
typedef enum conv_choice {
    CONV_BY_COST, /* default, without the option: Winograd's algorithm where an
                     estimate says that it is faster */
    CONV_DIRECT,  /* winograd=0: never Winograd's algorithm */
    CONV_WINOGRAD /* winograd=1: Winograd's algorithm wherever it is
                     implemented */
} conv_choice;

struct tn_plugin_device {
    const tn_cpu_routines *routines;
    /* Results of at least this many bytes are written by non-temporal
     * stores. */
    int64_t stream_bytes;
    conv_choice conv;
};

struct tn_buffer {
    char *memory; /* aligned to 64 bytes unless wrapped */
    uint64_t bytes;
    bool wrapped; /* the user's program owns the memory */
};

struct tn_queue {
    const tn_cpu_routines *routines;
    int64_t stream_bytes; /* copied from the device */
    conv_choice conv;     /* copied from the device */
};

/* tn__cpu_fault_raise records a fault, such as an index out of range, for the
 * calling thread, unless one is pending. tn__cpu_fault_take returns the pending
 * fault and clears it. Each thread has its own fault, because several threads
 * may call the plugin on one queue at the same time. */
tn_status tn__cpu_fault_raise(const tn_fault *fault);
tn_status tn__cpu_fault_take(tn_fault *fault);

/* Returns at least `bytes` of scratch memory of the calling thread, or NULL if
 * out of memory. The memory is valid until the thread's next call of this
 * function. */
void *tn__cpu_scratch(size_t bytes);

/* Returns new memory for a long time, aligned to at least 64 bytes, on huge
 * pages if it is large, or NULL if out of memory. The caller frees it with
 * free(). */
void *tn__cpu_pages(uint64_t bytes);

/* Returns memory for all tasks of one call of the plugin, or NULL if out of
 * memory. A thread may have one such block at a time, and releases it before
 * the call returns. The block is cached for the thread's next call, because
 * fresh memory from the system costs a page fault for each 4 KiB. */
void *tn__cpu_memory_acquire(size_t bytes);
void tn__cpu_memory_release(void *memory);

/* tn__cpu_fpu_set sets the floating-point state that programs need: round to
 * nearest, and do not flush subnormals to zero. It returns the thread's
 * previous state, which tn__cpu_fpu_restore restores. */
unsigned tn__cpu_fpu_set(void);
void tn__cpu_fpu_restore(unsigned state);
/* Rounds x to float in the state that tn__cpu_fpu_set sets. */
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

/* Prefetches `bytes` of memory, one cache line at a time. Addresses past the
 * end of an allocation are allowed. */
static inline void tn__cpu_prefetch(const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)from + i, 0, 3);
}

extern const uint8_t tn__cpu_dtype_bytes[TN_DTYPE_END];
/* The register type in which values of a dtype are computed. */
extern const uint8_t tn__cpu_register_type[TN_DTYPE_END];
/* Bytes of a value of each register type. */
extern const uint8_t tn__cpu_type_bytes[CPU_TYPE_COUNT];
/* Converts a number to a register type (CPU_F32 ...) and writes it to `at`,
 * padded with zeros to 8 bytes. */
void tn__cpu_number_store(void *at, unsigned type, tn_number number);
/* Returns whether a program computes in this dtype itself. Elements are then
 * loaded and stored without conversion. */
static inline bool tn__cpu_is_as_stored(unsigned dtype)
{
    return dtype == TN_F32 || dtype == TN_F64 || dtype == TN_I32 ||
           dtype == TN_I64;
}

/* Returns the product of the extents, which is 1 if ndim is 0. */
static inline int64_t tn__cpu_numel(const int64_t *extent, uint32_t ndim)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < ndim; d++)
        count *= extent[d];
    return count;
}

#endif
