/* routines_chain.c: a chain of operations, tile by tile: of a few vectors, which
 * stay in registers from one operation to the next. Each rounds by itself, so
 * the bits are those of operations one after the other over whole blocks, whose
 * values go through the cache; what an operation costs here beside its
 * arithmetic is a jump for a tile. */
#include "routines.h"
#include "scalar.h"
#include "vector_ops.h"

/* Vectors of a tile. 16 take two thirds of the time in a cache near by and
 * longer from memory (below: 380 in place of 320 us): what is read and written
 * is less of a stream. */
#ifdef TN_CPU_PLAIN
#define WIDE 4
#else
#define WIDE 8
#endif
/* Bytes ahead of a tile that ASK asks for: 16 x 64 x 56 x 56 less a mean, times
 * and plus two numbers took 550 us without, 500 with 2048, 390 with 4096, 320
 * with 8192, 360 with 12288 (Zen 5). */
#define AHEAD 8192

/* A step for a row: what it works on is at + (the bytes before the tile &
 * moves). ONE is added to the code where that is one value. */
typedef struct work {
    char *at;
    const char *mask;
    uint64_t moves;
    unsigned code;
} work;
#define ONE 32

/* As scalar.h has it. hardware: x > y ? x : y or the like, y where unordered. */
#define EXTREME(name, hardware, SAME)                                         \
    static inline vec_f32 name(vec_f32 x, vec_f32 y)                          \
    {                                                                         \
        vec_i32 most = (vec_i32)hardware(x, y), same = x == y;                \
        vec_i32 order = (x == x) & (y == y);                                  \
        most = SAME;                                                          \
        return (vec_f32)((order & most) | (~order & (vec_i32)(x + y)));       \
    }
EXTREME(chain_max_f32, greater_vec_f32, most & ((vec_i32)x | ~same))
EXTREME(chain_min_f32, lesser_vec_f32, most | ((vec_i32)x & same))

/* Vector v of an operand, and n elements of the only one. */
#define LOAD_WHOLE(V, bits) ((const V *)p)[v]
#define KEEP_WHOLE(V, bits, x) ((V *)p)[v] = x
#define LOAD_SOME(V, bits) (V) load_part_##bits(p, n)
#define KEEP_SOME(V, bits, x) store_part_##bits(p, (vec_i##bits)x, n)

/* Of x, what the chain holds, and y, the operand; m: the mask. */
#define EACH_VALUE(W) _Pragma("GCC unroll 8") for (int v = 0; v < W; v++)
#define CHANGE(W, V, bits, operand, expression)                               \
    EACH_VALUE(W)                                                             \
    {                                                                         \
        V x = value[v], y = operand;                                          \
        (void)x;                                                              \
        (void)y;                                                              \
        value[v] = (V)(expression);                                           \
    }                                                                         \
    break;
#define STEP(number, W, T, V, bits, LOAD, expression)                         \
    case number:                                                              \
        p = step->at + (offset & step->moves);                                \
        CHANGE(W, V, bits, LOAD(V, bits), expression)                         \
    case number + ONE:                                                        \
        one = *(const T *)step->at - (V){0};                                  \
        CHANGE(W, V, bits, one, expression)
#define ALONE(number, W, V, bits, expression)                                 \
    case number:                                                              \
        CHANGE(W, V, bits, x, expression)
#define BITS_OF(bits, x) ((vec_i##bits)(x))
#define MASK(bits) ((const vec_i##bits *)step->mask)[v]
#define PICK(bits, x, y)                                                      \
    ((MASK(bits) & BITS_OF(bits, x)) | (~MASK(bits) & BITS_OF(bits, y)))
#define SIGN(bits) (INT##bits##_MIN - (vec_i##bits){0})
#define TILE(name, W, T, V, bits, LOAD, KEEP)                                 \
    static inline __attribute__((always_inline)) void name(                   \
        const work *step, uint64_t offset, int64_t n)                         \
    {                                                                         \
        V value[W], one;                                                      \
        char *p;                                                              \
        (void)n;                                                              \
        EACH_VALUE(W) value[v] = (V){0};                                      \
        for (;; step++)                                                       \
            switch (step->code) {                                             \
                STEP(TN_CPU_STEP_LOAD, W, T, V, bits, LOAD, y)                \
                STEP(TN_CPU_STEP_ADD, W, T, V, bits, LOAD, x + y)             \
                STEP(TN_CPU_STEP_SUB, W, T, V, bits, LOAD, x - y)             \
                STEP(TN_CPU_STEP_FROM, W, T, V, bits, LOAD, y - x)            \
                STEP(TN_CPU_STEP_MUL, W, T, V, bits, LOAD, x *y)              \
                STEP(TN_CPU_STEP_DIV, W, T, V, bits, LOAD, x / y)             \
                STEP(TN_CPU_STEP_INTO, W, T, V, bits, LOAD, y / x)            \
                STEP(TN_CPU_STEP_MIN, W, T, V, bits, LOAD,                    \
                     chain_min_f32(x, y))                                     \
                STEP(TN_CPU_STEP_MAX, W, T, V, bits, LOAD,                    \
                     chain_max_f32(x, y))                                     \
                STEP(TN_CPU_STEP_LT, W, T, V, bits, LOAD, x < y)              \
                STEP(TN_CPU_STEP_LE, W, T, V, bits, LOAD, x <= y)             \
                STEP(TN_CPU_STEP_GT, W, T, V, bits, LOAD, x > y)              \
                STEP(TN_CPU_STEP_GE, W, T, V, bits, LOAD, x >= y)             \
                STEP(TN_CPU_STEP_PICK, W, T, V, bits, LOAD, PICK(bits, y, x)) \
                STEP(TN_CPU_STEP_OTHER, W, T, V, bits, LOAD,                  \
                     PICK(bits, x, y))                                        \
                ALONE(TN_CPU_STEP_ABS, W, V, bits,                            \
                      BITS_OF(bits, x) & ~SIGN(bits))                         \
                ALONE(TN_CPU_STEP_NEG, W, V, bits,                            \
                      BITS_OF(bits, x) ^ SIGN(bits))                          \
                ALONE(TN_CPU_STEP_SQUARE, W, V, bits, x *x)                   \
            case TN_CPU_STEP_KEEP:                                            \
                p = step->at + (offset & step->moves);                        \
                EACH_VALUE(W) KEEP(V, bits, value[v]);                        \
                break;                                                        \
            case TN_CPU_STEP_ASK:                                             \
                p = step->at + offset + AHEAD;                                \
                EACH_VALUE(W)                                                 \
                {                                                             \
                    if (v * sizeof(V) % 64 == 0)                              \
                        __builtin_prefetch(p + v * sizeof(V));                \
                }                                                             \
                break;                                                        \
            case TN_CPU_STEP_END:                                             \
                return;                                                       \
            default:                                                          \
                __builtin_unreachable();                                      \
            }                                                                 \
    }

#define CHAIN(name, T, V, LOOSE, bits)                                        \
    TILE(name##_wide, WIDE, T, LOOSE, bits, LOAD_WHOLE, KEEP_WHOLE)           \
    TILE(name##_part, 1, T, V, bits, LOAD_SOME, KEEP_SOME)                    \
    static void name(const tn_cpu_step *step, int64_t rows, int64_t n)        \
    {                                                                         \
        enum { L = sizeof(V) / sizeof(T) };                                   \
        work list[TN_CPU_STEPS];                                              \
        V scratch[TN_CPU_SCRATCH][WIDE];                                      \
        int count = 0;                                                        \
        do {                                                                  \
            const tn_cpu_step *of = &step[count];                             \
            work *to = &list[count];                                          \
            to->at = of->kind == TN_CPU_STEP_SCRATCH                          \
                         ? (char *)scratch[of->scratch]                       \
                         : (char *)of->at;                                    \
            to->mask = (const char *)scratch[of->mask];                       \
            to->moves = of->kind == TN_CPU_STEP_EACH ? ~UINT64_C(0) : 0;      \
            to->code = of->kind == TN_CPU_STEP_ONE ? of->code + ONE           \
                                                   : of->code;                \
        } while (step[count++].code != TN_CPU_STEP_END);                      \
        for (int64_t r = 0; r < rows; r++) {                                  \
            int64_t i = 0;                                                    \
            for (; i + WIDE * L <= n; i += WIDE * L)                          \
                name##_wide(list, (uint64_t)i * sizeof(T), 0);                \
            for (; i < n; i += L)                                             \
                name##_part(list, (uint64_t)i * sizeof(T),                    \
                            n - i < L ? n - i : L);                           \
            for (int s = 0; s < count; s++)                                   \
                list[s].at += step[s].row;                                    \
        }                                                                     \
    }
CHAIN(chain_f32, float, vec_f32, loose_f32, 32)

void TN_CPU_NAME(tn__cpu_chain)(tn_cpu_routines *table)
{
    table->chain = chain_f32;
}
