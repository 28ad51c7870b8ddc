/* agree.c: exchanges the outcomes of all ranks: see agree.h. */
#include <parallel/agree.h>

#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/device.h>

/* The message without the name of the call, with which the new one begins. */
static const char *without_call(const char *text, const char *call)
{
    const size_t length = strlen(call);
    return strncmp(text, call, length) == 0 && strncmp(text + length, ": ", 2) == 0
               ? text + length + 2
               : text;
}

static tn_status gather(tn_group *group, const char *call,
                        const tn__report *own, tn__report *all)
{
    const int64_t bytes = (int64_t)sizeof *own;
    tn_status status = TN_OK;
    TN_NO_GRAD TN_SCOPE(scope) {
        tn_device *before = tn_device_current();
        tn_device_set(tn_device_open("cpu"));
        tn_tensor *x = tn_tensor_from_array(own, TN_U8, tn_dims(bytes));
        tn_device_set(before);
        tn_tensor *y = tn_dist_all_gather(x, group, .label = call);
        status = y ? tn_tensor_to_array(y, all, (size_t)bytes *
                                        (size_t)tn_group_size(group))
                   : tn_error_code();
    }
    return status;
}

tn_status tn__agree(tn_group *group, const char *call, tn__report *own,
                    tn__report *all)
{
    own->status = tn_error() ? (int64_t)tn_error_code() : TN_OK;
    memset(own->text, 0, sizeof own->text);
    if (tn_error())
        snprintf(own->text, sizeof own->text, "%s",
                 without_call(tn_error(), call));
    tn_error_clear();
    tn_status status = gather(group, call, own, all);
    if (status < 0)
        return status;
    const int size = tn_group_size(group);
    for (int r = 0; r < size; r++) {
        char rank[32] = "";
        if (all[r].status == TN_OK)
            continue;
        if (size > 1)
            snprintf(rank, sizeof rank, "rank %d: ", r);
        return tn_error_set((tn_status)all[r].status, "%s: %s%.*s", call, rank,
                            (int)sizeof all[r].text - 1, all[r].text);
    }
    return TN_OK;
}
