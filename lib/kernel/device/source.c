/* source.c: the functions of device.h as a host table has them, and the texts
 * by name. */
#include <string.h>

#include "kernel/device/class.h"
#include "kernel/device/text.h"

const char *tn__device_part(const char *name)
{
    for (const char *const *at = tn__device_text; *at; at += 2)
        if (strcmp(*at, name) == 0)
            return at[1];
    return NULL;
}

const tn_host tn__device_source = {
    .size = sizeof tn__device_source,
    .plan_program = tn__plan_program,
    .plan_matmul = tn__plan_matmul,
    .plan_scatter = tn__plan_scatter,
    .plan_scan = tn__plan_scan,
    .plan_sort = tn__plan_sort,
    .print = tn__print,
    .print_free = tn__print_free,
    .fault_read = tn__fault_read,
    .plan_attention = tn__plan_attention,
    .plan_conv = tn__plan_conv,
};
