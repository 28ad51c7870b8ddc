/* mathfile.c: fuzzes the parser of files with `fn`, `def` and `d` definitions,
 * such as those in lib/kernel/math. */
#include <kernel/math/functions.h>

#include "fuzz.h"

const char fuzz_target[] = "mathfile";

static void run(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    tn__arena arena = {0};
    tn__math_item *first = NULL, **end = &first;
    if (tn__math_parse(text, "fuzz", &arena, &end)) {
        fuzz_accepted();
        fuzz_check(!*end, "the list ends where it says");
        for (tn__math_item *item = first; item; item = item->next)
            fuzz_check(item->body && item->arg_count <= TN__MATH_MAX_ARGS,
                       "an item is whole");
    } else {
        fuzz_refused();
    }
    tn__arena_release(&arena);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
