/* bench.c: runs a workload, for compare.c and scaling.c. */
#include <time.h>

#include "bench.h"

const char *bench_program;

double bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

void bench_gradients(bench_state *s, tn_tensor *out)
{
    tn_tensor *const all[] = {s->a, s->b, s->c};
    tn_tensor *in[3], *gradient[3];
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (all[i] && tn_tensor_requires_grad(all[i]))
            in[count++] = all[i];
    tn_grad(out, in, count, gradient, .gradient = tn_ones_like(out));
}

double bench_sample(const bench_work *work, bench_state *state, int64_t calls)
{
    int64_t each = work->scope_calls > 0 ? work->scope_calls : 1;
    double begin = bench_now_ns();
    for (int64_t done = 0; done < calls; done += each) {
        tn_scope *scope = tn_scope_open();
        for (int64_t i = 0; i < each && done + i < calls; i++)
            work->call(state);
        tn_scope_close(scope);
    }
    tn_device_synchronize(NULL); /* waits until the device has finished the
                                  * calls */
    return (bench_now_ns() - begin) / (double)calls;
}

int64_t bench_calls(const bench_work *work, bench_state *state,
                    double round_ns)
{
    bench_sample(work, state, 2);
    int64_t calls = 1;
    for (;;) {
        double took = bench_sample(work, state, calls) * (double)calls;
        if (took > round_ns / 2 || calls > 1000000)
            return calls;
        /* The first calls may have been slow, so the number of calls grows by
         * at most a factor of 10. */
        double factor = round_ns / took;
        calls = (int64_t)((double)calls * (factor > 10 ? 10 : factor)) + 1;
    }
}

void bench_rest(void)
{
    if (tn_num_threads() == 1)
        return;
    for (double end = bench_now_ns() + 1e7; bench_now_ns() < end;)
        ;
}
