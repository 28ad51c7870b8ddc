/* wav.c: fuzzes the reader of WAV files, from memory and from a file. The first
 * byte of the input selects the options. */
#include <tenon/sound.h>

#include "fuzz.h"

const char fuzz_target[] = "wav";

static void run(const uint8_t *data, size_t size)
{
    if (!size)
        return;
    char path[32];
    const size_t bytes = size - 1;
    int fd = fuzz_file(data + 1, bytes, path);
    tn_scope *scope = tn_scope_open();
    tn_wav_load_options o = TN_WAV_LOAD_OPTIONS;
    tn_wav_decode_options p = TN_WAV_DECODE_OPTIONS;
    o.normalize = p.normalize = data[0] & 1;
    o.first_frame = p.first_frame = data[0] >> 1 & 3;
    o.frames = p.frames = (data[0] >> 3 & 3) - 1;
    tn_wav_info d = {.size = sizeof d};
    int64_t rate = 0, again = 0;
    if (tn_wav_info_load(path, &d) == TN_OK) {
        fuzz_accepted();
        fuzz_check(d.channels > 0 && d.sample_rate > 0 && d.frames >= 0,
                   "a file has channels and a rate");
        fuzz_check((uint64_t)d.frames * (uint64_t)d.channels <= bytes,
                   "no more samples than bytes");
    } else {
        fuzz_refused();
        d.frames = -1;
    }
    tn_tensor *x = tn_wav_load_with(path, &rate, &o);
    if (x) {
        fuzz_accepted();
        fuzz_check(d.frames >= o.first_frame && rate == d.sample_rate,
                   "a file that loads was described");
        fuzz_check(tn_tensor_size(x, 0) == d.channels &&
                       tn_tensor_size(x, 1) <= d.frames - o.first_frame,
                   "a tensor has the channels and frames of the file");
    } else {
        fuzz_refused();
    }
    void *copy = malloc(bytes + !bytes);
    if (!copy)
        abort();
    memcpy(copy, data + 1, bytes);
    tn_tensor *y = tn_wav_decode_with(copy, bytes, &again, &p);
    free(copy);
    if (y)
        fuzz_accepted();
    else
        fuzz_refused();
    fuzz_check(!x == !y && rate == again, "a file and memory give the same");
    tn_scope_close(scope);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t objects = tn_scope_count();
    run(data, size);
    fuzz_check(tn_scope_count() == objects, "nothing is left");
    return 0;
}
