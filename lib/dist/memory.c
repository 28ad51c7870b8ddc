/* memory.c: tensors in memory that the engine moves without copies. */
#include <dist/dist.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

/* What a tensor's memory needs when it is freed. */
typedef struct lease {
    const tn_comm_plugin *engine;
    tn_comm_memory *memory;
    tn_group *group;     /* kept */
    uint64_t generation; /* of the job */
} lease;

static void lease_end(void *context)
{
    lease *l = context;
    tn__dist_lock();
    const bool current = tn__dist_job_open && l->group->open &&
                         tn__dist_job_open->generation == l->generation;
    l->engine->memory_close(current ? l->group->comm : NULL, l->memory);
    tn__dist_unlock();
    tn_drop(l->group);
    free(l);
}

/* All ranks are here. Sets *data to NULL if the engine has no such memory, or
 * none is left: it then has none on any rank. */
static tn_status lease_begin(tn_group *group, uint64_t bytes, lease *l,
                             void **data)
{
    tn__dist_lock();
    tn_status status = TN_ERR_STATE;
    *data = NULL;
    if (tn__dist_job_open && group->open) {
        l->engine = tn__dist_job_open->engine;
        l->generation = tn__dist_job_open->generation;
        status = l->engine->memory_alloc && l->engine->memory_close
                     ? l->engine->memory_alloc(group->comm, bytes, data,
                                               &l->memory)
                     : TN_ERR_UNSUPPORTED;
    }
    tn__dist_unlock();
    if (status == TN_ERR_UNSUPPORTED || status == TN_ERR_MEMORY) {
        *data = NULL;
        return TN_OK;
    }
    return status == TN_OK ? TN_OK : tn__dist_report_end(group, "dist_empty");
}

/* Meets the other ranks, which must ask for the same. */
static tn_status meet(tn_group *group, uint64_t bytes)
{
    char label[48];
    snprintf(label, sizeof label, "tn_dist_empty of %llu bytes",
             (unsigned long long)bytes);
    return tn_dist_barrier(group, .label = label);
}

/* Returns plain itself if the engine has no memory for it. */
static tn_tensor *make(tn_tensor *plain, tn_dims_list shape, tn_group *group)
{
    const tn_dtype dtype = tn_tensor_dtype(plain);
    const uint64_t bytes = (uint64_t)tn_tensor_numel(plain) * tn_dtype_bytes(dtype);
    if (!group->comm || !bytes)
        return plain;
    lease *l = calloc(1, sizeof *l);
    if (!l) {
        tn_error_refuse_argument(TN_ERR_MEMORY, "dist_empty", NULL,
                                 "out of memory");
        return NULL;
    }
    void *data = NULL;
    tn_tensor *x = NULL;
    if (meet(group, bytes) == TN_OK &&
        lease_begin(group, bytes, l, &data) == TN_OK)
        x = data ? tn_tensor_wrap(data, dtype, shape, lease_end, l) : plain;
    if (data)
        l->group = tn_keep(group);
    if (data && !x)
        lease_end(l);
    else if (!data)
        free(l);
    return x;
}

/* The error is that of tn_empty. */
static void rename_error(const char *call)
{
    char text[256];
    const tn_status code = tn_error_code();
    const char *colon = strstr(tn_error(), ": ");
    snprintf(text, sizeof text, "%s", colon ? colon + 2 : tn_error());
    tn_error_clear();
    tn_error_refuse_argument(code, call, "shape", "%s", text);
}

TN_OPTIONS_TYPE(tn_dist_empty, "dist_empty", "shape, group",
                TN_DIST_EMPTY_OPTIONS_LIST)

tn_tensor *tn_dist_empty_with(tn_dims_list shape, tn_group *group,
                              const tn_dist_empty_options *options)
{
    static const char call[] = "dist_empty";
    tn_dist_empty_options o;
    if (tn_options_take(tn_dist_empty_type(), &o, options) < 0 ||
        !tn__dist_group_check(group, call))
        return NULL;
    if (tn_error()) {
        tn__dist_give_up(group, call);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_device *before = tn_device_current(), *cpu = tn_device_open("cpu");
    tn_tensor *x = NULL;
    if (cpu && tn_device_set(cpu) == TN_OK) {
        tn_tensor *plain = tn_empty(shape, .dtype = o.dtype);
        if (!plain)
            rename_error(call);
        x = plain ? make(plain, shape, group) : NULL;
        tn_device_set(before);
    }
    return tn_scope_result(scope, x);
}
