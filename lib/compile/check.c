/* check.c: compares a replay with the function (TENON_COMPILE=check and
 * .check_every). */
#include <compile/check.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <tenon/random.h>

#include <inttypes.h>
#include <string.h>

/* The contents of the memory that a program writes. */
typedef struct contents {
    char **bytes; /* bytes[i]: of written value i, owned; on the host */
    size_t count;
} contents;

/* Returns the storage of the i-th written value of the program, in a capture that
 * is equal to that of the program. */
static tn__storage *written_storage(const tn__replayed *p,
                                    const tn__capture *capture, size_t i,
                                    tn_tensor *const *in)
{
    const tn__captured_value *value = &capture->value[p->written[i]];
    return value->kind == TN__VALUE_INPUT ? in[value->index]->storage
                                          : value->storage;
}

static void contents_free(contents *c)
{
    for (size_t i = 0; i < c->count; i++)
        tn__free(c->bytes[i]);
    tn__free(c->bytes);
    *c = (contents){NULL, 0};
}

/* Copies the written memory of a capture to the host. */
static tn_status contents_read(contents *c, const tn__replayed *p,
                               const tn__capture *capture,
                               tn_tensor *const *in)
{
    *c = (contents){tn__calloc(p->written_count + 1, sizeof *c->bytes), 0};
    if (!c->bytes)
        return TN_ERR_MEMORY;
    for (size_t i = 0; i < p->written_count; i++) {
        const tn__storage *storage = written_storage(p, capture, i, in);
        c->bytes[i] = tn__alloc(storage->bytes + 1);
        if (!c->bytes[i])
            return TN_ERR_MEMORY;
        c->count++;
        const tn_status status = tn__device_copy_out(
            storage->device, c->bytes[i], storage->block, 0, storage->bytes);
        if (status < 0)
            return status;
    }
    return TN_OK;
}

static tn_status contents_write(const contents *c, const tn__replayed *p,
                                tn_tensor *const *in)
{
    tn_status status = TN_OK;
    for (size_t i = 0; i < c->count && status >= 0; i++) {
        const tn__storage *storage = written_storage(p, p->capture, i, in);
        status = tn__device_copy_in(storage->device, storage->block, 0,
                                    c->bytes[i], storage->bytes);
    }
    return status;
}

/* Returns the operators of the program that write value v, for a message. */
static const char *writer_of(const tn__replayed *p, uint32_t v)
{
    const tn__capture *c = p->capture;
    for (size_t s = c->step_count; s-- > 0;)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            const tn__use *use = &c->use[c->step[s].first_use + u];
            if (use->value == v && use->access.writes)
                return c->step[s].what;
        }
    return "no operator";
}

/* Compares two tensors by their bytes. Returns the index of the first element
 * that differs, -1 if there is none, and -2 if memory runs out. */
static int64_t first_difference(const tn_tensor *x, const tn_tensor *y)
{
    tn__host_view a = {0}, b = {0};
    const size_t bytes = tn_dtype_bytes(x->dtype);
    int64_t found = -1;
    if (tn__host_view_open(&a, x) < 0 || tn__host_view_open(&b, y) < 0)
        found = -2;
    for (int64_t i = 0; i < x->numel && found == -1; i++) {
        int64_t at = 0, rest = i;
        for (int d = x->ndim; d-- > 0; rest /= x->shape[d])
            at += rest % x->shape[d] * x->stride[d];
        if (memcmp(a.base + at * (int64_t)bytes, b.base + at * (int64_t)bytes,
                   bytes) != 0)
            found = i;
    }
    tn__host_view_close(&a);
    tn__host_view_close(&b);
    return found;
}

static tn_status compare_outputs(const char *name, const tn__replayed *p,
                                 tn_tensor *const *replayed,
                                 tn_tensor *const *out)
{
    for (size_t o = 0; o < p->capture->output_count; o++) {
        const tn_tensor *x = replayed[o], *y = out[o];
        const bool alike =
            x->dtype == y->dtype &&
            tn__shape_equal(x->ndim, x->shape, y->ndim, y->shape) &&
            (x->numel == 0 ||
             memcmp(x->stride, y->stride, x->ndim * sizeof *x->stride) == 0);
        const int64_t at = alike ? first_difference(x, y) : 0;
        const char *writer = writer_of(p, p->capture->output[o].value);
        if (at == -2)
            return tn_error_code();
        if (!alike)
            return tn__fail(TN_ERR_STATE, "%s: out[%zu], written by %s, has "
                            "another dtype or shape in the function than in "
                            "the program: call tn_compiled_reset after a "
                            "change of the context", name, o, writer);
        if (at >= 0)
            return tn__fail(TN_ERR_STATE, "%s: element %" PRId64 " of out[%zu], "
                            "written by %s, differs between the function and "
                            "its program: call tn_compiled_reset after a "
                            "change of the context", name, at, o, writer);
    }
    return TN_OK;
}

static tn_status compare_contents(const char *name, const tn__replayed *p,
                                  tn_tensor *const *in, const contents *program,
                                  const contents *function)
{
    for (size_t i = 0; i < p->written_count; i++) {
        const tn__storage *storage = written_storage(p, p->capture, i, in);
        if (memcmp(program->bytes[i], function->bytes[i], storage->bytes) != 0)
            return tn__fail(TN_ERR_STATE, "%s: a tensor of %" PRIu64 " bytes, "
                            "written by %s, differs between the function and "
                            "its program: call tn_compiled_reset after a "
                            "change of the context", name, storage->bytes,
                            writer_of(p, p->written[i]));
    }
    return TN_OK;
}

/* Captures a call of the function and compares it with the replay, whose results
 * are in replayed[] and *program. */
static tn_status compare_function(const char *name, const tn__replayed *p,
                                  const tn__capture *reference,
                                  tn_compile_fn fn, void *context,
                                  tn_tensor *const *in, int in_count,
                                  tn_tensor **out, int out_count,
                                  tn_tensor *const *replayed,
                                  const contents *program)
{
    contents function = {0};
    char *text = NULL;
    tn__capture *capture =
        tn__capture_call(name, p->capture->record->device, fn, context, in,
                         in_count, out, out_count);
    if (!capture)
        return tn_error_code();
    tn_status status = TN_OK;
    if (tn__captures_compare(reference, capture, &text) != TN__CAPTURES_EQUAL)
        status = tn__fail(TN_ERR_STATE, "%s: the function now does other work "
                          "than its program: %s: call tn_compiled_reset after a "
                          "change of the context", name, text ? text : "");
    tn__free(text);
    if (status >= 0)
        status = contents_read(&function, p, capture, in);
    if (status >= 0)
        status = compare_outputs(name, p, replayed, out);
    if (status >= 0)
        status = compare_contents(name, p, in, program, &function);
    contents_free(&function);
    tn__capture_free(capture);
    return status;
}

tn_status tn__check_replay(const char *name, tn__replayed *p,
                           const tn__capture *reference, tn_compile_fn fn,
                           void *context, tn_tensor *const *in, int in_count,
                           tn_tensor **out, int out_count)
{
    contents before = {0}, program = {0};
    tn_tensor *replayed[TN_COMPILE_MAX_OUTPUTS];
    const tn_rng_state random = tn_rng_snapshot();
    tn_scope *scope = tn_scope_open();
    tn_status status =
        scope ? contents_read(&before, p, p->capture, in) : tn_error_code();
    if (status >= 0)
        status = tn__replayed_run(p, in, 0, replayed);
    for (int o = 0; o < out_count && status >= 0; o++)
        tn__ref(replayed[o]);
    if (status >= 0) {
        tn_scope_close(scope);
        scope = NULL;
        status = contents_read(&program, p, p->capture, in);
        if (status >= 0)
            status = contents_write(&before, p, in);
        tn__record_take_back(p->capture->record);
        tn_rng_restore(random);
        if (status >= 0)
            status = compare_function(name, p, reference, fn, context, in,
                                      in_count, out, out_count, replayed,
                                      &program);
        for (int o = 0; o < out_count; o++)
            tn__unref(replayed[o]);
    }
    tn_scope_close(scope);
    contents_free(&before);
    contents_free(&program);
    if (status < 0)
        tn__clear_outputs(out, out_count);
    return status;
}
