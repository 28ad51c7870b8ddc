/* calls.h: direct calls of the simulated CUDA driver, as a program makes
 * them. */
#ifndef TN_TESTS_CALLS_H
#define TN_TESTS_CALLS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "../sim/sim.h"

#define DECLARE(field, symbol, parameters) tn_cu_result symbol parameters;
TN_CUDA_DRIVER_MAP(DECLARE)
#undef DECLARE
tn_cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
tn_cu_result cuMemFreeHost(void *pointer);
void sim_reports(char *out, size_t room);
void sim_mend(void);

/* Ends the test program if a call that must succeed fails. */
static inline void must(tn_cu_result error, const char *what)
{
    char said[4096];
    if (!error)
        return;
    sim_reports(said, sizeof said);
    bail_out("%s: error %d: %s", what, error, said);
}
#define MUST(call) must(call, #call)

/* A kernel f whose body reads %a, %b, %c (64 bits) and sets %d, which is stored
 * at the address in its first parameter. */
static const char calls_form[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry f(.param .u64 p0, .param .u64 a, .param .u64 b,\n"
    " .param .u64 c)\n{\n"
    ".reg .b64 %%rd<9>;\n.reg .b64 %%a, %%b, %%c, %%d;\n.reg .pred %%p<4>;\n"
    ".shared .align 8 .b8 s[64];\n.local .align 8 .b8 l[64];\n"
    "ld.param.u64 %%rd1, [p0];\nld.param.u64 %%a, [a];\n"
    "ld.param.u64 %%b, [b];\nld.param.u64 %%c, [c];\nmov.u64 %%d, 0;\n"
    "%s\nst.global.u64 [%%rd1], %%d;\nret;\n}\n";

static inline tn_cu_function kernel_of(const char *body, tn_cu_module *module)
{
    char text[4096];
    tn_cu_function f;
    snprintf(text, sizeof text, calls_form, body);
    must(cuModuleLoadData(module, text), body);
    MUST(cuModuleGetFunction(&f, *module, "f"));
    return f;
}

#endif
