/* block_size.c: how many elements a block has, so that its slots (memory of
 * values) fit in L1. */
#include "plan.h"
#include "tuning.h"

int64_t tn__cpu_slot_bytes(const cpu_code *code, bool whole)
{
    int64_t each = code->elem_bytes + (whole ? code->group_bytes : 0);
    return each > 0 ? each : 1;
}

int64_t tn__cpu_block_size(const cpu_code *code, bool whole)
{
    int64_t count =
        TN_CPU_BLOCK_BYTES / tn__cpu_slot_bytes(code, whole) / 256 * 256;
    return count < 256 ? 256 : count > 4096 ? 4096 : count;
}
