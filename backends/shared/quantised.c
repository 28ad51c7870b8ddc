/* quantised.c: plans the extension "quantised-product", whose kernels are in
 * quantised/, and prints the source of any plan, also of the core.
 *
 * A product has two launches: the first rounds the input to scratch memory, and
 * the second multiplies. README.md estimates the costs of the kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared.h"

enum { NUMBERS, ROUND, FEW, MANY }; /* the kernels; each has a file in
                                       quantised/ with the same name in lower
                                       case */

/* Sizes that the kernels define too, under similar names. */
enum {
    ITEMS = 128,
    UNIT = 32,          /* elements */
    RECORD_BYTES = 48,  /* bytes of a unit (32 elements) of the rounded input */
    ROUND_UNITS = 16,   /* that a work-group rounds */
    FEW_ROWS = 8,       /* of the weight */
    MANY_ROWS = 64,
    MANY_TOKENS = 32,
    NUMBERS_UNITS = 64,
    LOCAL_BYTES = 32 << 10 /* the largest amount of local memory of a kernel */
};

/* FEW is used up to this m. It reads the weight once for each FEW_TOKENS rows
 * of the input. CPUs (TN_TARGET_CHUNKED) use FEW for all m: MANY is not faster
 * there, and PoCL takes 40 seconds to compile it. */
enum { FEW_TOKENS = 4, FEW_M = 8 };

/* The second half of the keys of this file's plans: ASCII "quantise". Keys of
 * the core's plans are hashes. */
#define KEY 0x7175616e74697365u

/* The formats that common.cl supports. */
static const struct {
    uint8_t number; /* in GGUF files */
    uint8_t units;
    uint8_t bytes;
} formats[] = {{2, 1, 18},  {3, 1, 20},   {6, 1, 22},   {7, 1, 24},
               {8, 1, 34},  {12, 8, 144}, {13, 8, 176}, {14, 8, 210}};

/* Returns the index of a format in the table, or -1. */
static int find(uint32_t code)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if ((uint32_t)TN_BLOCK + formats[i].number == code)
            return (int)i;
    return -1;
}

tn_status tn__quantised_takes(const tn_target *target, uint32_t format)
{
    const char *why = find(format) < 0 ? "the format is not supported"
                      : !TN_HAS(tn_host, tn__host, print_text) ||
                              !tn__host->print_text
                          ? "it needs a later version of Tenon"
                      : target->group_limit < ITEMS ||
                              target->local_bytes < LOCAL_BYTES
                          ? "it needs work-groups of 128 work-items with 32 "
                            "KiB of local memory"
                          : NULL;
    return why ? tn__host->fail(TN_ERR_UNSUPPORTED, "quantised-product: %s",
                                why)
               : TN_OK;
}

/* Stores in a plan which kernel it launches. */
static void choose(tn_plan *plan, int format, int kernel, int tokens)
{
    plan->variant = (uint64_t)format | (uint64_t)kernel << 8 |
                    (uint64_t)tokens << 16;
    plan->key[0] = (plan->variant + 1) * 0x9e3779b97f4a7c15u;
    plan->key[0] ^= plan->key[0] >> 32; /* mixes the high bits in, because hash
                                           tables use the low ones */
    plan->key[1] = KEY;
    plan->group_size = ITEMS;
}

static uint64_t divide_up(int64_t x, int64_t by)
{
    return (uint64_t)((x + by - 1) / by);
}

tn_status tn__next_quantised(const tn_target *target, const tn_program *program,
                             const void *given, tn_plan *plan)
{
    const tn_quantised_product_args *args = given;
    const int format = find(args->format);
    tn_status status = tn__quantised_takes(target, args->format);
    (void)program;
    if (status)
        return status;
    const int64_t m = args->m, n = args->n, units = args->k / UNIT;
    const bool multiplies = args->a.buffer != NULL;
    const int64_t row_bytes =
        units / formats[format].units * formats[format].bytes;
    plan->step_count = multiplies ? 2 : 1;
    plan->flags = multiplies ? TN_PLAN_SCRATCH : 0;
    plan->scratch_bytes = (uint64_t)(m * units) * RECORD_BYTES;
    plan->buffer_count = 0;
    if (multiplies)
        plan->buffer[plan->buffer_count++] = args->a.buffer;
    plan->buffer[plan->buffer_count++] = args->b.buffer;
    plan->buffer[plan->buffer_count++] = args->c.buffer;
    if (!multiplies) {
        choose(plan, format, NUMBERS, 0);
        plan->group_count = (uint64_t)n * divide_up(units, NUMBERS_UNITS);
    } else if (plan->step == 0) {
        /* the rounding depends on the size of a block only, so all formats with
         * blocks of this size use one kernel */
        choose(plan, find(TN_BLOCK + (formats[format].units == 1 ? 2 : 12)),
               ROUND, 0);
        plan->group_count = divide_up(m * units, ROUND_UNITS);
    } else if (m <= FEW_M || target->flags & TN_TARGET_CHUNKED) {
        const int tokens = m == 1 ? 1 : FEW_TOKENS;
        choose(plan, format, FEW, tokens);
        plan->group_count = divide_up(n, FEW_ROWS) * divide_up(m, tokens);
    } else {
        choose(plan, format, MANY, 0);
        plan->group_count =
            divide_up(n, MANY_ROWS) * divide_up(m, MANY_TOKENS);
    }
    const int64_t word[] = {
        m, n, units, args->a.offset, args->a.stride[0], args->b.offset,
        args->b.stride[0],
        args->b.offset + (n - 1) * args->b.stride[0] + row_bytes,
        args->c.offset, args->c.stride[0]};
    memcpy(plan->argument, word, sizeof word);
    plan->argument_bytes = sizeof word;
    if (plan->group_count > INT32_MAX || m > INT32_MAX || n > INT32_MAX)
        return tn__host->fail(TN_ERR_UNSUPPORTED,
                              "quantised-product: one launch cannot compute "
                              "%lld x %lld results of %lld products each",
                              (long long)m, (long long)n, (long long)args->k);
    return TN_OK;
}

/* Returns the contents of a file of quantised/. */
static const char *file(const char *name)
{
    const char *const *at = tn__quantised_text;
    while (*at && strcmp(*at, name) != 0)
        at += 2;
    return at[1];
}

tn_status tn__print_plan(const tn_target *target, const tn_program *program,
                    const tn_plan *plan, tn_source *source)
{
    static const char *const kernels[] = {[NUMBERS] = "numbers.cl",
                                          [ROUND] = "round.cl",
                                          [FEW] = "few.cl",
                                          [MANY] = "many.cl"};
    if (plan->key[1] != KEY)
        return tn__host->print(target, program, plan, source);
    const int format = (int)(plan->variant & 255);
    const int tokens = (int)(plan->variant >> 16);
    const char *common = file("common.cl");
    const char *kernel = file(kernels[plan->variant >> 8 & 255]);
    const size_t room = strlen(common) + strlen(kernel) + 256;
    char *text = malloc(room);
    if (!text)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a kernel");
    int length = snprintf(text, room,
                          "#define TK_FORMAT %d\n#define TK_BYTES %d\n"
                          "#define TK_UNITS %d\n",
                          formats[format].number, formats[format].bytes,
                          formats[format].units);
    if (tokens)
        length += snprintf(text + length, room - (size_t)length,
                           "#define TK_TOKENS %d\n", tokens);
    snprintf(text + length, room - (size_t)length, "%s%s", common, kernel);
    tn_status status = tn__host->print_text(target, plan, "tn_quantised", text,
                                            source);
    free(text);
    return status;
}
