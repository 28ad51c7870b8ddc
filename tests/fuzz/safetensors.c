/* safetensors.c: fuzzes the reader of safetensors files.
 *
 * The input is the size of the data in decimal digits, one other character, and
 * the header. The header is parsed alone, and as a file with that many zero
 * bytes after it. The input's bytes are also read as a complete file. */
#include <io/safetensors.h>

#include "fuzz.h"

const char fuzz_target[] = "safetensors";

static void check_header(const tn__safetensors_header *header,
                         uint64_t data_bytes)
{
    uint64_t at = 0;
    for (size_t i = 0; i < header->count; i++) {
        const tn__safetensors_entry *entry = &header->entry[i];
        fuzz_check(entry->begin == at && entry->end >= at,
                   "tensors lie side by side");
        at = entry->end;
        fuzz_check(tn__safetensors_find(header, entry->name) == entry,
                   "a tensor is found by its name");
        uint64_t bytes = at - entry->begin;
        for (int k = 0; k < entry->ndim; k++)
            fuzz_check(entry->shape[k] >= 0, "sizes are counts");
        for (int k = 0; bytes && k < entry->ndim; k++) {
            fuzz_check(bytes % (uint64_t)entry->shape[k] == 0,
                       "the shape takes the bytes");
            bytes /= (uint64_t)entry->shape[k];
        }
        fuzz_check(bytes <= 8, "the dtype takes the bytes");
    }
    fuzz_check(at == data_bytes, "every byte has its tensor");
    fuzz_check(!tn__safetensors_find(header, "\x01 no such name"),
               "what is not there is not found");
}

static void check_open(const void *data, size_t size)
{
    char path[32];
    int fd = fuzz_file(data, size, path);
    tn_scope *scope = tn_scope_open();
    tn_safetensors *file = tn_safetensors_open(path);
    if (!file)
        fuzz_refused();
    for (int i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i);
        fuzz_check(tn_safetensors_has(file, name), "a name is one");
        tn_tensor *x = tn_safetensors_tensor(file, name);
        if (x)
            fuzz_check(tn_tensor_numel(x) >= 0, "a tensor has its elements");
        else
            fuzz_refused();
    }
    fuzz_accepted();
    tn_scope_close(scope);
    close(fd);
}

static void run(const uint8_t *data, size_t size)
{
    check_open(data, size);
    uint64_t data_bytes = 0;
    size_t at = 0;
    for (; at < size && at < 18 && data[at] >= '0' && data[at] <= '9'; at++)
        data_bytes = data_bytes * 10 + (uint64_t)(data[at] - '0');
    if (at >= size)
        return;
    const char *json = (const char *)data + at + 1;
    uint64_t json_bytes = size - at - 1;
    char *text = malloc(json_bytes + 1);
    if (!text)
        abort();
    memcpy(text, json, json_bytes);
    tn__safetensors_header header;
    if (tn__safetensors_parse(&header, text, json_bytes, data_bytes, "fuzz")) {
        fuzz_refused();
    } else {
        fuzz_accepted();
        check_header(&header, data_bytes);
        tn__safetensors_release(&header);
    }
    free(text);
    if (data_bytes > 1 << 12)
        return;
    size_t whole = sizeof json_bytes + json_bytes + data_bytes;
    char *file = calloc(1, whole);
    if (!file)
        abort();
    memcpy(file, &json_bytes,
           sizeof json_bytes); /* little-endian, like this machine */
    memcpy(file + sizeof json_bytes, json, json_bytes);
    check_open(file, whole);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
