/* test_faults.c: what ranks see when one of them calls something else, ends, or
 * stops: one message on all ranks, soon, and no process that hangs. */
#include "ranks.h"

#include <tenon/dist.h>
#include <tenon/tenon.h>

/* ---- the ranks ------------------------------------------------------------ */

/* A module whose forward sums over the ranks, for the paths in messages. */
static tn_tensor *sum_forward(tn_module *self, tn_tensor *x)
{
    (void)self;
    tn_dist_all_reduce(x, tn_dist_world());
    return x;
}
static const tn_module_class sum_class =
    TN_MODULE_CLASS(tn_module, "Sum", .forward = sum_forward);

static void in_module(const char *name, tn_tensor *x)
{
    tn_module *net = tn_module_new(&sum_class);
    const tn_path *before = tn_path_enter(tn_path_join(NULL, name));
    tn_forward(net, x);
    tn_path_enter(before);
}

/* The timeout of ranks that wait for one that does not come. Below mpirun it
 * includes MPI_Init, which takes seconds on a busy machine. */
static double patience(void)
{
    return getenv("TENON_TEST_MPIRUN") ? 4 : 1.5;
}

static double agreed; /* when all ranks had begun */

static void misbehave(const char *name)
{
    tn_group *world = tn_dist_world();
    tn_tensor *x = tn_ones(tn_dims(12)), *y = tn_ones(tn_dims(12));
    const bool odd = tn_dist_rank() == 1;
    tn_dist_all_reduce(x, world); /* all agree here */
    agreed = ranks_now();
    if (!strcmp(name, "count"))
        tn_dist_all_reduce(odd ? tn_ones(tn_dims(13)) : x, world);
    else if (!strcmp(name, "dtype"))
        tn_dist_all_reduce(tn_full(tn_dims(12), 1, .dtype = odd ? TN_I32 : TN_F32),
                           world);
    else if (!strcmp(name, "kind"))
        odd ? (void)tn_dist_all_gather(x, world)
            : (void)tn_dist_all_reduce(x, world);
    else if (!strcmp(name, "reduction"))
        tn_dist_all_reduce(x, world, .reduce = odd ? "max" : "sum");
    else if (!strcmp(name, "root"))
        tn_dist_broadcast(x, odd, world);
    else if (!strcmp(name, "order")) {
        tn_dist_all_reduce(odd ? y : x, world, .label = odd ? "b" : "a");
        tn_dist_all_reduce(odd ? x : y, world, .label = odd ? "a" : "b");
    } else if (!strcmp(name, "path"))
        in_module(odd ? "h.3.attn" : "h.3.mlp", x);
    else if (!strcmp(name, "message")) {
        if (tn_dist_rank() == 0)
            tn_dist_recv(x, 1, world);
        else if (odd)
            tn_dist_send(tn_ones(tn_dims(7)), 0, world);
        if (tn_dist_rank() != 0)
            tn_dist_barrier(world);
    } else if (!strcmp(name, "killed")) {
        /* Rank 1 ends when the others have begun the sum. */
        tn_work *sum = NULL;
        for (int rank = 0; odd && rank < tn_dist_size(); rank++)
            if (rank != 1)
                tn_dist_recv(y, rank, world);
        if (odd) {
            /* a heartbeat has told the control plane where it is */
            nanosleep(&(struct timespec){.tv_nsec = 700000000}, NULL);
            raise(SIGKILL);
        }
        tn_dist_all_reduce(x, world, .work = &sum);
        tn_dist_send(y, 1, world);
        tn_work_wait(sum);
    } else if (!strcmp(name, "exits")) {
        if (odd)
            _exit(0);
        tn_dist_all_reduce(x, world);
    } else if (!strcmp(name, "leaves")) {
        if (!odd)
            tn_dist_all_reduce(x, world, .label = "one more");
    } else if (!strcmp(name, "extra")) {
        if (odd)
            tn_dist_all_reduce(x, world, .label = "one more");
    } else if (!strcmp(name, "repeats")) {
        /* The calls of a step are the expected ones when one is not. */
        for (int i = 0; i < 12; i++) {
            tn_dist_all_reduce(x, world, .label = i % 2 ? "a" : "b");
            tn_dist_broadcast(y, 0, world);
        }
        agreed = ranks_now();
        odd ? (void)tn_dist_broadcast(y, 0, world)
            : (void)tn_dist_all_reduce(x, world, .label = "b");
    } else if (!strcmp(name, "new step")) {
        /* All ranks make another call than the expected one. */
        for (int i = 0; i < 12; i++)
            tn_dist_all_reduce(x, world);
        for (int i = 0; i < 12; i++) {
            if (i % 3 == tn_dist_rank() % 3)
                usleep(2000);
            tn_dist_broadcast(y, i % 5 == 0, world);
        }
        tn_dist_all_reduce(odd ? tn_ones(tn_dims(13)) : x, world);
    } else if (!strcmp(name, "phase")) {
        if (odd) {
            tn_dist_set_phase("loader");
            usleep((useconds_t)((patience() + 2.5) * 1e6));
        }
        tn_dist_all_reduce(x, world);
    } else if (!strcmp(name, "cut")) { /* of test_network.sh */
        puts("agreed");
        fflush(stdout);
        sleep(2);
        agreed = ranks_now();
        tn_dist_all_reduce(x, world);
    } else if (!strcmp(name, "root killed")) {
        if (tn_dist_rank() == 0)
            raise(SIGKILL);
        tn_dist_all_reduce(x, world);
    } else if (!strcmp(name, "stopped")) {
        if (odd)
            raise(SIGSTOP);
        tn_dist_all_reduce(x, world);
    } else if (!strcmp(name, "sleeps")) {
        if (odd)
            usleep((useconds_t)((patience() + 2.5) * 1e6));
        tn_dist_all_reduce(x, world);
    } else if (!strcmp(name, "error")) {
        if (odd) /* an error of its own, which the program overlooks */
            x = tn_matmul(x, tn_ones(tn_dims(7)));
        tn_dist_all_reduce(x, world);
    } else if (!strcmp(name, "elsewhere")) {
        /* 1 ends; 0 waits for it in world, 2 and 3 for 0 in another group. */
        tn_group *rest = tn_group_split(world, odd, .name = "rest");
        if (odd)
            raise(SIGKILL);
        tn_dist_all_reduce(x, tn_dist_rank() == 0 ? world : rest);
    }
}

static int run(const char *name)
{
    if (!strcmp(name, "absent") && !strcmp(getenv("TENON_RANK"), "1"))
        return 0;
    const bool waits = !strcmp(name, "stopped") || !strcmp(name, "sleeps") ||
                       !strcmp(name, "absent") || !strcmp(name, "phase") ||
                       !strcmp(name, "cut");
    if ((waits ? tn_dist_init(.timeout = patience()) : tn_dist_init()) == TN_OK)
        misbehave(name);
    if (tn_error())
        printf("seconds %.3f\n%s\n", ranks_now() - agreed, tn_error());
    fflush(stdout);
    /* The job stays over. */
    if (tn_error() && tn_dist_size() > 1) {
        tn_error_clear();
        if (tn_dist_barrier(tn_dist_world()) == TN_OK || !tn_error())
            printf("a later call works\n");
    }
    const bool failed = tn_error() != NULL;
    tn_dist_close();
    return failed ? 3 : 0;
}

/* ---- the judge ------------------------------------------------------------ */

static const char *engine; /* its name */

static bool has_all(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(text, *words)) {
            note("\"%s\" is missing", *words);
            return false;
        }
    return true;
}

/* The message without the path of the module in which the rank was, and without
 * the rank's own number, which the error of tn_dist_init has. */
static const char *message_of(const char *output)
{
    const char *of_engine = strstr(output, "local: ");
    of_engine = of_engine ? of_engine : strstr(output, "mpi: ");
    return of_engine ? of_engine : strstr(output, "dist_");
}

enum { ALL = -1 };

/* Runs a case on four ranks. All but `out`, or all, print one message with these
 * words, and end in time. only: just `out` does. */
static void judge_ranks(const char *name, int out, bool only, double seconds,
                        const char *what, const char *const *words)
{
    static ranks r;
    ranks_start(&r, 4, name);
    if (!strcmp(name, "stopped")) { /* the launcher ends what is left */
        ranks_wait(&r, 20, 1);
        kill(r.process[1], SIGKILL);
    }
    ranks_wait(&r, 20, -1);
    const bool agrees = strcmp(name, "absent") != 0;
    const char *text = message_of(r.output[only ? out : out == 0]);
    bool good = !r.late && text && has_all(text, words);
    for (int i = 0; i < 4; i++) {
        if ((i == out) != only)
            continue;
        const char *other = message_of(r.output[i]);
        double took = -1;
        sscanf(r.output[i], "seconds %lf", &took);
        good = good && r.status[i] == 3 && other && !strcmp(text, other) &&
               took >= 0 && (took < seconds || !agrees);
    }
    if (!ok(good, "%s: %s", engine, what) || getenv("TENON_TEST_SHOW"))
        ranks_show(&r);
}

static void judge(const char *name, bool all, double seconds, const char *what,
                  const char *const *words)
{
    judge_ranks(name, all ? ALL : 1, false, seconds, what, words);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void judge_all(void)
{
    /* From the moment at which all ranks have begun. */
    const double soon = 1;
    judge("count", true, soon, "another count is named",
          WORDS("ranks 0, 2, 3: all_reduce 1 of float32[12], sum",
                "rank 1: all_reduce 1 of float32[13], sum"));
    judge("dtype", true, soon, "another dtype is named",
          WORDS("float32[12]", "rank 1: all_reduce 1 of int32[12]"));
    judge("kind", true, soon, "another collective is named",
          WORDS("all_reduce 1", "rank 1: all_gather 1 of float32[12]"));
    judge("reduction", true, soon, "another reduction is named",
          WORDS("sum", "rank 1: all_reduce 1 of float32[12], max"));
    judge("root", true, soon, "another root is named",
          WORDS("root 0", "rank 1: broadcast 1 of float32[12], root 1"));
    judge("order", true, soon, "another order is named",
          WORDS("sum, a", "rank 1: all_reduce 1 of float32[12], sum, b"));
    judge("path", true, soon, "another module is named",
          WORDS("ranks 0, 2, 3", "in h.3.mlp", "rank 1", "in h.3.attn"));
    judge("message", true, soon, "a message of another length is named",
          WORDS("recv of float32[12]", "rank 0 with rank 1", "another dtype"));
    judge("killed", false, 2, "a killed rank is named",
          WORDS("all_reduce 1 of float32[12], sum of world", "rank 1 has ended",
                "last seen at recv of float32[12]",
                "3 of 4 ranks are there"));
    judge("exits", false, 2, "a rank that ends without a word is named",
          WORDS("rank 1 has ended"));
    judge("leaves", false, 2, "a rank that makes a step less is named",
          WORDS("one more", "rank 1 has left the job"));
    judge_ranks("extra", 1, true, 2, "a rank that makes a step more is told",
                WORDS("one more", "has left the job"));
    judge("repeats", true, soon, "another call in a step that repeats is named",
          WORDS("ranks 0, 2, 3: all_reduce 25 of float32[12], sum, b",
                "rank 1: broadcast 25 of float32[12], root 0"));
    judge("new step", true, soon, "one in another step, too",
          WORDS("all_reduce 25 of float32[12]", "rank 1: all_reduce 25 of "
                                                "float32[13]"));
    judge("error", false, soon, "the error of a rank reaches the others",
          WORDS("rank 1 of world has failed before: matmul: inner sizes"));
    judge("elsewhere", false, 2, "ranks in another group are told, too",
          WORDS("rank 1 has ended"));
    const double late = patience();
    char after[32];
    snprintf(after, sizeof after, "not done after %.1f s", late);
    judge("stopped", false, late + 3, "a stopped rank is named",
          WORDS(after, "rank 1 is silent for"));
    judge("sleeps", true, late + 4.5, "a rank that computes too long is named",
          WORDS(after, "rank 1 is alive", "last seen at all_reduce 0"));
    judge("phase", true, late + 4.5, "and what it does",
          WORDS("rank 1 is alive", "last in loader, last seen at all_reduce 0"));
    judge_ranks("root killed", 0, false, 2, "rank 0 is killed",
                WORDS("all_reduce 1", "rank 0 has ended"));
    /* MPI does not say which. */
    judge("absent", false, late + 3.5, "a rank that never starts is named",
          getenv("TENON_TEST_MPIRUN")
              ? WORDS("waited 4.0 s for the other ranks to join (MPI_Init)")
              : WORDS("these ranks did not join: 1"));
}

int main(int argc, char **argv)
{
    const char *name = ranks_case(argc, argv);
    if (name)
        return run(name);
    plan_later();
    engine = getenv("TENON_TEST_MPIRUN") ? "mpi" : "local";
    judge_all();
    if (getenv("TENON_TEST_MPIRUN"))
        return done_testing();
    /* An engine that knows nothing of the other ranks: the control plane. */
    char path[4096];
    const char *folder = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/.libs/comm_mute.so", folder ? folder : ".");
    if (access(path, R_OK))
        bail_out("%s was not built", path);
    setenv("TENON_ENGINE", path, 1);
    engine = "mute";
    judge_all();
    return done_testing();
}
