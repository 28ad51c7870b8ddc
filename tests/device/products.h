/* products.h: matrix products for tests of a vendor's library. The numbers are
 * small integers, so that every order of summation gives the same result: any
 * difference from the cpu's is an error. */
#ifndef TN_TESTS_DEVICE_PRODUCTS_H
#define TN_TESTS_DEVICE_PRODUCTS_H

#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "../tap.h"

static tn_dtype dtype; /* dtype of all operands */
static bool fractions; /* the numbers have fractions, so the bits of the results
                        * are compared */

/* Returns the numbers -2 to 2 in a pseudo-random order. */
static tn_tensor *numbers(int64_t matrices, int64_t rows, int64_t columns,
                          int64_t salt)
{
    const int64_t count = matrices * rows * columns;
    double *value = malloc(sizeof *value * (size_t)count);
    if (!value)
        bail_out("out of memory");
    for (int64_t i = 0; i < count; i++)
        value[i] = fractions ? (double)((i * 7919 + salt * i / 3) % 1009) / 57 - 8
                             : (double)((i * i + salt * i + i / 7) % 5 - 2);
    tn_tensor *x = tn_tensor_from_array(value, TN_F64,
                                        tn_dims(matrices, rows, columns));
    free(value);
    return tn_to_dtype(x, dtype);
}

typedef struct product {
    const char *name;
    int64_t batch, m, n, k;
    /* The layout of an operand. t: transposed; b: broadcast over the batch; w:
     * rows with gaps; s: every second column, which no library supports. */
    const char *a, *b;
    bool added; /* computes 3 a b - 2 c */
} product;

static const product products[] = {
    {"one", 1, 17, 13, 29, "", "", false},
    {"b turned, as a layer has it", 1, 33, 20, 64, "", "t", false},
    {"a turned, as its gradient has it", 1, 20, 64, 33, "t", "", false},
    {"both turned", 1, 9, 31, 5, "t", "t", false},
    {"tiles", 1, 128, 128, 128, "", "", false},
    {"a row", 1, 1, 50, 40, "", "", false},
    {"a column", 1, 50, 1, 40, "", "t", false},
    {"parts of wider ones", 1, 12, 14, 16, "w", "w", false},
    {"elements apart", 1, 12, 14, 16, "s", "", false},
    {"a batch", 6, 11, 12, 13, "", "t", false},
    {"one b for a batch", 5, 8, 9, 10, "", "b", false},
    {"one a for a batch", 5, 8, 9, 10, "bt", "", false},
    {"added to c", 1, 21, 22, 23, "", "", true},
    {"a batch, added to c", 3, 21, 22, 23, "", "t", true},
};

static tn_tensor *operand(const product *p, const char *how, int64_t rows,
                          int64_t columns, int64_t salt)
{
    const bool turned = strchr(how, 't') != NULL;
    int64_t shape[3] = {strchr(how, 'b') ? 1 : p->batch, rows, columns};
    if (turned) {
        shape[1] = columns;
        shape[2] = rows;
    }
    if (strchr(how, 's'))
        shape[2] *= 2;
    if (strchr(how, 'w'))
        shape[2] += 3;
    tn_tensor *x = numbers(shape[0], shape[1], shape[2], salt);
    if (strchr(how, 's'))
        x = tn_slice(x, 2, 0, shape[2], 2);
    if (strchr(how, 'w'))
        x = tn_narrow(x, 2, 1, shape[2] - 3);
    return turned ? tn_transpose(x, 1, 2) : x;
}

static tn_tensor *multiply(const product *p)
{
    tn_tensor *a = operand(p, p->a, p->m, p->k, 3);
    tn_tensor *b = operand(p, p->b, p->k, p->n, 1);
    if (p->added)
        return tn_baddbmm(numbers(p->batch, p->m, p->n, 2), a, b, .beta = -2,
                          .alpha = 3);
    if (p->batch == 1) {
        a = tn_select(a, 0, 0);
        b = tn_select(b, 0, 0);
    }
    return tn_matmul(a, b);
}

/* Computes a product on the device and on the cpu with the same calls. Returns
 * the largest difference; -1 if one fails. */
static double difference(const product *p, tn_device *device)
{
    tn_scope *scope = tn_scope_open();
    tn_device_set(tn_device_open("cpu"));
    tn_tensor *want = multiply(p);
    tn_device_set(device);
    tn_tensor *got = tn_to(multiply(p), tn_device_open("cpu"));
    double apart = tn_item(tn_max(tn_abs(tn_sub(want, got))));
    if (tn_error()) {
        note("%s: %s", p->name, tn_error());
        apart = -1;
    }
    tn_scope_close(scope);
    return apart;
}

#endif
