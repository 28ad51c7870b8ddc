/* use.h: calls of functions with options, in the forms in which programs write
 * them, for use.c and use.cpp. They must compile without a warning and work. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static int failed;

#define CHECK(condition)                                                      \
    ((condition) ? (void)0                                                    \
                 : (void)(failed = 1,                                         \
                          printf("%s:%d: %s (%s)\n", __FILE__, __LINE__,      \
                                 #condition, tn_error() ? tn_error() : "")))

static inline bool is(tn_tensor *x, double want)
{
    double got = tn_item(x);
    return got - want < 1e-4 && want - got < 1e-4;
}
