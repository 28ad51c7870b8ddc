/* Tests gradients that refer to their own tensor. Setting a gradient that would
 * keep its tensor alive forever is an error; a graph that only leads to the
 * tensor is freed with it. */
#include "../tap.h"
#include <base/memory.h>
#include <string.h>
#include <tenon/tenon.h>

static int64_t live_bytes(void)
{
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(NULL, &stats);
    return stats.allocated_bytes;
}

static tn_tensor *leaf(void)
{
    return tn_requires_grad(tn_randn(tn_dims(64, 64)));
}

static void refused(tn_status status, const char *why, const char *name)
{
    ok(status == TN_ERR_STATE && tn_error() && strstr(tn_error(), why),
       "%s: %s", name, tn_error() ? tn_error() : "nothing");
    tn_error_clear();
}

static void set_rings(void)
{
    tn_tensor *x = leaf(), *y = leaf(), *z = leaf();
    refused(tn_tensor_set_grad(x, x), "grad is x itself",
            "x as its own gradient is refused");
    is_int(tn_tensor_set_grad(x, y), TN_OK,
           "y is accepted as the gradient of x");
    refused(tn_tensor_set_grad(y, x), "grad holds x",
            "x as the gradient of y is refused");
    is_int(tn_tensor_set_grad(y, z), TN_OK,
           "z is accepted as the gradient of y");
    refused(tn_tensor_set_grad(z, x), "grad holds x",
            "x as the gradient of z is refused");
    refused(tn_tensor_set_grad(z, tn_mul(x, x)), "grad holds x",
            "a gradient computed from x is refused, too");
    ok(tn_tensor_grad(z) == NULL, "a refused gradient changes nothing");
    is_int(tn_tensor_set_grad(z, tn_clone(tn_detach(x))), TN_OK,
           "a copy of x is fine");
    tn_tensor *h = tn_mul(x, x);
    tn_tensor_retain_grad(h);
    refused(tn_tensor_set_grad(h, h), "grad is x itself",
            "a tensor that retains its gradient");
    is_int(tn_tensor_set_grad(x, tn_mul(x, y)), TN_OK,
           "a result of x holds no tensor");
}

static void set_graph(void)
{
    tn_tensor *x = leaf();
    tn_tensor_set_grad(x, tn_mul(x, x));
}

static void create_graph(void)
{
    tn_tensor *x = leaf();
    tn_backward(tn_sum(tn_mul(x, tn_mul(x, x))), .create_graph = true);
}

static void retain_graph(void)
{
    tn_tensor *x = leaf(), *h = tn_mul(x, x);
    tn_tensor_retain_grad(h);
    tn_backward(tn_sum(tn_mul(h, h)), .create_graph = true);
}

/* If a leaf is freed before its graph, a later gradient for it is dropped. */
static void leaf_first(void)
{
    tn_scope *inner = tn_scope_open();
    tn_tensor *x = leaf();
    tn_tensor *loss = tn_scope_result(inner, tn_sum(tn_mul(x, tn_mul(x, x))));
    is_int(tn_backward(loss, .create_graph = true), TN_OK,
           "backward to a leaf that was freed");
}

static void leaves_nothing(void (*run)(void), const char *name)
{
    tn_scope *scope = tn_scope_open();
    run();
    tn_scope_close(scope);
    int64_t before = live_bytes(), blocks = tn__memory_live();
    for (int i = 0; i < 20; i++) {
        scope = tn_scope_open();
        run();
        tn_scope_close(scope);
    }
    is_int(live_bytes(), before, "%s leaves nothing", name);
    is_int(tn__memory_live(), blocks, "nor any memory of the host");
    ok(!tn_error(), "and no error");
}

int main(void)
{
    plan_later();
    leaves_nothing(set_rings, "what is refused");
    leaves_nothing(set_graph, "a gradient made of its own tensor");
    leaves_nothing(create_graph, "create_graph");
    leaves_nothing(retain_graph, "create_graph with a retained gradient");
    leaves_nothing(leaf_first, "a leaf that goes before its graph");
    /* The gradient lives as long as its leaf. */
    tn_tensor *x = leaf(), *g = NULL;
    tn_backward(tn_sum(tn_mul(x, tn_mul(x, x))), .create_graph = true);
    is_int(tn_grad(tn_sum(tn_tensor_grad(x)), &x, 1, &g), TN_OK,
           "a gradient's own gradient");
    ok(g && !tn_error(), "the gradient's own gradient exists");
    return done_testing();
}
