/* Every differentiable row of the operator table: its gradient, and the
 * gradient of that, against differences in float64. A row without a sample of
 * its own gets one made from its signature; where that does not do (a domain,
 * a shape), the test fails until a sample stands in gradient_samples.def. */
#include <ops/ops.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include "tap.h"

/* In words: gradient_samples.def. */
static const struct sample {
    const char *op, *arguments;
} samples[] = {
#include "gradient_samples.def"
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

/* ---- arguments from words ----------------------------------------------- */

#define ROOM 8
struct call {
    const tn_op *op;
    bool in_place;
    tn_value value[TN__OP_MAX_ARGS];
    int count;
    tn_dims_list dims[TN__OP_MAX_ARGS];
    char text[TN__OP_MAX_ARGS][16];
    double floats[ROOM];
    tn_tensor *whole[ROOM];
    tn_tensor *leaf[ROOM]; /* inputs of gradcheck, in order */
    int leaf_count;
    int leaf_of[TN__OP_MAX_ARGS]; /* number of the (first) leaf, or -1 */
    char kind[TN__OP_MAX_ARGS];   /* of the word: S and L make something of it */
    int output;
    uint64_t state;
};

/* In [low, high), without pattern: Knuth's MMIX generator. */
static double draw(struct call *call, double low, double high)
{
    call->state = call->state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(call->state >> 11) * 0x1p-53;
}

static const char *read_dims(const char *at, tn_dims_list *dims)
{
    dims->count = 0;
    while (*at == '-' || (*at >= '0' && *at <= '9')) {
        char *end;
        dims->dim[dims->count++] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return at;
}

static tn_tensor *make_tensor(struct call *call, char kind,
                              const tn_dims_list *shape, int64_t bound)
{
    double number[256];
    int64_t whole[256];
    unsigned char mask[256];
    int64_t numel = 1;
    for (int d = 0; d < shape->count; d++)
        numel *= shape->dim[d];
    for (int64_t i = 0; i < numel; i++) {
        number[i] = kind == 'p' || kind == 'k' ? draw(call, 0.5, 2)
                    : kind == 'u' ? draw(call, 0.1, 0.9)
                    : kind == 'g' ? draw(call, 1.2, 3)
                    : kind == 'o' ? 1
                                  : draw(call, -2, 2);
        whole[i] = i % (bound ? bound : 1);
        mask[i] = i % 3 != 1;
    }
    if (kind == 'x')
        return tn_tensor_from_array(whole, TN_I64, *shape);
    if (kind == 'I') {
        int32_t along[256];
        int64_t last = shape->count ? shape->dim[shape->count - 1] : 1;
        for (int64_t i = 0; i < numel; i++)
            along[i] = (int32_t)(i % last + 1);
        return tn_tensor_from_array(along, TN_I32, *shape);
    }
    if (kind == 'm')
        return tn_tensor_from_array(mask, TN_BOOL, *shape);
    tn_tensor *x = tn_tensor_from_array(number, TN_F64, *shape);
    return strchr("cok", kind) ? x : tn_requires_grad(x);
}

static void read_tensor(struct call *call, const char *word, tn_value *value)
{
    tn_dims_list shape;
    const char *at = read_dims(word + 1, &shape);
    int64_t bound = *at == '<' ? strtoll(at + 1, NULL, 10) : 0;
    *value = tn__value_tensor(make_tensor(call, word[0], &shape, bound));
    if (strchr("tpugSLN", word[0])) {
        call->leaf_of[call->count] = call->leaf_count;
        call->leaf[call->leaf_count++] = value->of.tensor;
    }
}

static void read_list(struct call *call, const char *word, tn_value *value)
{
    int first = call->leaf_count;
    for (const char *at = word; *at == 'T' || *at == ';';) {
        tn_dims_list shape;
        at = read_dims(at + 1, &shape);
        call->leaf[call->leaf_count++] = make_tensor(call, 't', &shape, 0);
    }
    call->leaf_of[call->count] = first;
    *value = tn__value_tensors(&call->leaf[first], call->leaf_count - first);
}

static void read_whole_list(struct call *call, const char *word,
                            tn_value *value)
{
    int count = 0;
    for (const char *at = word; *at == 'X' || *at == ';';) {
        tn_dims_list shape;
        char *end;
        at = read_dims(at + 1, &shape);
        call->whole[count++] =
            make_tensor(call, 'x', &shape, strtoll(at + 1, &end, 10));
        at = end;
    }
    *value = tn__value_tensors(call->whole, count);
}

static void read_floats(struct call *call, const char *word, tn_value *value)
{
    int count = 0;
    for (const char *at = word; *at == 'F' || *at == ',';) {
        char *end;
        call->floats[count++] = strtod(at + 1, &end);
        at = end;
    }
    *value = tn__value_floats(call->floats, count);
}

static void read_word(struct call *call, const char *word)
{
    int i = call->count;
    tn_value *value = &call->value[i];
    call->leaf_of[i] = -1;
    call->kind[i] = word[0];
    switch (word[0]) {
    case 'S': case 'L': case 'N': case 'I': case 't': case 'p': case 'u': case 'g':
    case 'c': case 'k': case 'o': case 'x': case 'm':
        read_tensor(call, word, value);
        break;
    case 'T':
        read_list(call, word, value);
        break;
    case 'X':
        read_whole_list(call, word, value);
        break;
    case 'F':
        read_floats(call, word, value);
        break;
    case 'i':
        *value = tn__value_int(strtoll(word + 1, NULL, 10));
        break;
    case 'n':
        *value = tn__value_number(tn_num(strtoll(word + 1, NULL, 10)));
        break;
    case 'f':
        *value = tn__value_float(strtod(word + 1, NULL));
        break;
    case 'q':
        *value = tn__value_number(tn_num(strtod(word + 1, NULL)));
        break;
    case 'd':
        read_dims(word + 1, &call->dims[i]);
        *value = tn__value_dims(&call->dims[i]);
        break;
    case 's':
        snprintf(call->text[i], sizeof call->text[i], "%s", word + 1);
        *value = tn__value_string(call->text[i]);
        break;
    case 'b':
        *value = tn__value_bool(word[1] == '1');
        break;
    case 'y':
        *value = tn__value_dtype(TN_F64);
        break;
    case 'D':
        *value = tn__value_device(tn_device_current());
        break;
    default:
        *value = tn__value_none();
    }
    call->count++;
}

/* By its name in C: tn_op_find("max") may give another row of that name. */
static const tn_op *find_row(const char *name)
{
    for (int i = 0; i < tn_op_count(); i++)
        if (strcmp(tn_op_name(tn_op_at(i)), name) == 0)
            return tn_op_at(i);
    return NULL;
}

static void read_call(struct call *call, const struct sample *sample)
{
    memset(call, 0, sizeof *call);
    call->state = 99;
    char name[64];
    snprintf(name, sizeof name, "%s", sample->op);
    char *space = strchr(name, ' ');
    if (space) {
        *space = '\0';
        call->output = atoi(space + 1);
    }
    call->op = find_row(name);
    char words[128];
    snprintf(words, sizeof words, "%s", sample->arguments);
    char *save = NULL;
    for (char *word = strtok_r(words, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        read_word(call, word);
}

/* ---- the comparison ----------------------------------------------------- */

/* What an operator that takes not every matrix gets for a leaf. */
static tn_tensor *derived(tn_tensor *x, char kind)
{
    if (kind == 'N')
        return tn_log_softmax(x, -1);
    if (kind != 'S' && kind != 'L')
        return x;
    tn_tensor *one = tn_eye(tn_tensor_size(x, -1), .dtype = TN_F64);
    return kind == 'S'
               ? tn_add(tn_matmul(x, tn_transpose(x, -1, -2)), one)
               : tn_add(tn_tril(x), tn_mul_scalar(one, 2));
}

static tn_tensor *run(tn_tensor *const *inputs, int count, void *context)
{
    (void)count;
    const struct call *call = context;
    tn_value value[TN__OP_MAX_ARGS];
    tn_tensor *out[TN__OP_MAX_OUTPUTS];
    for (int i = 0; i < call->count; i++) {
        value[i] = call->value[i];
        if (call->leaf_of[i] < 0)
            continue;
        if (value[i].kind == TN_VALUE_TENSORS)
            value[i].of.tensors = inputs + call->leaf_of[i];
        else
            value[i].of.tensor =
                derived(inputs[call->leaf_of[i]], call->kind[i]);
    }
    if (call->in_place)
        value[0].of.tensor = tn_clone(value[0].of.tensor);
    tn_manual_seed(3); /* the same draw each time */
    return tn_op_call(call->op, value, call->count, out, TN__OP_MAX_OUTPUTS) <
                   0
               ? NULL
               : out[call->output];
}

/* Rows that have no gradient of the first or second order, as in PyTorch, and say
 * so. */
static const struct {
    const char *op;
    int order;
} refusing[] = {{"ctc_loss", 2}, {"ctc_forward", 2}, {"ctc_backward", 1}};

/* Rows that only some devices run, or that take no float64, and where their
 * gradients are tested. */
static const struct {
    const char *op, *where;
} elsewhere[] = {{"attention_forward", "tests/cuda/test_attention.c"},
                 {"scaled_mm", "tests/ops/test_float8.c"}};

/* What was done, told at the end. */
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
    struct call call;
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

/* The twin that writes into its first argument: the same gradient, or, where
 * that needs what was overwritten, an error that says so. */
static void check_in_place(const struct sample *sample)
{
    char name[64];
    snprintf(name, sizeof name, "%s_", sample->op);
    if (!find_row(name))
        return;
    tn_scope *scope = tn_scope_open();
    struct call call;
    read_call(&call, sample);
    call.op = find_row(name);
    call.in_place = true;
    tn_tensor *out = run(call.leaf, call.leaf_count, &call);
    if (!out) /* the sample broadcasts its first argument */
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

/* Words for the arguments that op requires: leaves of one shape, numbers that
 * most operators take. False if one of them can only be chosen by hand. */
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

/* Differences in float64 say nothing of a result in another dtype. */
static bool gives_float64(const struct sample *sample)
{
    tn_scope *scope = tn_scope_open();
    struct call call;
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
            sample.op))
        return;
    if (gives_float64(&sample))
        check(&sample);
    else {
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
        if (tn_op_is_differentiable(op) && !op->inplace &&
            !has_sample(tn_op_name(op)))
            check_by_signature(op);
    }
    for (int i = 0; i < SAMPLES; i++) {
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
