/* regex.c: fuzzes the patterns of tokenizers. The input is a pattern up to the
 * first NUL, and the text after it. A pattern is rejected with a message, or
 * its matches are within the text and do not overlap. */
#include <lm/tokenizer/regex.h>

#include "fuzz.h"

const char fuzz_target[] = "regex";

static bool is_utf8(const unsigned char *text, size_t count)
{
    for (size_t at = 0; at < count;)
        if (tn__utf8_read(text, count, &at) < 0)
            return false;
    return true;
}

/* Finds all matches, and returns a sum of their positions. */
static uint64_t match_all(const tn__regex *regex, tn__regex_run *run,
                          const unsigned char *text, size_t count)
{
    size_t at = 0, last = SIZE_MAX, begin, end;
    uint64_t sum = 0;
    tn__regex_begin(run, text, count);
    while (tn__regex_find(regex, run, at, last, &begin, &end) > 0) {
        fuzz_check(begin >= at && end >= begin && end <= count,
                   "a match lies after the one before");
        fuzz_check(end > begin || begin != last, "it is not counted twice");
        at = last = end;
        sum = sum * 31 + begin * 7 + end;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[160];
    tn__own arena = {NULL};
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t bytes = zero ? (size_t)(zero - data) : size;
    char *pattern = fuzz_text(data, bytes);
    const tn__regex *regex =
        tn__regex_new(&arena, pattern, bytes, error, sizeof error);
    if (!regex) {
        fuzz_check_line(error);
    } else if (zero) {
        const size_t count = size - bytes - 1;
        unsigned char *text = (unsigned char *)fuzz_text(zero + 1, count);
        if (is_utf8(text, count)) {
            tn__regex_run run = {0};
            const uint64_t sum = match_all(regex, &run, text, count);
            /* a matcher that remembers failures from the beginning finds the
             * same matches */
            tn__regex_begin(&run, text, count);
            run.most_steps = 0;
            size_t at = 0, last = SIZE_MAX, begin, end;
            uint64_t again = 0;
            while (tn__regex_find(regex, &run, at, last, &begin, &end) > 0) {
                at = last = end;
                again = again * 31 + begin * 7 + end;
            }
            fuzz_check(sum == again, "remembering changes no match");
            tn__regex_run_free(&run);
        }
        free(text);
    }
    tn__own_free(&arena);
    free(pattern);
    tn_error_clear();
    return 0;
}
