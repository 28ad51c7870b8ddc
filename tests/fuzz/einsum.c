/* einsum.c: fuzzes equations of tn_einsum. The first byte is the number of
 * tensors and whether they require gradients. Then each tensor has a byte for
 * its number of dimensions and one for each size. */
#include <tenon/tenon.h>

#include "fuzz.h"

const char fuzz_target[] = "einsum";

enum { TENSORS = 5 };

/* Makes the next tensor from the input; NULL at its end. */
static tn_tensor *take(const uint8_t **at, const uint8_t *end)
{
    tn_dims_list size = {.count = 0};
    if (*at == end)
        return NULL;
    size.count = *(*at)++ % 13;
    for (int d = 0; d < size.count; d++) {
        if (*at == end)
            return NULL;
        size.dim[d] = *(*at)++ % (size.count > 7 ? 3 : 4);
    }
    return tn_full(size, 0.5);
}

static void run(const uint8_t *data, size_t size)
{
    const uint8_t *at = data + 1, *end = data + size;
    tn_tensor *in[TENSORS];
    if (!size)
        return;
    tn_scope *scope = tn_scope_open();
    const int count = data[0] % (TENSORS + 1);
    int made = 0;
    while (made < count && (in[made] = take(&at, end)))
        if (data[0] & 64)
            tn_requires_grad(in[made++]);
        else
            made++;
    char *equation = fuzz_text(at, (size_t)(end - at));
    tn_tensor *y = tn_einsum(equation, in, made);
    if (!y) {
        fuzz_refused();
    } else {
        fuzz_accepted();
        tn_tensor *sum = tn_sum(y);
        fuzz_check(sum != NULL, "a result can be summed");
        if (tn_tensor_requires_grad(sum))
            tn_backward(sum);
        tn_item(sum);
        fuzz_accepted();
    }
    free(equation);
    tn_scope_close(scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
