/* On a GPU with cuDNN, its attention equals that of the plugin's kernels and,
 * within a half type's rounding, that of float32 on the cpu. Where cuDNN
 * declines, results are bit-identical to those of the plugin's kernels. SKIP
 * without such a GPU. */
#include "../plugins/folder.h"
#include <tenon/tenon.h>

typedef struct sizes {
    tn_dtype dtype;
    int64_t batch, heads, kv_heads, queries, keys, features, values;
    bool causal;
    int mask; /* 0: none; 1: float, one for each head; 2: like 1, and the first
               * query attends to no key */
    bool laid; /* layout (batch, length, heads, features), as layers pass it */
} sizes;

static const sizes all[] = {
    {TN_F16, 2, 4, 4, 128, 128, 64, 64, false, 0, false},
    {TN_BF16, 2, 4, 4, 256, 256, 64, 64, true, 0, true},
    {TN_BF16, 1, 8, 2, 200, 136, 128, 128, true, 0, false},
    {TN_F16, 1, 8, 1, 70, 70, 32, 32, true, 0, true},
    {TN_F16, 1, 2, 2, 130, 72, 40, 16, false, 0, false},
    {TN_BF16, 2, 4, 2, 96, 128, 64, 64, false, 1, false},
    {TN_F16, 2, 4, 4, 64, 128, 64, 64, false, 1, true},
    {TN_F16, 2, 4, 4, 64, 128, 64, 64, false, 2, false},
    {TN_F16, 1, 2, 2, 1, 512, 64, 64, false, 0, false},
};
enum { CASES = sizeof all / sizeof *all, RESULTS = 4 };

static int taken; /* number of attention calls that cuDNN computed, from the
                   * log */
static int right, wrong; /* number of checks of cuDNN in the log that passed and
                          * failed */
static char last_wrong[512];

static void look(int level, const char *line, void *context)
{
    (void)level;
    (void)context;
    right += strstr(line, "attention of ") && strstr(line, " uses cuDNN: ");
    if (strstr(line, "attention of ") &&
        strstr(line, " uses Tenon's own kernels: cuDNN's error")) {
        snprintf(last_wrong, sizeof last_wrong, "%s", line);
        wrong++;
    }
    taken += strstr(line, "cuDNN computes the ") &&
             strstr(line, "attention") != NULL;
}

/* Returns the same numbers each time, on any device. */
static tn_tensor *some(const sizes *s, int64_t heads, int64_t length,
                       int64_t size, tn_device *device, bool wide)
{
    tn_tensor *x = s->laid ? tn_transpose(tn_randn(tn_dims(s->batch, length,
                                                           heads, size)),
                                          1, 2)
                           : tn_randn(tn_dims(s->batch, heads, length, size));
    x = tn_to_dtype(x, s->dtype);
    return tn_to(wide ? tn_to_dtype(x, TN_F32) : x, device);
}

/* Computes the result and the gradients, as float32 on the cpu. */
static void run(const sizes *s, tn_device *device, bool wide,
                tn_tensor *out[RESULTS])
{
    tn_device *cpu = tn_device_open("cpu");
    tn_tensor *in[3], *mask = NULL;
    tn_device_set(cpu);
    tn_manual_seed(7);
    in[0] = some(s, s->heads, s->queries, s->features, device, wide);
    in[1] = some(s, s->kv_heads, s->keys, s->features, device, wide);
    in[2] = some(s, s->kv_heads, s->keys, s->values, device, wide);
    tn_tensor *g =
        some(s, s->heads, s->queries, s->values, device, wide);
    if (s->mask) {
        mask = tn_randn(tn_dims(s->heads, s->queries, s->keys));
        if (s->mask == 2) {
            tn_tensor *first = tn_lt_scalar(
                tn_arange(0, (double)s->queries, 1), 1);
            mask = tn_masked_fill_scalar(mask, tn_unsqueeze(first, 1),
                                         -INFINITY);
        }
        mask = tn_to_dtype(mask, s->dtype);
        mask = tn_to(wide ? tn_to_dtype(mask, TN_F32) : mask, device);
    }
    for (int i = 0; i < 3; i++)
        tn_requires_grad(in[i]);
    tn_device_set(device);
    out[0] = tn_scaled_dot_product_attention(in[0], in[1], in[2], mask,
                                             .is_causal = s->causal,
                                             .enable_gqa = true);
    tn_grad(out[0], in, 3, out + 1, .gradient = g);
    for (int i = 0; i < RESULTS; i++)
        out[i] = tn_to(tn_to_dtype(out[i], TN_F32), cpu);
    tn_device_set(cpu);
}

/* Runs in a child process without cuDNN: prints the results to compare with. */
static void by_own_kernels(void)
{
    setenv("TENON_CUDA_ATTENTION", "own", 1);
    tn_device *device = tn_device_open("cuda");
    FILE *file = fopen(getenv("TN_TEST_OWN"), "wb");
    for (int c = 0; c < CASES && device && file; c++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *out[RESULTS];
        run(&all[c], device, false, out);
        for (int i = 0; i < RESULTS && out[i]; i++) {
            size_t bytes = (size_t)tn_tensor_numel(out[i]) * sizeof(float);
            void *data = malloc(bytes);
            if (data && tn_tensor_to_array(out[i], data, bytes) == TN_OK)
                fwrite(data, 1, bytes, file);
            free(data);
        }
        tn_scope_close(scope);
    }
    if (!device || !file || fclose(file))
        printf("%s", device ? "no file" : tn_error());
    else if (tn_error())
        printf("%s", tn_error());
}

/* Runs in a child process with neither option set: the plugin chooses. */
static void by_default(void)
{
    unsetenv("TENON_CUDA_ATTENTION");
    setenv("TENON_CACHE_DIR", "off", 1); /* because a cache may already hold the
                                          * choice */
    tn_log_set(look, NULL);
    tn_device *device = tn_device_open("cuda");
    for (int c = 0; c < CASES && device; c++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *out[RESULTS];
        run(&all[c], device, false, out);
        tn_scope_close(scope);
    }
    printf("%d right, %d not%s%s %s", right, wrong, wrong ? ": " : "",
           last_wrong, tn_error() ? tn_error() : "");
}

/* Reads the next result that the child printed, which has the elements of
 * got. */
static tn_tensor *read_own(FILE *file, tn_tensor *got)
{
    size_t count = (size_t)tn_tensor_numel(got);
    float *data = malloc(count * sizeof *data);
    tn_tensor *x = NULL;
    if (data && fread(data, sizeof *data, count, file) == count)
        x = tn_tensor_from_array(data, TN_F32, tn_dims((int64_t)count));
    free(data);
    return x;
}

/* The tolerance covers the rounding of weights and results, which differs
 * between implementations. */
static void is_near(tn_tensor *got, tn_tensor *want, const sizes *s, int i,
                    const char *whose)
{
    static const char *const names[] = {"result", "query", "key", "value"};
    const double unit = s->dtype == TN_F16 ? 0x1p-9 : 0x1p-6;
    double by = tn_item(tn_max(tn_abs(tn_sub(got, want))));
    double size = tn_item(tn_max(tn_abs(want)));
    ok(by <= unit * (1 + size), "%s beside %s: %g apart of %g%s%s", names[i],
       whose, by, size, tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
}

int main(void)
{
    char path[] = "/tmp/tenon-test-XXXXXX";
    plan_later();
    int fd = mkstemp(path);
    if (fd < 0)
        bail_out("no file for the test");
    close(fd);
    setenv("TN_TEST_OWN", path, 1);
    setenv("TENON_CUDA_ATTENTION", "cudnn", 1);
    setenv("TENON_LOG", "3", 1);
    const char *reason = in_child(by_own_kernels);
    char found[1024] = "";
    if (!*reason)
        snprintf(found, sizeof found, "%s", in_child(by_default));
    FILE *own = fopen(path, "rb");
    tn_log_set(look, NULL);
    tn_device *device = *reason ? NULL : tn_device_open("cuda");
    for (int c = 0; c < CASES && device && own; c++) {
        const sizes *s = &all[c];
        tn_scope *scope = tn_scope_open();
        tn_tensor *got[RESULTS], *want[RESULTS];
        const int before = taken;
        run(s, device, false, got);
        if (taken == before && c == 0) {
            tn_scope_close(scope);
            break; /* cuDNN is not installed */
        }
        run(s, tn_device_open("cpu"), true, want);
        note("%s (%d, %d of %d, %d x %d, %d, %d)%s, mask %d%s: cuDNN took %d",
             tn_dtype_name(s->dtype), (int)s->batch, (int)s->kv_heads,
             (int)s->heads, (int)s->queries, (int)s->keys, (int)s->features,
             (int)s->values, s->causal ? " causal" : "", s->mask,
             s->laid ? ", heads inside" : "", taken - before);
        for (int i = 0; i < RESULTS; i++) {
            is_near(got[i], want[i], s, i, "float32 on the cpu");
            is_near(tn_reshape(got[i], tn_dims(-1)), read_own(own, got[i]), s,
                    i, "the own kernels'");
        }
        tn_scope_close(scope);
    }
    if (own)
        fclose(own);
    remove(path);
    if (taken) /* each case belongs to another class of shapes, forward and
                * backward */
        ok(atoi(found) > 0 && strstr(found, " 0 not"),
           "tried before its first use, it has the own kernels' results: %s",
           found);
    else
        skip(1, *reason ? reason : "cuDNN takes no attention here");
    return done_testing();
}
