/* test_data_parallel.c: a module on several devices of one process: values and
 * gradients of one device, several inputs and outputs, buffers, random numbers,
 * and what is refused. Devices that are not here are left out. */
#include "tap.h"

#include <tenon/parallel.h>
#include <tenon/tenon.h>

static tn_device *cpu;

static tn_device *open_if_there(const char *name)
{
    tn_device *device = tn_device_open(name);
    if (!device) {
        note("%s is left out: %s", name, tn_error());
        tn_error_clear();
    }
    return device;
}

/* ---- a model with two inputs and two outputs ------------------------------ */

typedef struct cross {
    tn_module base;
    tn_module *fc, *norm;
} cross;

static void cross_forward(tn_module *self, tn_tensor *const *in, int in_count,
                          tn_tensor **out, int out_count)
{
    cross *c = (cross *)self;
    (void)in_count;
    tn_tensor *h = tn_tanh(tn_forward(c->fc, in[0]));
    if (in[1])
        h = tn_mul(h, in[1]);
    out[0] = tn_forward(c->norm, h);
    if (out_count > 1)
        out[1] = tn_mean(h);
}
static const tn_module_class cross_class =
    TN_MODULE_CLASS(cross, "Cross", .forward_list = cross_forward,
                    .signature = "x, scale? -> y, mean");

static tn_module *cross_new(bool batch)
{
    cross *c = tn_module_new(&cross_class);
    TN_MODULE_ADD(c, fc, tn_nn_linear(6, 10));
    TN_MODULE_ADD(c, norm, batch ? tn_nn_batch_norm1d(10)
                                 : tn_nn_layer_norm(tn_dims(10)));
    return (tn_module *)c;
}

static double distance(tn_tensor *a, tn_tensor *b)
{
    if (!a || !b)
        return INFINITY;
    if (tn_tensor_numel(a) == 0 && tn_tensor_numel(b) == 0)
        return 0;
    return tn_item(tn_amax(tn_abs(tn_sub(tn_to(a, cpu), tn_to(b, cpu)))));
}

/* Values and gradients against net alone. Other devices sum in another order:
 * 1e-5 for sums of 13 float32 products of numbers of about 1. */
static void compare(tn_device *const *devices, int count, int64_t rows,
                    const char *what)
{
    tn_device_set(devices[0]);
    TN_SCOPE(scope) {
        tn_manual_seed(2);
        tn_module *net = cross_new(false);
        tn_module *alone = tn_module_clone(net);
        tn_module *many = tn_data_parallel(net, devices, count);
        tn_tensor *x = tn_randn(tn_dims(rows, 6));
        tn_tensor *scale = tn_rand(tn_dims(rows, 1));
        tn_tensor *out[2], *want[2];
        tn_requires_grad(x);
        tn_forward_list(many, (tn_tensor *[]){x, scale}, 2, out, 2);
        tn_backward(tn_sum(tn_square(out[0])));
        tn_tensor *x_grad = tn_clone(tn_tensor_grad(x));
        tn_tensor_set_grad(x, NULL);
        tn_forward_list(alone, (tn_tensor *[]){x, scale}, 2, want, 2);
        tn_backward(tn_sum(tn_square(want[0])));
        bool good = !tn_error() && distance(out[0], want[0]) < 1e-5 &&
                    tn_tensor_device(out[0]) == devices[0] &&
                    distance(x_grad, tn_tensor_grad(x)) < 1e-5;
        tn_parameter_list *p = tn_parameters(net), *q = tn_parameters(alone);
        for (int i = 0; i < tn_parameters_count(p) && good; i++)
            good = distance(tn_tensor_grad(tn_parameters_at(p, i)),
                            tn_tensor_grad(tn_parameters_at(q, i))) < 1e-5;
        const int parts = rows < 1 ? 1 : rows < count ? (int)rows : count;
        good = good && (parts == 1 ? tn_tensor_ndim(out[1]) == 0
                                   : tn_tensor_size(out[1], 0) == parts);
        if (!ok(good, "%s", what))
            note("%s", tn_error() ? tn_error() : "differs");
        tn_error_clear();
    }
    tn_device_set(NULL);
}

/* ---- buffers and random numbers ------------------------------------------- */

static void check_buffers(void)
{
    tn_device *twice[] = {cpu, cpu};
    tn_manual_seed(2);
    tn_module *net = cross_new(true), *alone = tn_module_clone(net);
    tn_module *many = tn_data_parallel(net, twice, 2);
    tn_tensor *x = tn_randn(tn_dims(8, 6));
    tn_forward(many, x);
    tn_forward(alone, tn_narrow(x, 0, 0, 4));
    ok(!tn_error() &&
           distance(tn_module_buffer(net, "norm.running_mean"),
                    tn_module_buffer(alone, "norm.running_mean")) == 0,
       "batch statistics are those of the first part");
    is_int(tn_item_int(tn_module_buffer(net, "norm.num_batches_tracked")), 1,
           "counted once");
}

static void check_random(void)
{
    tn_device *twice[] = {cpu, cpu};
    tn_module *many = tn_data_parallel(tn_nn_dropout(0.5), twice, 2);
    tn_tensor *x = tn_ones(tn_dims(2, 64)), *y[3];
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            tn_manual_seed(7);
        y[i] = tn_forward(many, x);
    }
    ok(distance(y[0], y[1]) == 0, "the same seed, the same bits");
    ok(distance(y[1], y[2]) > 0, "other numbers in the next call");
    ok(distance(tn_select(y[0], 0, 0), tn_select(y[0], 0, 1)) > 0,
       "other numbers in each part");
}

/* A module that fails on the second device's part. */
static tn_tensor *picky_forward(tn_module *self, tn_tensor *x)
{
    (void)self;
    return tn_tensor_size(x, 0) == 1
               ? tn_matmul(x, tn_ones(tn_dims(5, 5)))
               : tn_mul_scalar(x, 2);
}
static const tn_module_class picky_class =
    TN_MODULE_CLASS(tn_module, "Picky", .forward = picky_forward);

static void refuses(bool failed, const char *text)
{
    const bool good = failed && tn_error() && strstr(tn_error(), text);
    if (!ok(good, "refuses: %s", text))
        note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void check_refused(tn_device *other)
{
    tn_device *twice[] = {cpu, cpu}, *none[] = {cpu, NULL};
    tn_module *net = cross_new(false);
    refuses(!tn_data_parallel(NULL, twice, 2), "data_parallel");
    refuses(!tn_data_parallel(net, NULL, 2), "devices is NULL");
    refuses(!tn_data_parallel(net, twice, 0), "count is 0");
    refuses(!tn_data_parallel(net, twice, 65), "count is 65");
    refuses(!tn_data_parallel(net, none, 2), "devices[1] is NULL");
    tn_module *many = tn_data_parallel(net, twice, 2);
    tn_tensor *x = tn_ones(tn_dims(4, 6));
    refuses(!tn_forward(many, x, tn_ones(tn_dims(3, 1))),
            "input 0 has 4 rows, input 1 has 3");
    refuses(!tn_forward(many, tn_ones(TN_SCALAR)), "no dimension 0");
    refuses(!tn_forward(many, tn_ones(tn_dims(4, 5))), "linear");
    tn_module *picky = tn_module_new(&picky_class);
    refuses(!tn_forward(tn_data_parallel(picky, twice, 2), tn_ones(tn_dims(3, 6))),
            "part 1 on cpu:0: ");
    if (other) {
        tn_device *far[] = {other, cpu};
        refuses(!tn_data_parallel(net, far, 2), "devices[0] is");
    }
}

int main(void)
{
    plan_later();
    tn_device *first = tn_device_current();
    cpu = tn_device_open("cpu");
    if (!first || !cpu)
        bail_out("%s", tn_error());
    tn_device *reference = open_if_there("reference");
    tn_device *opencl = open_if_there("opencl");
    tn_device_set(cpu);
    tn_device *three[] = {cpu, cpu, cpu};
    compare(three, 1, 13, "one device");
    compare(three, 3, 13, "three parts on one device, of different sizes");
    compare(three, 3, 2, "fewer rows than devices");
    compare(three, 3, 0, "no rows");
    if (reference)
        compare((tn_device *[]){cpu, reference}, 2, 13, "cpu and reference");
    if (opencl)
        compare((tn_device *[]){opencl, cpu, opencl}, 3, 13,
                "opencl, cpu, opencl");
    if (first != cpu)
        compare((tn_device *[]){first, cpu, first}, 3, 13,
                "the default device and cpu");
    char name[64];
    const char *colon = strchr(tn_device_name(first), ':');
    snprintf(name, sizeof name, "%.*s:1",
             colon ? (int)(colon - tn_device_name(first)) : 0,
             tn_device_name(first));
    tn_device *second = open_if_there(name);
    if (second)
        compare((tn_device *[]){first, second}, 2, 13,
                "two devices of the default plugin");
    tn_device_set(cpu);
    check_buffers();
    check_random();
    check_refused(reference);
    tn_module *net = tn_data_parallel(tn_nn_relu(), three, 2);
    is_str(tn_module_signature(net), "input -> output", "the signature of net");
    return done_testing();
}
