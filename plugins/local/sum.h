/* sum.h: reductions in the order that comm_plugin.h defines. plugins/mpi has them,
 * too: engines that call them give the same bits. */
#ifndef TN_PLUGINS_LOCAL_SUM_H
#define TN_PLUGINS_LOCAL_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/comm_plugin.h>

enum { LOCAL_MOST_SOURCES = 4096 };

/* Bytes of an element; 0 if dtype is none. */
static inline size_t local_dtype_bytes(uint32_t dtype)
{
    static const unsigned char bytes[TN_DTYPE_END] = {
#define LOCAL_BYTES(name, code, text, width, kind, reg) [code] = width,
        TN_DTYPE_MAP(LOCAL_BYTES)
#undef LOCAL_BYTES
    };
    return dtype < TN_DTYPE_END ? bytes[dtype] : 0;
}

/* Reduces count elements of source[0 .. n) in the fixed order, and stores the
 * result at out[0 .. outs). Each of them is apart from all sources, or is one of
 * them. scale multiplies a result of a floating-point dtype. */
void local_reduce(uint32_t dtype, uint32_t reduce, double scale,
                  const void *const *source, int n, void *const *out, int outs,
                  size_t count);
/* Whether elements of dtype can be reduced: all but the float8 types. */
bool local_reduces(uint32_t dtype);

#endif
