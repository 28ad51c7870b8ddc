/* Tests offsets of more than 2^31 elements. Kernels use 32-bit indices where
 * those suffice, and 64-bit indices if an operand's offsets exceed them. Runs
 * on the simulated driver, where unused memory costs nothing and an access out
 * of bounds is detected. */
#include <tenon/tenon.h>

#include "on_sim.h"

enum { FEW = 24 };
static const int64_t far = ((int64_t)1 << 31) + 64;

static double total(tn_tensor *x)
{
    return tn_item(tn_sum(tn_to_dtype(x, TN_F32)));
}

static void print_far(void)
{
    tn_log_set(NULL, NULL);
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *x = tn_empty(tn_dims(far), .dtype = TN_U8);
    tn_tensor *last = tn_narrow(x, 0, far - FEW, FEW);
    tn_fill_scalar_(last, 3);
    printf("%.0f", total(last));
    /* a stride of 2^29 elements: offsets 0, 2^29, ... 2^31 */
    tn_tensor *apart = tn_as_strided(x, tn_dims(5), tn_dims((int64_t)1 << 29));
    tn_copy_(apart, tn_to_dtype(tn_arange(1, 6, 1), TN_U8));
    printf(" %.0f %.0f", total(apart), tn_item(tn_to_dtype(tn_narrow(
                                           x, 0, (int64_t)1 << 31, 1), TN_F32)));
    const int64_t places[] = {(int64_t)1 << 31, far - 1, far - FEW, 0};
    tn_tensor *at = tn_tensor_from_array(places, TN_I64, tn_dims(4));
    printf(" %.0f", total(tn_index_select(x, 0, at)));
    /* rows with a stride of 2^30 elements */
    tn_tensor *rows = tn_as_strided(x, tn_dims(3, FEW),
                                    tn_dims((int64_t)1 << 30, 1));
    tn_fill_scalar_(rows, 1);
    printf(" %.0f", total(tn_sum(tn_to_dtype(rows, TN_F32), .dim = 1)));
    tn_device_synchronize(NULL);
    if (tn_error())
        printf("; %s", tn_error());
}

int main(int argc, char **argv)
{
    (void)argc;
    plan_later();
    on_sim(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    is_str(in_child(print_far), "72 15 5 12 72",
           "views, strides, places and rows beyond 2^31 elements");
    return done_testing();
}
