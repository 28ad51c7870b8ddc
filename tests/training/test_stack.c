/* Measures the stack that calls need: docs/threading.md guarantees that 512 KiB
 * are enough for each call on the cpu, for any arguments. Each kind of
 * recursive call runs at its largest depth, on a stack that was filled with a
 * pattern. Drivers of other devices compile in the calling thread, and a
 * sanitizer's frames are larger; there the test only checks that no call
 * crashes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tap.h>
#include <tenon/tenon.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

enum { PROMISED = 512 << 10, ROOM = 16 << 20, PAINT = 0xa5 };

static bool holds; /* whether the guarantee applies here */

/* ---- recursive calls ----------------------------------------------------- */

/* Defines an operator whose source is `open` repeated, middle, and `close`
 * repeated as often. */
static const tn_op *define(const char *before, const char *open,
                           const char *middle, const char *close, int times)
{
    const size_t length = strlen(before) + strlen(middle) +
                          (strlen(open) + strlen(close)) * (size_t)times;
    char *text = malloc(length + 1), *at = stpcpy(text, before);
    for (int i = 0; i < times; i++)
        at = stpcpy(at, open);
    at = stpcpy(at, middle);
    for (int i = 0; i < times; i++)
        at = stpcpy(at, close);
    const tn_op *op = tn_op_define(text);
    free(text);
    return op;
}

static void train(const tn_op *op)
{
    tn_tensor *x = tn_requires_grad(tn_full(tn_dims(4), 0.5));
    tn_tensor *y = op ? tn_op_apply(op, &x, NULL) : NULL;
    if (y)
        tn_backward(tn_sum(y));
}

static void parentheses(void)
{
    train(define("stack_a(x) = ", "(x-", "x", ")", 190));
    define("stack_b(x) = ", "(", "x", ")", 100000);
}

static void functions(void)
{
    train(define("stack_c(x) = ", "exp(", "x", ")", 90));
    define("stack_d(x) = ", "where(x > 0, ", "x", ", x)", 100000);
}

static void chain(void)
{
    train(define("stack_e(x) = x", "*x", "", "", 190));
}

static void nested_modules(void)
{
    tn_module *net = tn_nn_linear(4, 4);
    for (int i = 0; i < 100000; i++) {
        tn_module *outer = tn_nn_sequential(net);
        if (!outer)
            break;
        net = outer;
    }
    tn_error_clear();
    FILE *nowhere = fopen("/dev/null", "w");
    tn_module_train(net, true);
    tn_backward(tn_sum(tn_forward(net, tn_ones(tn_dims(2, 4)))));
    tn_module_print(nowhere, net);
    tn_module_save(net, "test_stack.st");
    unlink("test_stack.st");
    fclose(nowhere);
}

static void transformer(void)
{
    tn_module *net = tn_nn_transformer_encoder(8, 2, 2, .dim_feedforward = 16);
    tn_backward(tn_sum(tn_forward(net, tn_ones(tn_dims(2, 3, 8)))));
}

static void long_graph(void)
{
    tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(2))), *y = x;
    for (int i = 0; i < 20000; i++)
        y = tn_add_scalar(y, 1);
    tn_backward(tn_sum(y));
    tn_tensor *slope = NULL;
    y = x;
    for (int i = 0; i < 20; i++)
        y = tn_sin(y);
    tn_grad(tn_sum(y), &x, 1, &slope, .create_graph = true);
    tn_backward(tn_sum(slope));
}

static void linear_algebra(void)
{
    tn_tensor *a = tn_randn(tn_dims(2, 70, 70)), *v;
    tn_linalg_svd(a, &v, &v);
    tn_linalg_eigh(tn_add(a, tn_transpose(a, 1, 2)), &v);
    tn_linalg_solve(a, a);
    tn_einsum("ij,jk,kl->il", (tn_tensor *[]){tn_select(a, 0, 0),
                                              tn_select(a, 0, 1),
                                              tn_select(a, 0, 0)}, 3);
}

static void windows(void)
{
    tn_tensor *x = tn_requires_grad(tn_randn(tn_dims(2, 8, 20, 20)));
    tn_module *net = tn_nn_sequential(tn_nn_conv2d(8, 8, 3), tn_nn_relu(),
                                      tn_nn_max_pool2d(2));
    tn_backward(tn_sum(tn_forward(net, x)));
    tn_tensor *places;
    tn_sort(tn_randn(tn_dims(100000)), 0, false, &places);
}

static void files(void)
{
    tn_module *net = tn_nn_linear(4, 4);
    tn_optim *adam = tn_optim_adam(tn_parameters(net));
    tn_backward(tn_sum(tn_forward(net, tn_ones(tn_dims(2, 4)))));
    tn_optim_step(adam);
    tn_checkpoint all = {.size = sizeof all, .module = net, .optim = adam};
    tn_checkpoint_save("test_stack.ckpt", &all);
    tn_checkpoint_load("test_stack.ckpt", &all);
    unlink("test_stack.ckpt");
    FILE *file = fopen("test_stack.csv", "w");
    fputs("1,2,3\n4,5,6\n", file);
    fclose(file);
    tn_csv_load("test_stack.csv");
    unlink("test_stack.csv");
    /* JSON nested as deep as possible, which may be accepted or rejected */
    file = fopen("test_stack.st", "w");
    unsigned char size[8] = {0xf0, 0x30};
    fwrite(size, 1, 8, file);
    for (int i = 0; i < 0x30f0; i++)
        fputc('[', file);
    fclose(file);
    tn_safetensors_open("test_stack.st");
    unlink("test_stack.st");
}

static void printing(void)
{
    free(tn_tensor_text(tn_ones(tn_dims(1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2))));
}

/* ---- measuring the stack ------------------------------------------------- */

static void *start(void *call)
{
    tn_scope *scope = tn_scope_open();
    (*(void (**)(void))call)();
    tn_error_clear();
    tn_scope_close(scope);
    return NULL;
}

static void check(const char *what, void (*call)(void))
{
    pthread_t thread;
    pthread_attr_t attributes;
    unsigned char *stack = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        bail_out("no memory for a stack");
    memset(stack, PAINT, ROOM);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, ROOM);
    pthread_create(&thread, &attributes, start, &call);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    size_t clean = 0;
    while (clean < ROOM && stack[clean] == PAINT)
        clean++;
    const size_t used = ROOM - clean;
    ok(used <= PROMISED || !holds, "%s: %zu KiB of the stack", what, used >> 10);
    munmap(stack, ROOM);
}

int main(void)
{
    plan_later();
    const char *device = tn_device_name(tn_device_current());
    holds = !IS_SANITIZED &&
            (strncmp(device, "cpu", 3) == 0 || strncmp(device, "ref", 3) == 0);
    check("parentheses", parentheses);
    check("functions", functions);
    check("a chain", chain);
    check("modules within each other", nested_modules);
    check("a transformer", transformer);
    check("a long graph", long_graph);
    check("linear algebra", linear_algebra);
    check("windows and sorts", windows);
    check("files", files);
    check("printing", printing);
    return done_testing();
}
