/* check_quantised.c: checks that the extension "quantised-product" gives
 * results bit-identical to the definition in the core (lib/kernel/blocks.c).
 * Some checks dequantise instead of multiplying. */
#include "check_quantised.h"

#include "kernel/blocks.h"
#include "operand.h"

static operand a, b, c;

/* Fills b with blocks of random bytes. Now and then they have scales that are
 * infinite or NaN. */
static void fill_blocks(void)
{
    for (int64_t i = 0; i < b.count; i++)
        operand_store(&b, operand_offset(&b, i),
                      (tn_number){.i = random_below(&now.source, 256)});
    operand_read(&b);
}

static void product_plain(const tn__block_format *format, int64_t m, int64_t n,
                          int64_t k)
{
    static uint8_t bytes[OPERAND_POINTS];
    static int8_t rounded[OPERAND_POINTS];
    static float s[OPERAND_POINTS / TN__BLOCK_LEAST], x[OPERAND_POINTS];
    const int64_t row = k / format->elements * format->bytes;
    tn__rounded_row rounded_row = {rounded, s};
    for (int64_t i = 0; i < b.count; i++)
        bytes[i] = (uint8_t)b.value[i].i;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < k; j++)
            x[j] = (float)a.value[i * k + j].f;
        tn__row_round(format, x, k, &rounded_row);
        for (int64_t j = 0; j < n; j++) {
            c.value[i * n + j].f = (double)tn__row_product(
                format, bytes + j * row, &rounded_row, k);
            c.tolerance[i * n + j] = 0;
        }
    }
}

static void numbers_plain(const tn__block_format *format)
{
    static uint8_t bytes[OPERAND_POINTS];
    static float numbers[OPERAND_POINTS];
    for (int64_t i = 0; i < b.count; i++)
        bytes[i] = (uint8_t)b.value[i].i;
    tn__blocks_dequantize(format, bytes, b.count / format->bytes, numbers);
    for (int64_t i = 0; i < c.count; i++) {
        c.value[i].f = (double)numbers[i];
        c.tolerance[i] = 0;
    }
}

tn_status quantised_case(const tn_quantised_product_extension *product,
                         int64_t *wrong)
{
    static const char *const names[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0",
                                        "Q5_1", "Q4_K", "Q5_K", "Q6_K"};
    const tn__block_format *format =
        tn__block_format_find(names[random_below(&now.source, 8)]);
    const bool large = format->elements == TN__BLOCK_MOST;
    const bool multiplies = random_chance(&now.source, 75);
    const int64_t m =
        multiplies ? random_between(&now.source, 1, large ? 5 : 19) : 0;
    const int64_t n = random_between(&now.source, 1, large ? 5 : 19);
    const int64_t blocks = random_between(&now.source, 1, large ? 3 : 6);
    const int64_t k = blocks * format->elements;
    operand_init_dense(&a, TN_F32, 2, (int64_t[]){multiplies ? m : 1, k});
    operand_init_dense(&b, TN_U8, 2, (int64_t[]){n, blocks * format->bytes});
    operand_init_dense(&c, TN_F32, 2,
                       (int64_t[]){multiplies ? m : n, multiplies ? n : k});
    a.name = "a", b.name = "b", c.name = "c";
    operand_fill(&a, !random_chance(&now.source, 10));
    fill_blocks();
    operand_send(&a), operand_send(&b), operand_send(&c);
    tn_quantised_product_args args = {
        .size = sizeof args, .format = format->code, .m = m, .n = n, .k = k,
        .b = b.view, .c = c.view};
    if (multiplies)
        args.a = a.view;
    operand_words("quantised-product", format->name, k, &b);
    operand_enter();
    tn_status status = product->takes(now.device->device, args.format);
    if (!status)
        status = product->run(now.device->queue, &args);
    operand_leave();
    if (!status && multiplies)
        product_plain(format, m, n, k);
    else if (!status)
        numbers_plain(format);
    *wrong = operand_receive(&a) + operand_receive(&b) + operand_receive(&c);
    return status;
}
