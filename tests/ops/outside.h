/* outside.h: indices out of range on an asynchronous device: the call succeeds,
 * and the next wait reports operator, argument, value, position, shape and
 * range. */
#ifndef TN_TESTS_OPS_OUTSIDE_H
#define TN_TESTS_OPS_OUTSIDE_H

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#define LATE_AT(shape, ...)                                                    \
    tn_tensor_from_array((const int64_t[]){__VA_ARGS__}, TN_I64, shape)

/* Tests a device whose list of index faults cannot be cleared. The fault is
 * still reported, and no later call reports it again. `fail` makes the next
 * fill of device memory fail, `fail_no_more` ends that, and `say` prints the
 * error. */
static inline void outside_not_emptied(void (*fail)(void),
                                       void (*fail_no_more)(void),
                                       void (*say)(void))
{
    tn_tensor *x = tn_ones(tn_dims(5));
    tn_tensor *wrong = LATE_AT(tn_dims(1), 7), *right = LATE_AT(tn_dims(1), 2);
    tn_item(tn_index_select(x, 0, right));
    tn_index_select(x, 0, wrong);
    fail();
    tn_device_synchronize(NULL);
    printf("%s: ", tn_status_name(tn_error_code()));
    tn_error_clear();
    fail();
    tn_index_select(x, 0, right);
    say();
    fail_no_more();
    printf("; then %g", tn_item(tn_index_select(x, 0, right)));
}

static int late_right, late_count;

/* Checks that the call returned x, and that the wait reports the message `want`
 * and the same in the error details. */
static void late_told(tn_tensor *x, const char *device, const char *op,
                      const char *argument, const char *want)
{
    char text[400];
    bool given = x != NULL && !tn_error();
    if (x)
        tn_device_synchronize(tn_tensor_device(x));
    snprintf(text, sizeof text,
             "%s: %s (reported by device_synchronize when it waited for %s:0)",
             op, want,
             device);
    const tn_error_details *e = tn_error_info();
    bool right = given && e && strcmp(e->message, text) == 0 &&
                 strcmp(e->op, op) == 0 && strcmp(e->called, op) == 0 &&
                 (!*argument || (e->argument && e->has_index &&
                                 strcmp(e->argument, argument) == 0));
    late_count++;
    late_right += right;
    if (!right)
        printf("%s%s, not: %s; ", given ? "" : "at once ",
               e ? e->message : "no error", text);
    tn_error_clear();
}

/* Prints "all", or the errors that differ from the expected ones. */
static inline void late_print(const char *device)
{
#define TOLD(op, argument, call, want)                                         \
    late_told(call, device, op, argument, argument[0] ? argument " " want : want)
    tn_device_set(tn_device_open(device));
    tn_tensor *x = tn_reshape(tn_arange(0, 12, 1, .dtype = TN_F32),
                              tn_dims(3, 4));
    TOLD("gather", "index", tn_gather(x, 1, LATE_AT(tn_dims(2, 2), 0, 1, 9, 1)),
         "9 at position (1, 0) of (2, 2) is outside [0, 4)");
    TOLD("gather", "index", /* the index is transposed: position and shape are
                             * those of the view */
         tn_gather(tn_t(x), 0, tn_t(LATE_AT(tn_dims(3, 2), 0, 1, 2, 1, -5, 1))),
         "-5 at position (0, 2) of (2, 3) is outside [0, 4)");
    TOLD("index_select", "index", /* the index has a stride of 2 */
         tn_index_select(
             x, 0, tn_select(LATE_AT(tn_dims(3, 2), 9, 1, 9, 2, 9, 3), 1, 1)),
         "3 at position (2,) of (3,) is outside [0, 3)");
    TOLD("embedding", "input",
         tn_embedding(tn_to_dtype(LATE_AT(tn_dims(2, 2), 0, 1, 3, 1), TN_I32), x),
         "3 at position (1, 0) of (2, 2) is outside [0, 3)");
    TOLD("take", "index", tn_take(x, LATE_AT(tn_dims(2, 2), 0, -12, -13, 1)),
         "-13 at position (1, 0) of (2, 2) is outside [-12, 12)");
    TOLD("take", "index", tn_take(x, LATE_AT(tn_dims(2), 11, 12)),
         "12 at position (1,) of (2,) is outside [-12, 12)");
    TOLD("take_along_dim", "indices",
         tn_take_along_dim(x, LATE_AT(tn_dims(3, 1), 0, -4, 5), .dim = 1),
         "5 at position (2, 0) of (3, 1) is outside [-4, 4)");
    TOLD("scatter", "index",
         tn_scatter(x, 0, LATE_AT(tn_dims(2, 2), 0, 1, 3, 1),
                    tn_ones(tn_dims(2, 2))),
         "3 at position (1, 0) of (2, 2) is outside [0, 3)");
    TOLD("scatter", "index",
         tn_scatter_scalar(x, 1, tn_t(LATE_AT(tn_dims(2, 2), 0, 1, -1, 1)), 1),
         "-1 at position (0, 1) of (2, 2) is outside [0, 4)");
    TOLD("index_add", "index",
         tn_index_add(x, 0, LATE_AT(tn_dims(2), 0, 3), tn_ones(tn_dims(2, 4))),
         "3 at position (1,) of (2,) is outside [0, 3)");
    TOLD("index_fill", "index",
         tn_index_fill_scalar(x, 0, LATE_AT(tn_dims(2), -3, -4), 1),
         "-4 at position (1,) of (2,) is outside [-3, 3)");
    TOLD("put", "index",
         tn_put(x, LATE_AT(tn_dims(2), 0, -14), tn_ones(tn_dims(2)), false),
         "-14 at position (1,) of (2,) is outside [-12, 12)");
    TOLD("cross_entropy", "target",
         tn_cross_entropy(tn_ones(tn_dims(2, 3, 2)),
                          LATE_AT(tn_dims(2, 2), 0, 1, 2, 3)),
         "3 at position (1, 1) of (2, 2) is outside [0, 3)");
    TOLD("cross_entropy", "target",
         tn_cross_entropy(tn_requires_grad(tn_ones(tn_dims(3, 4))),
                          LATE_AT(tn_dims(3), -100, 1, -7)),
         "-7 at position (2,) of (3,) is outside [0, 4)");
    TOLD("linear_cross_entropy", "target", /* the operator works on blocks, so
                                            * the position is not exact */
         tn_linear_cross_entropy(x, tn_ones(tn_dims(5, 4)),
                                 LATE_AT(tn_dims(3), 0, 1, 9)),
         "9, somewhere in (3,), is outside [0, 5)");
    TOLD("remainder", "",
         tn_remainder(tn_ones(tn_dims(2, 2), .dtype = TN_I64),
                      LATE_AT(tn_dims(2), 1, 0)),
         "division by zero: other is 0 at position (0, 1)");
    /* The error has the module's path; later work does not overwrite it. */
    tn_module *net = tn_nn_sequential(tn_nn_embedding(3, 4));
    tn_tensor *rows = tn_forward(net, LATE_AT(tn_dims(2), 1, 8));
    for (int i = 0; i < 300; i++)
        x = tn_add(x, x);
    tn_device_synchronize(NULL);
    const tn_error_details *e = tn_error_info();
    late_count++;
    if (rows && e && strcmp(e->path, "0") == 0 &&
        strncmp(e->message, "0: embedding: input 8 at position (1,) ", 39) == 0)
        late_right++;
    else
        printf("%s; ", tn_error() ? tn_error() : "no error");
    if (late_right == late_count)
        printf("all");
#undef TOLD
}

#endif
