/* Results do not depend on the floating-point rounding mode of the thread that
 * submits the work: parameters that float32 cannot represent are rounded to
 * nearest, and so are all results. TENON_TEST_PLUGIN names the plugin; if
 * unset: cpu and reference. */
#include <fenv.h>
#include <tenon/tenon.h>

#include "plugins/folder.h"
#include "tap.h"

enum { MOST = 64 };

/* Computes with numbers that float32 cannot represent, so that rounding up and
 * rounding down differ. */
static tn_tensor *parameter(tn_tensor *x)
{
    return tn_mul_scalar(x, 0.7);
}
static tn_tensor *option(tn_tensor *x)
{
    return tn_add(x, x, .alpha = -0.3);
}
static tn_tensor *space(tn_tensor *x)
{
    return tn_mul_scalar(tn_transpose(x, 0, 1), 1.1);
}
static tn_tensor *rows(tn_tensor *x)
{
    return tn_softmax(tn_mul_scalar(x, 0.7), 1);
}
static tn_tensor *product(tn_tensor *x)
{
    return tn_addmm(x, x, x, .beta = 0.7, .alpha = -1.3);
}
static tn_tensor *sums(tn_tensor *x)
{
    return tn_cumsum(tn_exp(x), 1);
}
static tn_tensor *attention(tn_tensor *x)
{
    tn_tensor *q = tn_reshape(x, tn_dims(1, 1, 8, 8));
    return tn_scaled_dot_product_attention(q, q, q, NULL, .scale = 0.7);
}

static const struct {
    const char *name;
    tn_tensor *(*run)(tn_tensor *x);
} work[] = {{"a number", parameter}, {"an option", option},
            {"a number over a space", space}, {"rows", rows},
            {"alpha and beta", product}, {"sums", sums},
            {"a scale", attention}};

static void test_device(const char *name)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    tn_device *device = tn_device_open(name);
    if (!ok(device, "%s is open", name)) {
        note("%s", tn_error());
        return;
    }
    tn_device_set(device);
    tn_tensor *x = tn_reshape(tn_sin(tn_arange(0.0, 64.0, 1.0)),
                              tn_dims(8, 8));
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        float want[MOST], got[MOST];
        tn_tensor *y = work[i].run(x);
        bool same = tn_tensor_to_array(y, want, sizeof want) >= 0;
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            fesetround(modes[m]);
            y = work[i].run(x);
            same = tn_tensor_to_array(y, got, sizeof got) >= 0 && same;
            same = fegetround() == modes[m] && same;
            fesetround(FE_TONEAREST);
            same = same && memcmp(got, want, sizeof got) == 0;
        }
        if (!ok(same, "%s: %s has the same bits in each mode", name,
                work[i].name))
            note("%s", tn_error() ? tn_error() : "bits differ");
        tn_error_clear();
    }
}

/* At its first use, an operator's kernel source is parsed and compiled. */
static const char *first_name;
static int first_mode;

static void first_use(void)
{
    tn_log_set(NULL, NULL);
    tn_device_set(tn_device_open(first_name));
    fesetround(first_mode);
    tn_tensor *x = tn_sub_scalar(tn_mul_scalar(tn_arange(0.0, 64.0, 1.0), 0.1),
                                 3.0);
    tn_tensor *y[] = {x, tn_gelu(x), tn_sin(x), tn_exp(x), tn_silu(x),
                      tn_erf(x), tn_log_softmax(x, 0), tn_std(x)};
    for (size_t i = 0; i < sizeof y / sizeof *y; i++)
        printf("%a ", tn_item(tn_sum(y[i])));
    printf("%s", tn_error() ? tn_error() : "");
}

static void test_first_use(const char *name)
{
    char want[1024];
    first_name = name;
    first_mode = FE_TONEAREST;
    snprintf(want, sizeof want, "%s", in_child(first_use));
    first_mode = FE_UPWARD;
    is_str(in_child(first_use), want,
           "%s: operators first used in another mode are the same", name);
}

int main(void)
{
    const char *name = getenv("TENON_TEST_PLUGIN");
    plan_later();
    if (name) {
        test_first_use(name);
        test_device(name);
    } else {
        test_first_use("reference");
        test_first_use("cpu");
        test_device("reference");
        test_device("cpu");
    }
    return done_testing();
}
