/* Compares scans of long rows with the definition in plugin.h. A scan divides a
 * row into chunks, and chunks into blocks. Rows have more chunks than a block
 * and, if TENON_TEST_LONG gives more elements, more blocks than fit in one
 * pass. TENON_TEST_PLUGIN names the plugin; if unset: cpu and reference, with
 * slightly more than 2^20 elements. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/check/by_hand.h"
#include "../tap.h"
#include "by_name.h"

enum { LINES = 2 };

static void sum_by_blocks(float *x, int64_t n)
{
    for (int64_t h = 1; h < 16; h *= 2)
        for (int64_t k = 0; k < n; k++)
            if (k & h)
                x[k] = x[(k & ~(2 * h - 1)) + h - 1] + x[k];
    for (int64_t k = 16; k < n; k++)
        x[k] = x[k / 16 * 16 - 1] + x[k];
}

static void sum_line(float *x, int64_t n)
{
    const int64_t chunks = (n + 1023) / 1024;
    float *final = malloc((size_t)chunks * sizeof *final);
    if (!final)
        bail_out("out of memory");
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t end = c + 1 < chunks ? c * 1024 + 1024 : n;
        sum_by_blocks(x + c * 1024, end - c * 1024);
        final[c] = x[end - 1];
    }
    sum_by_blocks(final, chunks);
    for (int64_t k = 1024; k < n; k++)
        x[k] = final[k / 1024 - 1] + x[k];
    free(final);
}

static tn_buffer *sent(const by_hand *h, void *memory, size_t bytes)
{
    tn_buffer *buffer = NULL;
    if (h->plugin->buffer_alloc(h->device, bytes, &buffer) != TN_OK ||
        by_hand_copy(h, buffer, 0, memory, bytes, true) != TN_OK)
        bail_out("%s", by_hand_failure());
    return buffer;
}

/* Runs the device's scan of x in place. Stores the results in x and place. */
static void scan(const by_hand *h, uint32_t kind, tn_dtype dtype, void *x,
                 int64_t *place, int64_t n)
{
    const size_t numel = LINES * (size_t)n;
    tn_scan_args s = {.size = sizeof s, .ndim = 2, .kind = kind,
                      .extent = {LINES, n}};
    s.in = (tn_strided){sent(h, x, 4 * numel), 0, dtype, 2, {n, 1}};
    s.out = s.in; /* in place */
    if (place)
        s.out_index = (tn_strided){sent(h, place, 8 * numel), 0, TN_I64, 2,
                                   {n, 1}};
    if (h->plugin->scan(h->queue, &s) != TN_OK ||
        by_hand_copy(h, s.in.buffer, 0, x, 4 * numel, false) != TN_OK ||
        (place && by_hand_copy(h, s.out_index.buffer, 0, place, 8 * numel,
                               false) != TN_OK))
        bail_out("%s", by_hand_failure());
    h->plugin->buffer_free(h->device, s.in.buffer);
    if (place)
        h->plugin->buffer_free(h->device, s.out_index.buffer);
}

static void test_plugin(const char *name, int64_t n)
{
    const size_t numel = LINES * (size_t)n;
    float *x = malloc(numel * 4), *want = malloc(numel * 4);
    int32_t *whole = malloc(numel * 4), *most = malloc(numel * 4);
    int64_t *place = calloc(numel, 8), *at = malloc(numel * 8);
    uint32_t state = 1;
    by_hand h;
    if (!x || !want || !whole || !most || !place || !at)
        bail_out("out of memory");
    if (!by_name_open(&h, name, NULL)) {
        ok(false, "%s: %s", name, by_hand_failure());
        return;
    }
    for (size_t i = 0; i < numel; i++) {
        state = state * 1664525 + 1013904223;
        x[i] = want[i] = (float)(state >> 8) / 0x1p24f - 0.4f;
        whole[i] = (int32_t)(i / 700 % 900 + (state >> 8) % 300);
    }
    for (size_t i = 0; i < numel; i++) {
        const int64_t k = (int64_t)i % n;
        const bool takes = k == 0 || whole[i] >= most[i - 1];
        most[i] = takes ? whole[i] : most[i - 1];
        at[i] = takes ? k : at[i - 1];
    }
    for (int line = 0; line < LINES; line++)
        sum_line(want + line * n, n);
    scan(&h, TN_REDUCE_SUM, TN_F32, x, NULL, n);
    ok(memcmp(x, want, numel * 4) == 0,
       "%s: sums of %" PRId64 " floats, in the order of chunks", name, n);
    scan(&h, TN_REDUCE_MAX, TN_I32, whole, place, n);
    ok(memcmp(whole, most, numel * 4) == 0, "%s: the greatest so far", name);
    ok(memcmp(place, at, numel * 8) == 0, "%s: and the last of equals", name);
    by_hand_close(&h);
    free(x);
    free(want);
    free(whole);
    free(most);
    free(place);
    free(at);
}

int main(void)
{
    const char *name = getenv("TENON_TEST_PLUGIN");
    const char *text = getenv("TENON_TEST_LONG");
    const int64_t n = text ? strtoll(text, NULL, 0) : 20 * 1024 + 30;
    plan_later();
    if (name) {
        test_plugin(name, n);
    } else {
        test_plugin("reference", (1 << 20) + 2030);
        test_plugin("cpu", (1 << 20) + 2030);
    }
    return done_testing();
}
