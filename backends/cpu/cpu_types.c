/* cpu_types.c: sizes and register types (the types in which kernels compute) of
 * dtypes, and conversion of a number to a register type. */
#include <string.h>

#include "cpu.h"

const uint8_t tn__cpu_dtype_bytes[TN_DTYPE_END] = {
    [TN_F32] = 4,  [TN_F64] = 8,    [TN_F16] = 2,    [TN_BF16] = 2,
    [TN_F8E4M3] = 1, [TN_F8E5M2] = 1, [TN_I64] = 8,  [TN_I32] = 4,
    [TN_I16] = 2,  [TN_I8] = 1,     [TN_U8] = 1,     [TN_BOOL] = 1,
};

const uint8_t tn__cpu_register_type[TN_DTYPE_END] = {
    [TN_F32] = CPU_F32,    [TN_F64] = CPU_F64,    [TN_F16] = CPU_F32,
    [TN_BF16] = CPU_F32,   [TN_F8E4M3] = CPU_F32, [TN_F8E5M2] = CPU_F32,
    [TN_I64] = CPU_I64,    [TN_I32] = CPU_I32,    [TN_I16] = CPU_I32,
    [TN_I8] = CPU_I32,     [TN_U8] = CPU_I32,     [TN_BOOL] = CPU_BOOL,
};

const uint8_t tn__cpu_type_bytes[CPU_TYPE_COUNT] = {4, 8, 4, 8, 1};

void tn__cpu_number_store(void *at, unsigned type, tn_number number)
{
    float f32 = type == CPU_F32 ? tn__cpu_round_f32(number.f) : 0;
    int32_t i32 = (int32_t)(uint32_t)number.i;
    uint8_t boolean = number.i != 0;
    memset(at, 0, 8);
    switch (type) {
    case CPU_F32:
        memcpy(at, &f32, sizeof f32);
        return;
    case CPU_I32:
        memcpy(at, &i32, sizeof i32);
        return;
    case CPU_BOOL:
        memcpy(at, &boolean, sizeof boolean);
        return;
    default:
        memcpy(at, &number, sizeof number);
    }
}
