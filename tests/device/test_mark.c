/* Tests marks in the work of a device, and the time between two marks, on the
 * device of TENON_DEVICE. */
#include <tenon/tenon.h>
#include <time.h>

#include "../tap.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void refused(bool is, tn_status code, const char *words,
                    const char *name)
{
    ok(is && tn_error_code() == code && strstr(tn_error(), words), "%s", name);
    note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void test_times(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_ones(tn_dims(200, 100));
    double seconds = -1, all = -1, back = 1, none = 1;
    tn_exp(x); /* compiles the program before the measurement */
    tn_device_synchronize(NULL);
    double begin = now();
    tn_mark *first = tn_mark_set(NULL);
    tn_mark *same = tn_mark_set(tn_device_current());
    for (int i = 0; i < 20; i++)
        tn_exp(x);
    tn_mark *last = tn_mark_set(NULL);
    ok(first && same && last, "marks are set");
    is_int(tn_mark_elapsed(first, last, &seconds), TN_OK,
           "the time between two marks is available without waiting before");
    double took = now() - begin;
    ok(seconds > 0 && seconds <= took + 1e-3,
       "some time, no more than the host has seen: %g of %g s", seconds, took);
    tn_mark_elapsed(first, first, &none);
    ok(none == 0, "from a mark to itself it is none");
    tn_mark_elapsed(last, first, &back);
    ok(back == -seconds, "and back it is negative");
    tn_exp(x);
    tn_mark_elapsed(same, tn_mark_set(NULL), &all);
    ok(all >= seconds * 0.999 - 1e-6, "a later mark is further: %g s", all);
    tn_drop(tn_keep(last));
    tn_scope_close(scope);
}

static tn_status marks(void *context)
{
    tn_copy_(context, tn_exp(context));
    tn_mark_set(NULL);
    return tn_error() ? tn_error_code() : TN_OK;
}

static void test_mistakes(void)
{
    tn_scope *scope = tn_scope_open();
    tn_mark *mark = tn_mark_set(NULL);
    double seconds = 7;
    refused(tn_mark_elapsed(NULL, mark, &seconds) < 0, TN_ERR_ARGUMENT,
            "from is NULL", "no beginning");
    refused(tn_mark_elapsed(mark, NULL, &seconds) < 0, TN_ERR_ARGUMENT,
            "to is NULL", "no end");
    refused(tn_mark_elapsed(mark, mark, NULL) < 0, TN_ERR_ARGUMENT,
            "out_seconds is NULL", "nowhere to tell it");
    tn_device *other = tn_device_open("reference");
    tn_error_clear();
    if (!other || other == tn_device_current())
        skip(1, "there is no other device");
    else
        refused(tn_mark_elapsed(mark, tn_mark_set(other), &seconds) < 0,
                TN_ERR_DEVICE, "marks are of", "marks of two devices");
    refused(!tn_graph_record(marks, tn_ones(tn_dims(3))), TN_ERR_STATE,
            "work is being recorded", "a replay would set no mark");
    tn_error_set(TN_ERR_ARGUMENT, "something before");
    ok(!tn_mark_set(NULL) && tn_mark_elapsed(mark, mark, &seconds) < 0,
       "none is set while an error is pending");
    tn_error_clear();
    ok(seconds == 7, "and out_seconds is as it was");
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    note("device %s", tn_device_name(tn_device_current()));
    test_times();
    test_mistakes();
    return done_testing();
}
