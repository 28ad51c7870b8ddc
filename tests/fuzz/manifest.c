/* manifest.c: fuzzes the parser of a plugin's manifest tn_<name>.conf. */
#include <device/registry.h>

#include "fuzz.h"

const char fuzz_target[] = "manifest";

static void run(const uint8_t *data, size_t size)
{
    char path[32], reason[TN__REASON_BYTES] = "";
    int fd = fuzz_file(data, size, path);
    tn__manifest m;
    if (tn__manifest_read(path, &m, reason, sizeof reason)) {
        fuzz_check(m.present && !*reason, "a manifest that is right is there");
        fuzz_check(!m.name[strcspn(m.name, ":;,/= \t")],
                   "a name is one word of a specification");
        fuzz_check(m.kind >= -1 && m.kind <= TN_KIND_SIMULATED,
                   "a kind is one");
        fuzz_check(m.priority >= -1000000 && m.priority <= 1000000,
                   "a priority is in its range");
    } else {
        fuzz_check_line(reason);
        fuzz_check(!m.present, "a wrong manifest is none");
    }
    fuzz_accepted();
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
