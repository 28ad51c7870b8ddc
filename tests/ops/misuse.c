/* misuse.c: makes values of all kinds, varies the arguments of a call, and
 * checks the outcome; see misuse.h. */
#include "misuse.h"
#include "work.h"

#include <base/error.h>
#include <base/memory.h>
#include <ctype.h>
#include <math.h>
#include <ops/engine/ops.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

struct misuse_counts misuse_counts;

enum {
    MEMORY = 64 << 20,              /* bytes that a device may allocate */
    HOST_MOST = MEMORY + (16 << 20) /* the limit for host memory, which includes
                                     * the device's and other allocations */
};

/* ---- values ------------------------------------------------------------- */

enum { MOST_VALUES = 256 };
static struct {
    tn_value value[MOST_VALUES];
    int count, ordinary; /* ordinary: number of ordinary tensors, which come
                          * first */
} pool;
static tn_tensor *listed[5];
static tn_device *other;

static void add(tn_value value)
{
    if (pool.count < MOST_VALUES)
        pool.value[pool.count++] = value;
}

static void add_tensor(tn_tensor *x)
{
    add(tn__value_tensor(x));
}

/* Returns a tensor of this shape with the values 0, 1, 2, ... */
static tn_tensor *counting(tn_dims_list size, tn_dtype dtype)
{
    int64_t numel = 1;
    for (int d = 0; d < size.count; d++)
        numel *= size.dim[d];
    return tn_to_dtype(tn_reshape(tn_arange(0, numel, 1, .dtype = TN_I64),
                                  size), dtype);
}

/* Returns a tensor of this shape with different values in (-1, 1). */
static tn_tensor *fractions(tn_dims_list size, tn_dtype dtype)
{
    tn_tensor *x = counting(size, TN_F64);
    return tn_to_dtype(tn_sin(tn_add_scalar(x, 0.25)), dtype);
}

static void add_ordinary_tensors(void)
{
    add_tensor(fractions(tn_dims(2, 3), TN_F32));
    add_tensor(fractions(tn_dims(3), TN_F32));
    add_tensor(fractions(tn_dims(3, 3), TN_F32));
    add_tensor(counting(tn_dims(3), TN_I64));
    add_tensor(fractions(tn_dims(1, 2, 4, 4), TN_F32));
    add_tensor(fractions(tn_dims(2, 2, 3, 3), TN_F32));
    add_tensor(fractions(tn_dims(2), TN_F32));
    add_tensor(fractions(tn_dims(2, 3, 4), TN_F32));
    add_tensor(fractions(TN_SCALAR, TN_F32));
    add_tensor(tn_gt_scalar(fractions(tn_dims(2, 3), TN_F32), 0));
    add_tensor(tn_remainder_scalar(counting(tn_dims(2, 3), TN_I64), 2));
    add_tensor(fractions(tn_dims(1, 2, 3, 4, 4), TN_F32));
    add_tensor(fractions(tn_dims(2, 3), TN_F64));
    pool.ordinary = pool.count;
}

static void add_strange_tensors(void)
{
    const int64_t huge = INT64_C(1) << 40;
    const int64_t numbers[] = {INT64_MIN, -1, huge, INT64_MAX, 2, -huge};
    const double specials[] = {NAN, INFINITY, -INFINITY, 1e300, -0.0, 5e-324};
    tn_tensor *whole = tn_tensor_from_array(numbers, TN_I64, tn_dims(2, 3));
    tn_tensor *real = tn_tensor_from_array(specials, TN_F64, tn_dims(2, 3));
    add_tensor(NULL);
    add_tensor(tn_ones(tn_dims(2, 3), .device = other));
    add_tensor(tn_ones(tn_dims(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)));
    add_tensor(tn_zeros(tn_dims(0)));
    add_tensor(tn_zeros(tn_dims(0), .dtype = TN_I64));
    add_tensor(tn_zeros(tn_dims(0, 3)));
    add_tensor(tn_zeros(tn_dims(3, 0)));
    add_tensor(tn_zeros(tn_dims(0, huge)));
    add_tensor(tn_zeros(tn_dims(huge, 0, 3)));
    add_tensor(tn_zeros(tn_dims(huge, 0, 0)));
    add_tensor(tn_zeros(tn_dims(huge, 3, 0)));
    add_tensor(tn_zeros(tn_dims(3, 0, huge)));
    add_tensor(tn_zeros(tn_dims(1, 2, 0, huge)));
    add_tensor(tn_zeros(tn_dims(huge, 2, 0, 4)));
    add_tensor(tn_zeros(tn_dims(1, huge, 0, 4, 4)));
    add_tensor(whole);
    add_tensor(tn_select(whole, 0, 0));
    add_tensor(tn_select(tn_select(whole, 0, 1), 0, 0));
    add_tensor(real);
    add_tensor(tn_select(tn_to_dtype(real, TN_F32), 0, 0));
    add_tensor(tn_to_dtype(real, TN_F16));
    add_tensor(fractions(tn_dims(2, 3), TN_BF16));
    add_tensor(tn_tensor_from_array(numbers, TN_F8E5M2, tn_dims(2, 3)));
    add_tensor(counting(tn_dims(2, 3), TN_U8));
    add_tensor(counting(tn_dims(3), TN_I32));
    add_tensor(counting(tn_dims(2, 3, 4), TN_I16));
    add_tensor(fractions(tn_dims(5, 7), TN_F32));
    add_tensor(fractions(tn_dims(4, 4, 2, 1), TN_F32));
    add_tensor(tn_expand(fractions(tn_dims(1, 3), TN_F32), tn_dims(2, 3)));
    add_tensor(tn_t(fractions(tn_dims(3, 2), TN_F32)));
    add_tensor(tn_slice(fractions(tn_dims(9), TN_F32), 0, 1, 9, 3));
}

static const int64_t wholes[] = {
    0, 1, -1, 2, -2, 3, 7, 63, 64, 100, -100, INT32_MAX, INT32_MIN,
    INT64_C(1) << 32, INT64_C(1) << 40, -(INT64_C(1) << 40),
    INT64_C(1) << 62, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1};
static const double reals[] = {0.0, 0.5,       1.0,  -1.0,  2.5,   1e18,
                               1e300, -1e300,  NAN,  1e-300,
                               INFINITY, -INFINITY};
enum {
    WHOLES = sizeof wholes / sizeof *wholes,
    REALS = sizeof reals / sizeof *reals,
    LISTS = 3 * WHOLES + 8
};

static void add_numbers(void)
{
    for (int i = 0; i < WHOLES; i++) {
        add(tn__value_int(wholes[i]));
        add(tn__value_number(tn_scalar_int(wholes[i])));
    }
    for (int i = 0; i < REALS; i++) {
        add(tn__value_float(reals[i]));
        add(tn__value_number(tn_scalar_float(reals[i])));
    }
    add(tn__value_number(tn_scalar_bool(true)));
    add(tn__value_bool(false));
    add(tn__value_bool(true));
    add((tn_value){TN_VALUE_BOOL, 0, {.i = 77}});
    add((tn_value){TN_VALUE_NUMBER, 9, {.i = 1}});
}

static void add_lists(void)
{
    static tn_dims_list list[LISTS];
    static const double some[3] = {0.5, NAN, INFINITY};
    int count = 0;
    for (int i = 0; i < WHOLES; i++) {
        list[count++] = tn_dims(wholes[i]);
        list[count++] = tn_dims(2, wholes[i]);
        list[count++] = tn_dims(wholes[i], wholes[i]);
    }
    list[count++] = TN_SCALAR;
    list[count++] = tn_dims(0, 1);
    list[count++] = tn_dims(1, 2, 3);
    list[count++] = tn_dims(3, 0, INT64_C(1) << 40);
    list[count++] = tn_dims(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2);
    list[count++] = tn_dims(1 << 16, 1 << 16, 1 << 16, 1 << 16);
    list[count].count = -1;
    list[++count].count = TN_MAX_NDIM + 1;
    for (int i = 0; i <= count; i++)
        add(tn__value_dims(&list[i]));
    for (int i = 0; i <= 3; i++)
        add(tn__value_floats(some, i));
    add((tn_value){TN_VALUE_FLOATS, -1, {.floats = some}});
    add((tn_value){TN_VALUE_FLOATS, 2, {.floats = NULL}});
    for (int i = -1; i <= 5; i++)
        add(tn__value_tensors(listed, i));
    add(tn__value_tensors(listed + 1, 1));
    add(tn__value_tensors(listed + 2, 2));
    add(tn__value_tensors(NULL, 2));
}

static void add_rest(void)
{
    add(tn__value_none());
    add((tn_value){TN_VALUE_STRING, 0, {.string = ""}});
    add((tn_value){TN_VALUE_STRING, 0, {.string = "no such thing"}});
    add((tn_value){TN_VALUE_STRING, 0, {.string = "ij,jk->ik"}});
    add((tn_value){TN_VALUE_STRING, 0, {.string = "...->,,%n\n"}});
    add((tn_value){TN_VALUE_STRING, 0, {.string = NULL}});
    for (int64_t i = -1; i <= TN_DTYPE_END; i++)
        add((tn_value){TN_VALUE_DTYPE, 0, {.i = i}});
    add((tn_value){TN_VALUE_DTYPE, 0, {.i = INT64_MAX}});
    add((tn_value){TN_VALUE_DEVICE, 0, {.device = NULL}});
    add((tn_value){TN_VALUE_DEVICE, 0, {.device = other}});
    add((tn_value){99, 0, {.i = 1}});
    add((tn_value){INT32_MIN, 0, {.i = 1}});
}

bool misuse_values_make(void)
{
    tn_error_clear();
    pool.count = 0;
    add_ordinary_tensors();
    for (int i = 0; i < 3; i++)
        listed[i] = pool.value[i].of.tensor;
    listed[4] = fractions(tn_dims(2, 3), TN_F32);
    add_strange_tensors();
    bool made = !tn_error();
    add_numbers();
    add_lists();
    add_rest();
    return made && pool.count < MOST_VALUES;
}

/* ---- a call -------------------------------------------------------------- */

/* The running call, for the report if it does not end or ends the process. */
static struct {
    const tn_op *op;
    const tn_value *value;
    int count;
} doing;

static void describe_value(char *text, size_t room, const tn_value *v)
{
    tn__text shape = {0};
    switch (v->kind) {
    case TN_VALUE_TENSOR:
        if (v->of.tensor)
            tn__text_add_shape(&shape, v->of.tensor->ndim, v->of.tensor->shape);
        snprintf(text, room, "%s %s",
                 tn_dtype_name(tn_tensor_dtype(v->of.tensor)),
                 shape.data ? shape.data : "NULL");
        break;
    case TN_VALUE_DIMS:
        if (v->of.dims && v->of.dims->count >= 0 && v->of.dims->count <= 12)
            tn__text_add_shape(&shape, v->of.dims->count, v->of.dims->dim);
        snprintf(text, room, "sizes %s", shape.data ? shape.data : "?");
        break;
    case TN_VALUE_FLOAT:
        snprintf(text, room, "%g", v->of.f);
        break;
    case TN_VALUE_STRING:
        snprintf(text, room, "\"%s\"", v->of.string ? v->of.string : "(NULL)");
        break;
    case TN_VALUE_NONE:
        snprintf(text, room, "-");
        break;
    case TN_VALUE_NUMBER:
        if (v->count == TN_SCALAR_FLOAT) {
            snprintf(text, room, "%g", v->of.f);
            break;
        } /* fall through */
    default:
        snprintf(text, room, "%lld [%d:%d]", (long long)v->of.i, v->kind,
                 v->count);
    }
    tn__text_release(&shape);
}

void misuse_describe(char *text, size_t room, const tn_op *op,
                     const tn_value *value, int count)
{
    size_t at = (size_t)snprintf(text, room, "%s(", op ? op->name : "");
    for (int i = 0; i < count && at < room; i++) {
        char one[200];
        describe_value(one, sizeof one, &value[i]);
        at += (size_t)snprintf(text + at, room - at, "%s%s", i ? ", " : "",
                               one);
    }
    if (at < room)
        snprintf(text + at, room - at, ")");
}

static void tell_call(void)
{
    char text[4000];
    misuse_describe(text, sizeof text, doing.op, doing.value, doing.count);
    printf("# %s\n", text);
    fflush(stdout);
}

/* Limits the processor time of the next call, not the wall time, which depends
 * on the machine's load. 0: no limit. */
static void limit_seconds(int seconds)
{
    const struct itimerval timer = {.it_value.tv_sec = seconds};
    setitimer(ITIMER_PROF, &timer, NULL);
}

/* Handles the signal of the time limit. The program ends anyway, so printing
 * here is safe enough. */
static void too_long(int number)
{
    (void)number;
    tell_call();
    printf("Bail out! a call takes too long\n");
    fflush(stdout);
    _exit(99);
}

/* Not NULL under a sanitizer. */
extern void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

bool misuse_begin(void)
{
    tn_device *device = tn_device_current();
    other = tn_device_open("reference");
    if (!device || !other) {
        printf("Bail out! %s\n", tn_error());
        return false;
    }
    signal(SIGPROF, too_long);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(tell_call);
    work_watch(device);
    if (other != device)
        work_watch(other);
    return tn_memory_set_limit(device, MEMORY) >= 0 &&
           tn_memory_set_limit(other, MEMORY) >= 0;
}

static void wrong(const char *what)
{
    if (misuse_counts.wrong++ > 100)
        return;
    tell_call();
    printf("# %s", what);
    if (tn_error_info() && tn_error_info()->argument)
        printf(" (%s)", tn_error_info()->argument);
    if (tn_error())
        printf(": %s: %s", tn_status_name(tn_error_code()), tn_error());
    putchar('\n');
}

/* Returns whether all elements of x are within its memory. */
static bool is_valid(const tn_tensor *x)
{
    if (!tn__tensor_is_live(x) || x->ndim > TN_MAX_NDIM ||
        !tn_dtype_bytes(x->dtype))
        return false;
    int64_t low, high, numel = 1;
    bool empty = false;
    for (int d = 0; d < x->ndim; d++) {
        if (x->shape[d] < 0)
            return false;
        empty |= x->shape[d] == 0;
    }
    for (int d = 0; d < x->ndim && !empty; d++)
        if (__builtin_mul_overflow(numel, x->shape[d], &numel))
            return false;
    if (empty)
        return x->numel == 0;
    tn__shape_span(x->ndim, x->shape, x->stride, &low, &high);
    uint64_t end = (uint64_t)(x->offset + high + 1) * tn_dtype_bytes(x->dtype);
    return x->numel == numel && x->offset + low >= 0 &&
           end <= x->storage->bytes;
}

/* Reads all elements of x, so that a sanitizer detects invalid memory. */
static bool is_readable(tn_tensor *x)
{
    char room[4096];
    size_t bytes = (size_t)x->numel * tn_dtype_bytes(x->dtype);
    return x->numel > 4096 || bytes > sizeof room ||
           tn_tensor_to_array(x, room, bytes) == TN_OK;
}

static bool is_fault(tn_status code)
{
    return code == TN_ERR_INTERNAL || code == TN_ERR_DEVICE_LOST ||
           code == TN_ERR_PLUGIN || code == TN_ERR_BUILD ||
           code == TN_ERR_NO_DEVICE || code == TN_ERR_IO;
}

/* Returns whether the message begins with the operator's name and names an
 * argument or a value. */
static bool tells(const tn_op *op, const char *message)
{
    size_t length = strlen(op->name);
    const tn_error_details *e = tn_error_info();
    if (strncmp(message, op->name, length) != 0 || message[length] != ':' ||
        !e->op || !e->called || strcmp(e->called, op->name) != 0)
        return false;
    if (tn_error_code() == TN_ERR_INDEX && !e->has_index)
        return false;
    return e->argument || strpbrk(message + length, "0123456789\"(") ||
           tn_error_code() == TN_ERR_MEMORY;
}

/* Returns whether the text contains this word. The word "dims" is also found as
 * "dim". */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        if (!(at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_')) &&
            !isalnum((unsigned char)at[length]) && at[length] != '_')
            return true;
    return strcmp(word, "dims") == 0 && has_word(text, "dim");
}

/* Returns whether the argument in the error details is one of the operator's,
 * and one of those that the message names. If the message names an argument,
 * the details must have one. Exceptions are messages about the number of
 * arguments, and messages of an operator inside a composite about its own
 * argument. */
static bool carries_argument(const tn_op *op, const char *message)
{
    const tn_error_details *e = tn_error_info();
    const char *text = message + strlen(op->name);
    const tn__error_facts *facts = tn__error_within(NULL);
    bool names = false, is_named = false, is_own = !e->argument;
    for (int i = 0; i < op->arg_count; i++) {
        bool named = has_word(text, op->arg[i].name);
        bool this = e->argument && strcmp(e->argument, op->arg[i].name) == 0;
        names |= named;
        is_own |= this;
        is_named |= this && named;
    }
    if (!is_own || (e->odd >= 0 && strcmp(e->tensor[e->odd]->argument,
                                          e->argument) != 0))
        return false;
    if (e->code == TN_ERR_MEMORY ||
        strstr(text, " arguments are given; expected ") ||
        strstr(text, ": values is NULL, count "))
        return true;
    return is_named == names || !facts || facts->foreign;
}

/* The limit on the work of one call: eight passes over the memory limit, as
 * work.h counts. The longest call, a conv3d, makes three (5.6e7 elements in
 * all; all others are below 1e7). A limit in seconds would depend on the
 * machine's load. */
static const double most_work = 8.0 * MEMORY / sizeof(float);

const char *misuse_judge(const tn_op *op, int made, tn_tensor *const *out)
{
    if (made < 0 && (!tn_error() || tn_error_code() != made))
        return "refused without this code";
    if (made < 0 && (is_fault(made) || !tells(op, tn_error())))
        return "refused";
    if (made < 0)
        return carries_argument(op, tn_error())
                   ? NULL
                   : "refused without the argument of its message as data";
    if (tn_error())
        return "done, but an error is pending";
    for (int i = 0; i < made; i++) {
        if (!is_valid(out[i]))
            return "gave no valid tensor";
        if (!is_readable(out[i]))
            return "gave what cannot be read";
    }
    return NULL;
}

int misuse_call(const tn_op *op, const tn_value *value, int count)
{
    tn_tensor *out[TN__OP_MAX_OUTPUTS];
    misuse_counts.calls++;
    tn_scope *scope = tn_scope_open();
    doing.op = op;
    doing.value = value;
    doing.count = count;
    limit_seconds(60);
    work_take();
    tn__memory_largest(true);
    int made = tn_op_call(op, value, count, out, TN__OP_MAX_OUTPUTS);
    double done = work_take();
    limit_seconds(0);
    if (done > most_work)
        wrong("did more than the memory it may take explains");
    if (tn__memory_largest(true) > HOST_MOST)
        wrong("asked for more host memory at once than a device may have");
    if (made < 0)
        misuse_counts.refused++;
    else
        misuse_counts.done++;
    const char *what = misuse_judge(op, made, out);
    if (what)
        wrong(what);
    tn_error_clear();
    tn_scope_close(scope);
    return made;
}

/* ---- variations ---------------------------------------------------------- */

void misuse_vary(const tn_op *op, const tn_value *value, int first, int every)
{
    tn_value own[TN__OP_MAX_ARGS];
    int number = 0;
    for (int i = 0; i < op->arg_count; i++) {
        memcpy(own, value, (size_t)op->arg_count * sizeof *own);
        for (int k = 0; k < pool.count; k++) {
            own[i] = pool.value[k];
            /* Values of a kind that the argument does not accept are tried one
             * time in eight. */
            bool taken = own[i].kind < 0 || own[i].kind > TN_VALUE_DEVICE ||
                         op->arg[i].kinds >> own[i].kind & 1 ||
                         own[i].kind == TN_VALUE_NONE;
            if ((taken || k % 8 == i % 8) && number++ % every == first % every)
                misuse_call(op, own, op->arg_count);
        }
    }
    for (int i = -1; i < op->arg_count; i++)
        misuse_call(op, value, i);
    memcpy(own, value, (size_t)op->arg_count * sizeof *own);
    own[op->arg_count] = tn__value_none();
    misuse_call(op, own, op->arg_count + 1);
}

tn_value misuse_ordinary(const tn_op *op, int i, uint32_t draw)
{
    static const tn_dims_list list[] = {
        {0, {0}}, {1, {0}},       {1, {1}},    {1, {2}}, {2, {0, 1}},
        {2, {2, 3}}, {2, {1, 1}}, {2, {3, 2}}, {2, {2, 2}}, {3, {2, 3, 1}},
        {3, {1, 1, 1}}, {4, {0, 1, 0, 1}}};
    static const char *const word[] = {
        "mean", "sum",  "none",    "nearest", "constant", "reflect",
        "same", "tanh", "bilinear", "floor",  "amax",     "ij",
        "reduced", "fro", "left",  "ij->ji", "prod",      "linear"};
    static const double some[] = {0.5, 1, 2};
    const tn_op_arg *arg = &op->arg[i];
    if (arg->optional || arg->fallback)
        if (draw % 4)
            return tn__value_none();
    draw /= 4;
    int kind = TN_VALUE_TENSOR;
    for (int turn = 0; turn <= (int)(draw % 3); turn++)
        do
            kind = kind == TN_VALUE_DEVICE ? TN_VALUE_TENSOR : kind + 1;
        while (!(arg->kinds >> kind & 1));
    draw /= 3;
    switch (kind) {
    case TN_VALUE_TENSOR:
        return pool.value[draw % (uint32_t)pool.ordinary];
    case TN_VALUE_TENSORS:
        return tn__value_tensors(&listed[draw % 3], 1);
    case TN_VALUE_NUMBER:
        return draw % 2 ? tn__value_number(tn_scalar_int(draw % 7 % 4))
                        : tn__value_number(tn_scalar_float(0.5));
    case TN_VALUE_INT:
        return tn__value_int((int64_t)(draw % 5) - 1);
    case TN_VALUE_FLOAT:
        return tn__value_float(some[draw % 3]);
    case TN_VALUE_BOOL:
        return tn__value_bool(draw % 2);
    case TN_VALUE_DIMS:
        return tn__value_dims(&list[draw % (sizeof list / sizeof *list)]);
    case TN_VALUE_FLOATS:
        return tn__value_floats(some, (int)(draw % 3) + 1);
    case TN_VALUE_STRING:
        return tn__value_string(word[draw % (sizeof word / sizeof *word)]);
    case TN_VALUE_DTYPE:
        return tn__value_dtype(draw % 2 ? TN_F32 : TN_I64);
    default:
        return tn__value_none();
    }
}
