/* gguf.c: fuzzes the reader of GGUF files. The input is a file. */
#include <lm/gguf/gguf_parse.h>

#include "fuzz.h"

const char fuzz_target[] = "gguf";

static void check_values(const tn__gguf_header *header, const uint8_t *data,
                         size_t size)
{
    for (int64_t i = 0; i < header->value_count; i++) {
        const tn__gguf_value *value = &header->value[i];
        const unsigned bytes = tn__gguf_number_bytes(value->item);
        fuzz_check(tn__gguf_value_find(header, value->key) == value,
                   "a value is found by its key");
        fuzz_check(value->count >= 0, "a count is not negative");
        fuzz_check(!bytes || (uint64_t)(data + size - value->at) / bytes >=
                                 (uint64_t)value->count,
                   "numbers are within the file");
        for (int64_t t = 0; value->texts && t < value->count; t++) {
            const uint8_t *text = (const uint8_t *)value->texts[t].text;
            fuzz_check(text >= data && text + value->texts[t].bytes <=
                                           data + size,
                       "a text is within the file");
        }
    }
}

static void check_entries(const tn__gguf_header *header, size_t size)
{
    for (int64_t i = 0; i < header->entry_count; i++) {
        const tn__gguf_entry *entry = &header->entry[i];
        uint64_t bytes = entry->bytes / entry->type->bytes;
        fuzz_check(tn__gguf_entry_find(header, entry->name) == entry,
                   "a tensor is found by its name");
        fuzz_check(!entry->bytes || (entry->offset <= size &&
                                     entry->bytes <= size - entry->offset),
                   "data is within the file");
        for (int d = 0; d < entry->ndim; d++) {
            fuzz_check(entry->shape[d] >= 0, "a size is not negative");
            fuzz_check(entry->shape[d] > 0 || bytes == 0,
                       "a tensor without elements has no bytes");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn__gguf_header header = {0};
    if (tn__gguf_parse(&header, data, size, "fuzz") < 0) {
        fuzz_refused();
    } else {
        fuzz_accepted();
        check_values(&header, data, size);
        check_entries(&header, size);
    }
    tn__gguf_release(&header);
    return 0;
}
