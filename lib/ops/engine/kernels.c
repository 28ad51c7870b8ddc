/* kernels.c: makes the kernel that an operator of the table needs for a call,
 * from the operator's line `kernel` and the dtypes of the call.
 *
 * The line `kernel` has only the body. This file puts a head with the inputs
 * and parameters of the call before the body: tensors become inputs, numbers
 * become parameters, and dtype arguments become type parameters. An integer
 * becomes an `int` parameter, so an integer tensor plus 2 is an integer tensor.
 *
 * The complete definition does not depend on dtypes. It is parsed once, and a
 * kernel is made from the parsed definition for each combination of dtypes. */
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <ctype.h>
#include <device/device.h>
#include <source/source.h>
#include <ops/engine/define.h>
#include <ops/engine/mistakes.h>
#include <string.h>

static tn__lock lock = TN__LOCK_INIT;

/* ---- the text of a kernel ------------------------------------------------ */

/* Returns whether the alternative body op->rare->with is used: whether argument
 * op->with_arg is given with a value other than its default. */
static bool uses_with(const tn_op *op, const tn_value *value)
{
    if (op->with_arg < 0)
        return false;
    const tn_value *v = &value[op->with_arg], *plain =
        &op->fallback[op->with_arg];
    return v->kind != TN_VALUE_NONE &&
           !(v->kind == plain->kind && v->count == plain->count &&
             v->of.i == plain->of.i);
}

/* Writes the complete definition, head and body, to text. Stores in
 * entry->input_arg which argument each input reads. If `converts` is true, the
 * result is converted to the dtype that is the last type parameter. */
static void make_text(tn__text *text, const tn_op *op, const tn_value *value,
                      bool converts, tn__op_entry *entry)
{
    const char *body = uses_with(op, value) ? op->rare->with : op->kernel;
    int inputs = 0, params = 0;
    tn__text_add(text, "%s(", op->name);
    for (int i = 0; i < op->arg_count; i++) {
        if (op->role[i] != TN__ROLE_OPERAND || value[i].kind != TN_VALUE_TENSOR)
            continue;
        tn__text_add(text, "%s%s%s", inputs ? ", " : "", op->arg[i].name,
                     op->rare->row_inputs >> i & 1 ? ": row" : "");
        entry->input_arg[inputs++] = (int8_t)i;
    }
    bool feeds_none = inputs == 0;
    if (op->extra & TN__READS_ELEMENT) {
        tn__text_add(text, "%selement: offset", inputs ? ", " : "");
        entry->input_arg[inputs++] = TN__INPUT_ELEMENT;
    }
    if (op->extra & TN__READS_POSITION) {
        tn__text_add(text, "%sposition: offset", inputs ? ", " : "");
        entry->input_arg[inputs++] = TN__INPUT_POSITION;
    }
    for (int i = 0; i < op->arg_count; i++) {
        const tn_value *v = &value[i];
        if ((op->role[i] != TN__ROLE_PARAM && op->role[i] != TN__ROLE_OPERAND) ||
            v->kind == TN_VALUE_TENSOR || v->kind == TN_VALUE_NONE ||
            (i == op->with_arg && body == op->kernel))
            continue;
        bool whole = v->kind == TN_VALUE_INT ||
                     (v->kind == TN_VALUE_NUMBER && v->count == TN_SCALAR_INT);
        bool truth = v->kind == TN_VALUE_BOOL ||
                     (v->kind == TN_VALUE_NUMBER && v->count == TN_SCALAR_BOOL);
        /* A floating-point number takes the dtype of the tensors in the call.
         * Without tensors, as in full, the number stays float64 until it is
         * converted to the dtype of the result. */
        tn__text_add(text, "%s%s%s", params++ ? ", " : "; ", op->arg[i].name,
                     truth        ? ": bool"
                     : whole      ? ": int"
                     : feeds_none ? ": f64"
                                  : "");
    }
    entry->draws = op->extra & TN__READS_SEED;
    if (entry->draws)
        tn__text_add(text, "%sseed: i64, call: i64", params++ ? ", " : "; ");
    for (int i = 0; i < op->arg_count; i++)
        if (op->role[i] == TN__ROLE_DTYPE && value[i].kind != TN_VALUE_NONE)
            tn__text_add(text, "%s%s: type", params++ ? ", " : "; ",
                         op->arg[i].name);
    if (converts)
        tn__text_add(text, "%sto_result: type", params ? ", " : "; ");
    tn__text_add(text, converts ? ") = to_result(%s)" : ") = %s", body);
}

/* ---- the entry in the cache ---------------------------------------------- */

/* Sets entry->input_arg for an operator made by tn_op_define. */
static void feed_user_def(tn__op_entry *entry)
{
    int arg = 0;
    for (int k = 0; k < tn__def_input_count(entry->def); k++) {
        bool offset = tn__def_input_is_offset(entry->def, k);
        entry->input_arg[k] = offset ? TN__INPUT_ELEMENT : (int8_t)arg++;
    }
}

/* Returns the part of a call's key that determines the kernel's source: the key
 * with the code 1 in place of each dtype. */
static uint64_t text_key(const tn_op *op, const tn_value *value, uint64_t key)
{
    int shift = 4; /* skips the last 4 bits, the code of out_dtype */
    if (key & 15)
        key = (key & ~(uint64_t)15) | 1;
    for (int i = op->arg_count; i-- > 0;) {
        if (op->role[i] == TN__ROLE_NONE)
            continue;
        if (value[i].kind == TN_VALUE_TENSOR ||
            (op->role[i] == TN__ROLE_DTYPE && value[i].kind != TN_VALUE_NONE))
            key = (key & ~((uint64_t)15 << shift)) | (uint64_t)1 << shift;
        shift += 4;
    }
    return key;
}

/* Takes the definition from another entry of the cache that has the same
 * source. Returns false if there is none. */
static bool share_def(tn__op_entry *entry, const struct tn__op_cache *cache)
{
    const tn__op_entry *e =
        atomic_load_explicit(&cache->first, memory_order_acquire);
    while (e && e->text_key != entry->text_key)
        e = e->next;
    if (!e)
        return false;
    entry->def = e->def;
    entry->draws = e->draws;
    memcpy(entry->input_arg, e->input_arg, sizeof entry->input_arg);
    return true;
}

/* Makes the source of the definition, parses it and stores the result in
 * entry. */
static tn_status parse_def(tn__op_entry *entry, const tn_op *op,
                           const tn_value *value, tn_dtype out_dtype)
{
    tn__text text = {0};
    make_text(&text, op, value, out_dtype != TN_DTYPE_NONE, entry);
    char *whole = tn__text_finish(&text);
    if (whole)
        entry->def = tn__def_parse(whole, op->name);
    tn__free(whole);
    return !whole ? TN_ERR_MEMORY : entry->def ? TN_OK : tn_error_code();
}

/* Stores in type[] the dtypes of the type parameters: those of the dtype
 * arguments that are given, then out_dtype if it is not 0. */
static void list_types(const tn_op *op, const tn_value *value,
                       tn_dtype out_dtype, tn_dtype *type)
{
    int count = 0;
    for (int i = 0; i < op->arg_count; i++)
        if (op->role[i] == TN__ROLE_DTYPE && value[i].kind != TN_VALUE_NONE)
            type[count++] = (tn_dtype)value[i].of.i;
    if (out_dtype)
        type[count] = out_dtype;
}

/* Sets the definition, the kernel and the program of entry for this call. Sets
 * *owns to true if the definition was parsed for this entry. */
static tn_status fill_entry(tn__op_entry *entry, const tn_op *op,
                            const tn_value *value, tn_dtype out_dtype,
                            bool *owns)
{
    if (op->cache->def && !out_dtype) {
        entry->def = op->cache->def;
        feed_user_def(entry);
    } else if (!share_def(entry, op->cache)) {
        tn_status status = parse_def(entry, op, value, out_dtype);
        if (status < 0)
            return status;
        *owns = true;
    }
    const int input_count = tn__def_input_count(entry->def);
    tn_dtype dtype[TN__KERNEL_MAX_INPUTS];
    list_types(op, value, out_dtype, dtype + input_count);
    entry->pointwise = true;
    for (int k = 0; k < input_count; k++) {
        int arg = entry->input_arg[k];
        dtype[k] = arg >= 0 ? value[arg].of.tensor->dtype : 0u;
        entry->pointwise &= arg >= 0;
    }
    bool pending = tn__error_pending();
    entry->kernel = tn__def_kernel(entry->def, dtype);
    if (!entry->kernel)
        return pending || op->cache->def ? tn_error_code()
                                         : tn__fail_dtypes(op, value);
    entry->program = tn__kernel_program(entry->kernel);
    if (!entry->program)
        return tn_error_code();
    entry->out_count = entry->kernel->output_count;
    entry->pointwise &= !entry->kernel->has_row;
    for (int k = 0; k < entry->kernel->input_count; k++)
        entry->pointwise &= entry->kernel->input[k].index_count == 0;
    for (int p = 0; p < entry->kernel->param_count; p++)
        entry->param_float[p] = entry->kernel->param[p].dtype == TN_F32 ||
                                entry->kernel->param[p].dtype == TN_F64;
    return TN_OK;
}

tn__op_entry *tn__op_entry_make(const tn_op *op, const tn_value *value,
                                tn_dtype out_dtype, uint64_t key)
{
    tn__op_entry *entry = tn__calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    bool owns = false;
    entry->key = key;
    entry->text_key = text_key(op, value, key);
    if (fill_entry(entry, op, value, out_dtype, &owns) < 0) {
        if (owns)
            tn__def_drop(entry->def);
        tn__free(entry);
        return NULL;
    }
    tn__lock_take(&lock);
    tn__op_entry *other = tn__op_entry_find(op->cache, key);
    if (other) {
        tn__free(entry);
        entry = other;
    } else {
        entry->next = atomic_load_explicit(&op->cache->first,
                                           memory_order_relaxed);
        atomic_store_explicit(&op->cache->first, entry, memory_order_release);
    }
    tn__lock_give(&lock);
    return entry;
}

const tn__def *tn__op_def(const tn_op *op, const tn__kernel *kernel)
{
    tn__op_entry *e =
        atomic_load_explicit(&op->cache->first, memory_order_acquire);
    while (e && e->kernel != kernel)
        e = e->next;
    if (!e)
        return tn__fail_null(TN_ERR_INTERNAL,
                             "%s: the kernel does not belong to this operator",
                             op->name);
    return e->def;
}

/* Passes the kernel interpreter and the printer of kernel source to device/,
 * from which plugins get them. device/ is a lower layer than kernel/ and
 * source/, so it cannot refer to them itself. */
__attribute__((constructor)) static void lend_kernels(void)
{
    tn__host_set_interpret(tn__interpret);
    tn__host_set_source(&tn__source_host);
}

/* ---- formulas ------------------------------------------------------------ */

const tn__kernel *tn__formula_kernel(tn__formula *formula,
                                     const tn_dtype *dtype)
{
    const tn__def *def =
        atomic_load_explicit(&formula->def, memory_order_acquire);
    if (!def) {
        tn__lock_take(&lock);
        def = atomic_load_explicit(&formula->def, memory_order_relaxed);
        if (!def) {
            def = tn__def_parse(formula->text, "formula");
            atomic_store_explicit(&formula->def, def, memory_order_release);
        }
        tn__lock_give(&lock);
        if (!def)
            return NULL;
    }
    return tn__def_kernel(def, dtype);
}
