/* control.c: fuzzes the messages of the control plane: bytes that anyone can send
 * to its port. An accepted message is written as the same bytes; no length leads
 * outside of what was received; bytes that come later do not change the
 * answer. */
#include <dist/control_wire.h>

#include "fuzz.h"

const char fuzz_target[] = "control";

static int read_copy(const uint8_t *data, size_t size, tn__wire *out)
{
    uint8_t *copy = malloc(size ? size : 1); /* its end is the input's */
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    int n = tn__wire_read(copy, size, out);
    free(copy);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tn__wire message, shorter;
    static unsigned char written[TN__WIRE_MOST];
    for (size_t at = 0; at < size;) {
        int n = read_copy(data + at, size - at, &message);
        fuzz_check(n <= (int)(size - at), "no byte is read after the end");
        if (n <= 0)
            break;
        fuzz_check(n >= TN__WIRE_FIXED && n <= TN__WIRE_MOST, "a length in range");
        fuzz_check(message.record_bytes <= sizeof message.record &&
                       message.position_bytes <= sizeof message.position &&
                       strlen(message.text) == message.text_bytes,
                   "the strings fit");
        fuzz_check(tn__wire_write(&message, written) == (size_t)n &&
                       !memcmp(written, data + at, (size_t)n),
                   "it is written as it was read");
        fuzz_check(read_copy(data + at, (size_t)n - 1, &shorter) == 0,
                   "without its last byte it is not complete");
        at += (size_t)n;
    }
    return 0;
}
