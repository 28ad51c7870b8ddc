/* Compares the first and second derivatives of every differentiable operator of
 * the table with finite differences in float64. An operator without a sample (a
 * call with its arguments) in gradient_samples.def gets one made from its
 * signature. If that call is not valid (a domain, a shape), the test fails
 * until gradient_samples.def has a sample. */
#include "words.h"

static const struct sample samples[] = {
#include "gradient_samples.def"
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* Operators that have no first or no second derivative, as PyTorch does. */
static const struct {
    const char *op;
    int order;
} refusing[] = {{"ctc_loss", 2}, {"ctc_forward", 2}, {"ctc_backward", 1}};

/* Operators that only some devices run or that do not accept float64, with the
 * name of the test that checks their gradients. */
static const struct {
    const char *op, *where;
} elsewhere[] = {{"attention_forward", "tests/cuda/test_attention.c"},
                 {"quantized_linear", "tests/ops/test_quantized.c"},
                 {"scaled_mm", "tests/ops/test_float8.c"}};

/* Numbers of operators and calls, for the report at the end. */
static struct {
    int calls, checked[3], refused[3], in_place, left_out;
} counts;

static void check_order(const struct sample *sample, int order,
                        tn_status status)
{
    const char *which = order == 1 ? "gradient" : "second gradient";
    int refused = 0;
    for (size_t i = 0; i < sizeof refusing / sizeof *refusing; i++)
        if (strcmp(refusing[i].op, sample->op) == 0)
            refused = refusing[i].order;
    counts.checked[order]++;
    counts.refused[order] += refused && order >= refused;
    if (refused && order >= refused)
        ok(status == TN_ERR_UNSUPPORTED && tn_error() &&
               strstr(tn_error(), "has no gradient"),
           "%s of %s is refused", which, sample->op);
    else if (!ok(status == TN_OK, "%s of %s(%s)", which, sample->op,
                 sample->arguments))
        note("%s", tn_error() ? tn_error() : "no message");
    tn_error_clear();
}

static void check(const struct sample *sample)
{
    tn_scope *scope = tn_scope_open();
    struct call call = {.fill = NULL};
    read_call(&call, sample);
    if (ok(call.op != NULL, "%s is in the table", sample->op)) {
        counts.calls++;
        check_order(sample, 1,
                    tn_gradcheck(run, call.leaf, call.leaf_count, &call));
        check_order(sample, 2,
                    tn_gradgradcheck(run, call.leaf, call.leaf_count, &call));
    }
    tn_scope_close(scope);
}

/* The in-place variant has the same gradient, or an error if the gradient needs
 * the overwritten value. */
static void check_in_place(const struct sample *sample)
{
    char name[64];
    snprintf(name, sizeof name, "%s_", sample->op);
    if (!find_row(name))
        return;
    tn_scope *scope = tn_scope_open();
    struct call call = {.fill = NULL};
    read_call(&call, sample);
    call.op = find_row(name);
    call.in_place = true;
    tn_tensor *out = run(call.leaf, call.leaf_count, &call);
    if (!out) /* the sample broadcasts its first argument, so it has no in-place
               * variant */
        is_int(tn_error_code(), TN_ERR_SHAPE, "%s(%s) is refused", name,
               sample->arguments);
    tn_error_clear();
    if (out) {
        tn_status status = tn_gradcheck(run, call.leaf, call.leaf_count, &call);
        counts.in_place++;
        bool told = status == TN_ERR_STATE && tn_error() &&
                    strstr(tn_error(), "changed in place since by") != NULL;
        if (!ok(status == TN_OK || told, "gradient of %s(%s)%s", name,
                sample->arguments, told ? ", which is told to be lost" : ""))
            note("%s", tn_error() ? tn_error() : "no message");
        tn_error_clear();
    }
    tn_scope_close(scope);
}

static bool has_sample(const char *name)
{
    size_t length = strlen(name);
    if (name[length - 1] == '_')
        length--;
    for (int i = 0; i < SAMPLES; i++)
        if (strncmp(samples[i].op, name, length) == 0 &&
            (!samples[i].op[length] || samples[i].op[length] == ' '))
            return true;
    return false;
}

/* Writes a sample for the arguments that op requires: leaves of one shape, with
 * numbers that most operators accept. Returns false if gradient_samples.def
 * must give an argument. */
static bool words_by_signature(const tn_op *op, char *text, size_t room)
{
    size_t length = 0;
    for (int i = 0; i < tn_op_arg_count(op); i++) {
        const tn_op_arg *arg = tn_op_arg_at(op, i);
        if (arg->optional || arg->fallback)
            break;
        static const struct {
            int kind;
            const char *word;
        } words[] = {{TN_VALUE_TENSOR, "p2,3"},   {TN_VALUE_TENSORS, "T2,3;2,3"},
                     {TN_VALUE_NUMBER, "q1.5"},   {TN_VALUE_FLOAT, "f0.5"},
                     {TN_VALUE_INT, "i1"},        {TN_VALUE_DIMS, "d1"},
                     {TN_VALUE_BOOL, "b1"}};
        const char *word = NULL;
        for (size_t k = 0; k < sizeof words / sizeof *words && !word; k++)
            if (arg->kinds & 1u << words[k].kind)
                word = words[k].word;
        if (!word || length + strlen(word) + 2 > room)
            return false;
        length += (size_t)snprintf(text + length, room - length, "%s%s",
                                   length ? " " : "", word);
    }
    return true;
}

/* Returns whether the result is float64: finite differences in float64 are
 * useless for a result of another dtype. */
static bool gives_float64(const struct sample *sample)
{
    tn_scope *scope = tn_scope_open();
    struct call call = {.fill = NULL};
    read_call(&call, sample);
    tn_tensor *out = run(call.leaf, call.leaf_count, &call);
    bool wide = !out || tn_tensor_dtype(out) == TN_F64;
    tn_error_clear();
    tn_scope_close(scope);
    return wide;
}

static void check_by_signature(const tn_op *op)
{
    char text[120] = "";
    const struct sample sample = {tn_op_name(op), text};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i].op, sample.op) == 0) {
            skip(1, elsewhere[i].where);
            return;
        }
    if (!ok(words_by_signature(op, text, sizeof text), "%s has a sample",
            sample.op)) {
        note("an argument of %s has no number by default: add its call to "
             "tests/autograd/gradient_samples.def, {\"%s\", \"...\"}",
             tn_op_signature(op), sample.op);
        return;
    }
    int failed = tap_failed;
    if (gives_float64(&sample)) {
        check(&sample);
        if (tap_failed > failed)
            note("if %s does not take (%s), made from its signature, add a call "
                 "that it takes to tests/autograd/gradient_samples.def",
                 sample.op, text);
    } else {
        counts.left_out++;
        note("%s: float64 in, another dtype out", sample.op);
        skip(1, "differences in float64 say nothing of its result");
    }
}

int main(void)
{
    plan_later();
    for (int i = 0; i < tn_op_count(); i++) {
        const tn_op *op = tn_op_at(i);
        if (in_part(i) && tn_op_is_differentiable(op) && !op->inplace &&
            !has_sample(tn_op_name(op)))
            check_by_signature(op);
    }
    for (int i = 0; i < SAMPLES; i++) {
        if (!in_part(i))
            continue;
        check(&samples[i]);
        check_in_place(&samples[i]);
    }
    note("%d calls: %d gradients held against differences (%d of them have to "
         "be refused), %d second gradients (%d), %d in place; of %d more rows "
         "the result is not float64", counts.calls, counts.checked[1],
         counts.refused[1], counts.checked[2], counts.refused[2],
         counts.in_place, counts.left_out);
    return done_testing();
}
