/* code.c: frees compiled code. */
#include <stdlib.h>

#include "code.h"

void tn__cpu_code_release(cpu_code *code)
{
    for (uint32_t i = 0; i < code->segment_count; i++) {
        tn__cpu_native_release(&code->segment[i]->native);
        free(code->segment[i]);
    }
    free(code->segment);
    free(code->op);
    free(code->slot);
    free(code->stage);
    free(code->reduce);
    free(code->constant);
    free(code->group_slot);
    *code = (cpu_code){0};
}
