/* job.c: begins and ends calls of operators with the flag `host`, and adds
 * their outputs (job.h). */
#include <base/memory.h>
#include <ops/linalg/job.h>

tn_status tn__job_begin(const tn__call *call, tn__job *j, int arg,
                        tn__staging how)
{
    *j = (tn__job){.name = tn__op_outer(call->op->name)};
    j->lapack = tn__lapack_open(j->name);
    if (!j->lapack)
        return tn_error_code();
    tn_status status = tn__stage(&j->a, tn__call_tensor(call, arg), how,
                                 j->name, call->op->arg[arg].name);
    if (status < 0)
        return status;
    /* A batch of 2^40 matrices without elements takes no memory, so no info is
     * allocated for it either. */
    j->matrices = j->a.tensor->numel ? j->a.batch : 0;
    return tn__job_ints(&j->info, j->matrices);
}

void tn__job_end(tn__job *j)
{
    tn__staged_free(&j->a);
    tn__staged_free(&j->b);
    tn__free(j->info);
    tn__free(j->pivots);
    tn__free(j->iwork);
    tn__free(j->work);
    tn__free(j->extra);
}

tn_status tn__job_give(tn__call *call, const tn__staged *s)
{
    return tn__give(call, tn__unstage(s, false));
}

tn_status tn__job_give_rows(tn__call *call, const tn__staged *s, int64_t rows)
{
    if (rows == s->rows)
        return tn__job_give(call, s);
    tn_tensor *whole = tn__unstage(s, false);
    tn_scope *scope = whole ? tn_scope_open() : NULL;
    tn_tensor *part =
        scope ? tn__ref(tn_clone(tn_narrow(whole, -2, 0, rows))) : NULL;
    tn_scope_close(scope);
    tn__unref(whole);
    return tn__give(call, part);
}

tn_status tn__job_give_ints(tn__call *call, const tn__job *j, const int *number,
                            int64_t width)
{
    return tn__give(call, tn__unstage_ints(number, &j->a, width, j->name));
}

tn_status tn__job_square(const tn__job *j, const tn_tensor *x,
                         const char *argument)
{
    char text[TN__SHAPE_TEXT];
    if (j->a.rows == j->a.columns)
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected square "
                    "matrices", j->name, argument,
                    tn__shape_text(text, x->ndim, x->shape));
}

tn_status tn__job_ints(int **list, int64_t count)
{
    *list = tn__alloc_many(count + 1, sizeof **list);
    if (!*list)
        return TN_ERR_MEMORY;
    memset(*list, 0, (size_t)(count + 1) * sizeof **list);
    return TN_OK;
}

tn_status tn__job_workspace(void **room, const tn__job *j, int64_t count)
{
    *room = tn__alloc_many(count + 1, j->a.element);
    return *room ? TN_OK : TN_ERR_MEMORY;
}

tn_status tn__job_refuse(const tn__job *j, const char *why)
{
    for (int64_t k = 0; k < j->matrices; k++)
        if (j->info[k] > 0)
            return tn__lapack_refuse(j->name, k, why, j->info[k]);
    return TN_OK;
}
