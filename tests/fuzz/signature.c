/* signature.c: fuzzes signatures of operators that a program registers, such as
 * "(x, y?; n: int = 3)". An operator whose signature is accepted is queried and
 * called. */
#include <tenon/op_register.h>
#include <tenon/tenon.h>

#include "fuzz.h"

const char fuzz_target[] = "signature";

enum { ARGUMENTS = 64 };

static tn_status forward(tn_op_context *context, tn_tensor **out)
{
    for (int i = -1; i < 20; i++) {
        tn_value value = tn_op_context_value(context, i);
        fuzz_check(value.kind != TN_VALUE_STRING || value.of.string,
                   "a text is there");
        tn_op_context_tensor(context, i);
    }
    tn_error_clear(); /* errors about arguments that do not exist */
    out[0] = tn_ones(tn_dims(2));
    return out[0] ? TN_OK : tn_error_code();
}

static void call(const tn_op *op)
{
    tn_value value[ARGUMENTS] = {{.kind = 0}};
    tn_tensor *out[16];
    const int count = tn_op_arg_count(op);
    for (int i = 0; i < count; i++) {
        const tn_op_arg *argument = tn_op_arg_at(op, i);
        fuzz_check(argument->name && *argument->name, "arguments have names");
        if (i < ARGUMENTS && argument->kinds >> TN_VALUE_TENSOR & 1)
            value[i] = (tn_value){TN_VALUE_TENSOR, 0,
                                  {.tensor = tn_ones(tn_dims(2))}};
    }
    if (tn_op_call(op, value, count < ARGUMENTS ? count : ARGUMENTS, out,
                   16) < 0)
        fuzz_refused();
    else
        fuzz_accepted();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned number;
    char *text = malloc(size + 32);
    if (!text)
        abort();
    /* a name can be registered only once */
    int length = sprintf(text, "fuzz%u", number++);
    memcpy(text + length, data, size);
    text[(size_t)length + size] = 0;
    tn_scope *scope = tn_scope_open();
    const tn_op *op = tn_op_register(&(tn_op_rule){.size = sizeof(tn_op_rule),
                                                   .signature = text,
                                                   .doc = text,
                                                   .forward = forward});
    if (!op)
        fuzz_refused();
    memset(text, '?', (size_t)length + size); /* the library must have copied
                                               * the string */
    free(text);
    if (op) {
        fuzz_accepted();
        fuzz_check(strncmp(tn_op_signature(op), "fuzz", 4) == 0 &&
                       strncmp(tn_op_name(op), "fuzz", 4) == 0,
                   "it has its name");
        call(op);
    }
    tn_scope_close(scope);
    return 0;
}
