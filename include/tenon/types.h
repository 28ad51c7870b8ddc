/* <tenon/types.h>: status codes and dtypes, which the library and its plugins
 * share. Part of the plugin ABI: values are appended, never changed.
 *
 * Threads: This header holds constants and macros only.
 */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

/* Every status: name, value, meaning. A new code is added only if a program
 * would react to it differently than to the existing ones. */
#define TN_STATUS_MAP(X)                                                      \
    X(OK, 0, "success")                                                       \
    X(ERR_ARGUMENT, -1, "an argument has a value that is not allowed")        \
    X(ERR_SHAPE, -2, "shapes do not fit")                                     \
    X(ERR_DTYPE, -3, "a dtype is not allowed or dtypes do not fit")           \
    X(ERR_DEVICE, -4, "tensors live on different devices")                    \
    X(ERR_INDEX, -5, "an index lies outside its range")                       \
    X(ERR_MEMORY, -6, "memory ran out")                                       \
    X(ERR_STATE, -7, "not now: a pending error, a closed scope, a change "    \
                     "in place of a value that a gradient needs")             \
    X(ERR_NO_DEVICE, -8, "a device asked for cannot be had")                  \
    X(ERR_PLUGIN, -9, "a plugin cannot be used")                              \
    X(ERR_UNSUPPORTED, -10, "the device or the operator cannot do this")      \
    X(ERR_IO, -11, "a file cannot be read or written")                        \
    X(ERR_FORMAT, -12, "a file or a text is malformed")                       \
    X(ERR_BUILD, -13, "a device refused to build a program")                  \
    X(ERR_DEVICE_LOST, -14, "a device failed for good")                       \
    X(ERR_INTERNAL, -15, "a fault of the library or of a plugin")            \
    X(ERR_NAN, -16, "a result is not a number, in anomaly mode")

typedef int32_t tn_status;
enum {
#define TN_STATUS_ENUM(name, value, text) TN_##name = value,
    TN_STATUS_MAP(TN_STATUS_ENUM)
#undef TN_STATUS_ENUM
};

/* Every dtype: name, code, PyTorch's name, bytes per element, kind (f
 * floating-point, i signed, u unsigned, b bool), and the dtype in which kernels
 * compute with it. Codes are below 32, because masks have one bit for each. */
#define TN_DTYPE_MAP(X)                                                       \
    X(F32, 1, "float32", 4, 'f', F32)                                         \
    X(F64, 2, "float64", 8, 'f', F64)                                         \
    X(F16, 3, "float16", 2, 'f', F32)                                         \
    X(BF16, 4, "bfloat16", 2, 'f', F32)                                       \
    X(F8E4M3, 5, "float8_e4m3fn", 1, 'f', F32)                                \
    X(F8E5M2, 6, "float8_e5m2", 1, 'f', F32)                                  \
    X(I64, 7, "int64", 8, 'i', I64)                                           \
    X(I32, 8, "int32", 4, 'i', I32)                                           \
    X(I16, 9, "int16", 2, 'i', I32)                                           \
    X(I8, 10, "int8", 1, 'i', I32)                                            \
    X(U8, 11, "uint8", 1, 'u', I32)                                           \
    X(BOOL, 12, "bool", 1, 'b', BOOL)

typedef uint32_t tn_dtype;
enum {
    TN_DTYPE_NONE = 0,
#define TN_DTYPE_ENUM(name, code, text, bytes, kind, reg) TN_##name = code,
    TN_DTYPE_MAP(TN_DTYPE_ENUM)
#undef TN_DTYPE_ENUM
    TN_DTYPE_END = 13
};

/* Complex dtypes: name, code, PyTorch's name, bytes. The codes are reserved for
 * later versions; no call accepts them today (docs/abi.md). */
#define TN_DTYPE_RESERVED_MAP(X)                                              \
    X(C64, 16, "complex64", 8)                                                \
    X(C128, 17, "complex128", 16)                                             \
    X(C32, 18, "complex32", 4)

/* Block-quantised storage: name, code, GGUF's name, elements and bytes of a
 * block. A code is TN_BLOCK plus the type number that GGUF files use for it.
 * Only an operand whose description names block storage may have such a code.
 * It has no bit in a mask, and kernels never load it. */
#define TN_BLOCK 64
#define TN_BLOCK_MAP(X)                                                       \
    X(Q4_0, 66, "Q4_0", 32, 18)                                               \
    X(Q4_1, 67, "Q4_1", 32, 20)                                               \
    X(Q5_0, 70, "Q5_0", 32, 22)                                               \
    X(Q5_1, 71, "Q5_1", 32, 24)                                               \
    X(Q8_0, 72, "Q8_0", 32, 34)                                               \
    X(Q2_K, 74, "Q2_K", 256, 84)                                              \
    X(Q3_K, 75, "Q3_K", 256, 110)                                             \
    X(Q4_K, 76, "Q4_K", 256, 144)                                             \
    X(Q5_K, 77, "Q5_K", 256, 176)                                             \
    X(Q6_K, 78, "Q6_K", 256, 210)                                             \
    X(IQ4_NL, 84, "IQ4_NL", 32, 18)                                           \
    X(IQ4_XS, 87, "IQ4_XS", 256, 136)                                         \
    X(MXFP4, 103, "MXFP4", 32, 17)

/* The largest number of dimensions of a tensor or of an iteration space. */
#define TN_MAX_NDIM 12

#ifdef __cplusplus
}
#endif
#endif
