/* Tests the thread pool. */
#include "base/error.h"
#include "base/memory.h"
#include "base/object.h"
#include "base/platform.h"
#include "base/thread.h"
#include "tap.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTS 1000
static _Atomic int done[PARTS];

static void mark(void *context, int64_t i)
{
    (void)context;
    done[i]++;
}

static bool each_once(void)
{
    bool all = true;
    for (int i = 0; i < PARTS; i++) {
        all &= done[i] == 1;
        done[i] = 0;
    }
    return all;
}

static void nested(void *context, int64_t i)
{
    (void)i;
    tn__parallel_for(10, mark, context);
}

static void set_within(void *context, int64_t i)
{
    ((tn_status *)context)[i] = tn_set_num_threads(2);
    tn_error_clear();
}

static void fail_at_7(void *context, int64_t i)
{
    (void)context;
    if (i == 7)
        tn__fail(TN_ERR_IO, "part 7");
}

static void add(void *context, int64_t i)
{
    *(_Atomic int64_t *)context += i;
}

static void *from_thread(void *wrong)
{
    for (int round = 0; round < 200; round++) {
        _Atomic int64_t sum = 0;
        tn__parallel_for(64, add, &sum);
        if (sum != 64 * 63 / 2)
            ++*(_Atomic int *)wrong;
    }
    return NULL;
}

static void test_counts(void)
{
    static const int counts[] = {1, 2, 3, 7, 16};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        tn_set_num_threads(counts[k]);
        is_int(tn_num_threads(), counts[k], "%d threads", counts[k]);
        tn__parallel_for(PARTS, mark, NULL);
        ok(each_once(), "%d threads run each part once", counts[k]);
        bool all = true;
        for (int round = 0; round < 300; round++) {
            _Atomic int64_t sum = 0;
            tn__parallel_for(5, add, &sum);
            all &= sum == 10;
        }
        ok(all, "%d threads run many small jobs", counts[k]);
    }
    tn__parallel_for(0, mark, NULL);
    tn__parallel_for(-1, mark, NULL);
    is_int(done[0], 0, "a job without parts does no work");
}

/* Records the first item that the calling thread and the worker process. */
typedef struct firsts {
    pthread_t caller;
    _Atomic int64_t of_caller, of_worker; /* index of the first item; -1 if none
                                           * yet */
} firsts;

static void note_first(void *context, int64_t i)
{
    firsts *f = context;
    bool is_caller = pthread_equal(pthread_self(), f->caller);
    int64_t none = -1;
    atomic_compare_exchange_strong(is_caller ? &f->of_caller : &f->of_worker,
                                   &none, i);
    /* The calling thread waits until the worker has processed an item, because
     * a worker may need time to wake up. */
    for (int ms = 0; is_caller && ms < 10000 && f->of_worker == -1; ms++)
        usleep(1000);
}

static void test_shares(void)
{
    tn_set_num_threads(2);
    bool own = true;
    for (int round = 0; round < 20; round++) {
        firsts f = {pthread_self(), -1, -1};
        tn__parallel_for(10, note_first, &f);
        /* the worker may have finished all items before the caller began */
        own &= f.of_worker == 5 && (f.of_caller == 0 || f.of_caller == -1);
    }
    ok(own, "each of two threads begins with its own half, in every job");
}

static void test_mistakes(void)
{
    is_int(tn_set_num_threads(0), TN_ERR_ARGUMENT, "0 threads are refused");
    is_str(tn_error(), "set_num_threads: count is 0; expected 1 to 1024",
           "with a message");
    tn_error_clear();
    is_int(tn_set_num_threads(1025), TN_ERR_ARGUMENT,
           "too many threads are refused, too");
    tn_error_clear();
    tn_set_num_threads(4);
    tn_status status[2] = {0};
    tn__parallel_for(2, set_within, status);
    ok(status[0] == TN_ERR_STATE && status[1] == TN_ERR_STATE,
       "nor may work change its own threads");
    tn_error_clear();
}

static void test_concurrent(void)
{
    tn_set_num_threads(3);
    for (int i = 0; i < 10; i++)
        done[i] = 0;
    tn__parallel_for(8, nested, NULL);
    bool all = true;
    for (int i = 0; i < 10; i++) {
        all &= done[i] == 8;
        done[i] = 0;
    }
    ok(all, "a nested call does its work alone");
    _Atomic int wrong = 0;
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, from_thread, &wrong);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    is_int(wrong, 0, "four threads may call at once");
    for (int threads = 1; threads <= 4; threads += 3) {
        tn_set_num_threads(threads);
        tn__parallel_for(64, fail_at_7, NULL);
        is_str(tn_error(), "part 7",
               "%d threads: a part's error reaches the caller", threads);
        tn_error_clear();
    }
}

static void test_fork(void)
{
#ifdef TN__TSAN
    skip(1, "the thread sanitizer allows no threads after a fork");
#else
    tn_set_num_threads(4);
    tn__parallel_for(PARTS, mark, NULL);
    each_once();
    pid_t pid = fork();
    if (!pid) {
        alarm(20);
        tn__parallel_for(PARTS, mark, NULL);
        _exit(each_once() ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    is_int(status, 0, "the child of a fork starts threads of its own");
#endif
}

int main(void)
{
    setenv("TENON_NUM_THREADS", "5", 1);
    plan_later();
    is_int(tn_num_threads(), 5, "TENON_NUM_THREADS is obeyed");
    test_counts();
    test_shares();
    test_mistakes();
    test_concurrent();
    test_fork();
    tn_set_num_threads(1);
    tn__state_end();
    is_int(tn__memory_live(), 0, "no memory is left");
    return done_testing();
}
