/* Threads that need kernels at the same time compile different kernels
 * concurrently; a kernel that several threads need is compiled once. Each
 * thread has its own queue, because libtenon submits a device's work to one
 * queue. */
#include <pthread.h>

#include "../device/by_name.h"
#include "on_sim.h"

enum { LENGTH = 100, THREADS = 4 };

static by_hand plugin;
static void (*sim_nvrtc)(int wait_for, int *all, int *at_once);

/* Computes a prefix sum of numbers of the given dtype, which needs one kernel
 * for each dtype. */
static void *scan(void *context)
{
    const tn_dtype dtype = *(const tn_dtype *)context;
    const tn_plugin *p = plugin.plugin;
    by_hand mine = plugin;
    tn_buffer *buffer = NULL;
    int32_t out[2 * LENGTH] = {0};
    tn_fault fault = {.size = sizeof fault};
    bool right =
        p->queue_open(plugin.device, &mine.queue) == 0 &&
        p->buffer_alloc(plugin.device, sizeof out, &buffer) == 0 &&
        by_hand_copy(&mine, buffer, 0, out, sizeof out, true) == 0;
    const tn_strided x = {buffer, 0, dtype, 1, {1}};
    const tn_scan_args args = {.size = sizeof args, .ndim = 1,
                               .kind = TN_REDUCE_SUM, .extent = {LENGTH},
                               .in = x, .out = x};
    right = right && p->scan(mine.queue, &args) == 0 &&
            p->queue_sync(mine.queue, &fault) == 0;
    if (buffer)
        p->buffer_free(plugin.device, buffer);
    if (mine.queue)
        p->queue_close(mine.queue);
    return right ? context : NULL;
}

/* Runs scan in all threads at once. Returns the number of threads that
 * succeeded. */
static int all_at_once(tn_dtype dtypes[THREADS])
{
    pthread_t thread[THREADS];
    int right = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, scan, &dtypes[i]))
            bail_out("pthread_create");
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        right += result != NULL;
    }
    return right;
}

static void print_reason(void)
{
    printf("%s", by_hand_open_device(&plugin, 0) ? "" : by_hand_failure());
}

int main(int argc, char **argv)
{
    static char path[4096], nvrtc[4096];
    const char *folder = getenv("TENON_PLUGIN_PATH");
    const char *build = getenv("top_builddir");
    int all, at_once;
    (void)argc;
    plan_later();
    on_sim(argv);
    snprintf(nvrtc, sizeof nvrtc, "%s/tests/sim/nvrtc/libnvrtc.so.12",
             build ? build : ".");
    snprintf(path, sizeof path, "%s/tn_cuda.so", folder ? folder : ".");
    snprintf(by_name_plugin, sizeof by_name_plugin, "cuda");
    if (!by_hand_load(&plugin, &(by_hand_how){.path = path,
                                              .option = by_name_option,
                                              .no_interpreter = true}))
        bail_out("%s", by_hand_failure());
    if (!on_sim_ready(in_child(print_reason)))
        return done_testing();
    setenv("TENON_CACHE_DIR", "off", 1);
    setenv("TENON_CUDA_NVRTC", nvrtc, 1);
    setenv("TENON_SIM_NVRTC", "13.0", 1);
    void *file = dlopen(nvrtc, RTLD_NOW | RTLD_LOCAL);
    void *found = file ? dlsym(file, "sim_nvrtc") : NULL;
    memcpy(&sim_nvrtc, &found, sizeof found);
    if (!found || !by_hand_open_device(&plugin, 0))
        bail_out("%s: %s", nvrtc, found ? by_hand_failure() : dlerror());
    sim_nvrtc(THREADS, &all, &at_once);
    is_int(all_at_once((tn_dtype[]){TN_F32, TN_F64, TN_I32, TN_I64}), THREADS,
           "threads that need different kernels");
    sim_nvrtc(0, &all, &at_once);
    is_int(all, THREADS, "have them compiled,");
    is_int(at_once, THREADS, "all at once");
    is_int(all_at_once((tn_dtype[]){TN_U8, TN_U8, TN_U8, TN_U8}), THREADS,
           "threads that need the same one");
    sim_nvrtc(0, &all, &at_once);
    is_int(all, 1, "have it compiled once");
    by_hand_close(&plugin);
    return done_testing();
}
