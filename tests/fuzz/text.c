/* text.c: fuzzes text files, plain or gzipped, as data sets of characters. */
#include <tenon/tenon.h>

#include "fuzz.h"

const char fuzz_target[] = "text";

static void run(const uint8_t *data, size_t size)
{
    char path[32];
    int fd = fuzz_file(data, size, path);
    tn_scope *scope = tn_scope_open();
    tn_text *text = tn_text_load(path);
    if (text) {
        fuzz_accepted();
        fuzz_check(tn_text_count(text) > 0 && tn_text_vocabulary(text) > 0 &&
                       tn_text_vocabulary(text) <= tn_text_count(text),
                   "no more kinds of characters than there are");
    } else {
        fuzz_refused();
    }
    tn_scope_close(scope);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
