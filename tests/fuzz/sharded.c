/* sharded.c: fuzzes the texts of a sharded checkpoint: "sharded.pieces" of a
 * rank's file, and the file COMPLETE. What is accepted is within bounds, its
 * pieces make up their wholes or do not, as a slow check says, and it is the
 * same after it was written and read again. */
#include <parallel/manifest.h>
#include <parallel/region.h>

#include "fuzz.h"

const char fuzz_target[] = "sharded";

enum { MOST = 4096, REGIONS = 64 };

/* ---- pieces --------------------------------------------------------------- */

/* The element of the whole that is at `i` in a region. */
static int64_t element(const tn__region *r, int64_t i)
{
    int64_t at = 0, index[TN_MAX_NDIM];
    for (int d = r->ndim; d-- > 0; i /= r->extent[d])
        index[d] = i % r->extent[d];
    for (int d = 0; d < r->ndim; d++)
        at = at * r->shape[d] + r->offset[d] + index[d];
    return at;
}

/* Compares the tiling of small wholes with a count for each element. */
static void check_tiling(const tn__region *const *region, size_t count,
                         int64_t numel)
{
    static int seen[MOST];
    memset(seen, 0, sizeof seen);
    bool once = true;
    for (size_t i = 0; i < count; i++)
        for (int64_t k = 0; k < tn__region_numel(region[i]); k++)
            seen[element(region[i], k)]++;
    for (int64_t k = 0; k < numel; k++)
        once = once && seen[k] == 1;
    int64_t at = -1;
    const tn__tiling tiling = tn__regions_tile(region, count, numel, &at);
    fuzz_check((tiling == TN__TILING_EXACT) == once, "the tiling");
    fuzz_check(tiling == TN__TILING_EXACT ||
                   (at >= 0 && at < numel &&
                    (tiling == TN__TILING_GAP ? seen[at] == 0 : seen[at] > 1)),
               "where it is wrong");
}

static bool count_common(void *context, int64_t a, int64_t b, int64_t numel)
{
    (void)a, (void)b;
    *(int64_t *)context += numel;
    return true;
}

static void check_overlap(const tn__region *a, const tn__region *b)
{
    static int seen[MOST];
    memset(seen, 0, sizeof seen);
    int64_t want = 0, got = 0;
    for (int64_t k = 0; k < tn__region_numel(a); k++)
        seen[element(a, k)] = 1;
    for (int64_t k = 0; k < tn__region_numel(b); k++)
        want += seen[element(b, k)];
    tn__region_overlap(a, b, count_common, &got);
    fuzz_check(got == want, "what two regions have in common");
}

/* The file would have these pieces: of half the size of their wholes. */
static void check_records(const tn__records *all)
{
    static tn__region room[REGIONS];
    const tn__region *region[REGIONS];
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const tn__record *r = &all->record[i];
        int64_t extent[TN_MAX_NDIM] = {0};
        if (r->whole)
            continue;
        const int64_t numel = tn__sizes_numel(r->ndim, r->shape);
        fuzz_check(r->ndim <= TN_MAX_NDIM && numel >= 0, "a shape");
        for (int d = 0; d < r->ndim; d++)
            extent[d] = r->shape[d] - r->offset[d] > 1
                            ? (r->shape[d] + 1) / 2 : r->shape[d];
        if (r->flat)
            extent[0] = numel / 2;
        if (count < REGIONS && numel && numel <= MOST &&
            tn__region_make(&room[count], r->ndim, r->shape, r->offset, extent,
                            r->flat) &&
            (!count || tn__sizes_numel(room[0].ndim, room[0].shape) == numel)) {
            region[count] = &room[count];
            count++;
        }
    }
    if (!count)
        return;
    check_tiling(region, count, tn__sizes_numel(room[0].ndim, room[0].shape));
    for (size_t i = 1; i < count; i++)
        check_overlap(region[i - 1], region[i]);
}

static char *write_records(const tn__records *all)
{
    tn__json_writer json = {.grow = realloc};
    tn__json_add(&json, "{");
    for (size_t i = 0; i < all->count; i++) {
        tn__json_add(&json, i ? "," : "");
        tn__record_write(&json, &all->record[i]);
    }
    tn__json_add(&json, "}");
    return json.text;
}

static void fuzz_records(const char *text)
{
    tn__records all, again;
    const char *wrong = tn__records_parse(&all, text);
    if (wrong) {
        fuzz_check_line(wrong);
        fuzz_check(!all.record && !all.count, "nothing is left");
        return;
    }
    check_records(&all);
    char *first = write_records(&all);
    fuzz_check(!tn__records_parse(&again, first), "what was written is read");
    char *second = write_records(&again);
    fuzz_check(strcmp(first, second) == 0, "and is the same");
    free(first);
    free(second);
    tn__records_release(&again);
    tn__records_release(&all);
}

/* ---- COMPLETE ------------------------------------------------------------- */

static void fuzz_complete(const char *text, size_t bytes)
{
    tn__complete all, again;
    const char *wrong = tn__complete_parse(&all, text, bytes);
    if (wrong) {
        fuzz_check_line(wrong);
        fuzz_check(!all.file && !all.count, "nothing is left");
        return;
    }
    fuzz_check(all.count > 0 && all.step >= 0 && all.serial >= 0, "counts");
    for (size_t i = 0; i < all.count; i++)
        fuzz_check(*all.file[i].name && !strchr(all.file[i].name, '/') &&
                       all.file[i].name[0] != '.' && all.file[i].bytes >= 0,
                   "a file is in its folder");
    tn__json_writer first = {.grow = realloc}, second = {.grow = realloc};
    tn__complete_write(&first, &all);
    fuzz_check(!tn__complete_parse(&again, first.text, first.count),
               "what was written is read");
    tn__complete_write(&second, &again);
    fuzz_check(strcmp(first.text, second.text) == 0, "and is the same");
    free(first.text);
    free(second.text);
    tn__complete_release(&again);
    tn__complete_release(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    fuzz_records(text);
    fuzz_complete(text, size);
    free(text);
    return 0;
}
