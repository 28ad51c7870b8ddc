/* spec.c: fuzzes the parser of TENON_DEVICE. No device is opened. */
#include <device/registry.h>

#include "fuzz.h"

const char fuzz_target[] = "spec";

/* Returns whether the parsed item, written as a string and parsed again, is the
 * same. */
static bool reads_again(const tn__spec *spec)
{
    char text[sizeof(tn__spec) + 32], number[24] = "";
    if (spec->index >= 0)
        snprintf(number, sizeof number, ":%lld", (long long)spec->index);
    snprintf(text, sizeof text, "%s%s%s%s,%s", spec->name, number,
             *spec->words ? ":" : "", spec->words, spec->options);
    const char *at = text;
    char reason[TN__REASON_BYTES] = "";
    tn__spec again;
    return tn__spec_next(&at, &again, reason, sizeof reason) && !*at &&
           !strcmp(again.name, spec->name) && again.index == spec->index &&
           !strcmp(again.words, spec->words) &&
           !strcmp(again.options, spec->options);
}

static bool read_items(const char *text)
{
    do {
        tn__spec spec;
        char reason[TN__REASON_BYTES] = "";
        const char *before = text;
        if (!tn__spec_next(&text, &spec, reason, sizeof reason)) {
            fuzz_check(*reason, "what is refused has a message");
            return false;
        }
        fuzz_check(text > before, "an item moves the text on");
        fuzz_check(*spec.name && strnlen(spec.name, sizeof spec.name) <
                                     sizeof spec.name,
                   "a device has a name");
        fuzz_check(spec.index >= -1 && spec.index <= INT32_MAX,
                   "an index is small");
        fuzz_check(!strchr(spec.options, ';'), "options end at the ;");
        fuzz_check(reads_again(&spec), "what is read can be written");
    } while (*text);
    return true;
}

static void run(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    if (!read_items(text)) {
        fuzz_check(!tn_device_open(text), "one wrong item spoils the list");
        fuzz_refused();
    }
    fuzz_accepted();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
