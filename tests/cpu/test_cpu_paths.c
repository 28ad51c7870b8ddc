/* test_cpu_paths.c: the cpu plugin must recognise the kernels of resample
 * (interpolation, adaptive pooling) as weighted sums of a few input elements
 * ("taps"). Otherwise the results are bit-identical but take several times as
 * long, so no other test would notice. The kernels are those of the library,
 * whose source is included here. */
#include <stdarg.h>

#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/cpu_programs.h"
#include "../../backends/cpu/program/program.h"
#include "../../lib/ops/nn/window_taps.c"
#include "isa_here.h"

static tn_status host_fail(tn_status code, const char *format, ...)
{
    (void)format;
    return code;
}

static const tn_host host = {.size = sizeof host, .fail = host_fail};

static bool has_path(const tn_built *built, const cpu_path *path)
{
    for (const cpu_path *const *p = built->path; *p; p++)
        if (*p == path)
            return true;
    return false;
}

/* Builds the kernel whose source writes out this number of taps; 0: the kernel
 * that sums taps in a reduction. */
static tn_built *build(tn_plugin_device *device, int taps, tn_dtype dtype)
{
    tn_dtype in[1 + 2 * WRITTEN_OUT] = {dtype};
    for (int t = 0; t < WRITTEN_OUT; t++) {
        in[1 + 2 * t] = TN_I64;
        in[2 + 2 * t] = dtype;
    }
    const tn__kernel *kernel = tn__formula_kernel(&resample[taps], in);
    tn_built *built = NULL;
    if (!kernel)
        bail_out("%s", tn_error());
    if (tn__cpu_program_build(device, tn__kernel_program(kernel), &built) !=
        TN_OK)
        bail_out("no memory");
    return built;
}

static void test_set(const char *isa)
{
    if (!is_here(isa)) {
        skip(WRITTEN_OUT + 2, "this machine cannot run the set");
        return;
    }
    tn_plugin_device device = {.routines = tn__cpu_routines_for(isa)};
    for (int taps = 0; taps <= WRITTEN_OUT; taps++) {
        tn_built *built = build(&device, taps, TN_F32);
        if (taps == 0)
            ok(has_path(built, &tn__cpu_path_row_taps),
               "%s: rows of taps are recognised", isa);
        else
            ok(has_path(built, &tn__cpu_path_taps_along) &&
                   built->taps.count == (uint32_t)taps,
               "%s: a sum of %d taps is recognised", isa, taps);
        tn__cpu_program_free(&device, built);
    }
    tn_built *built = build(&device, 2, TN_F64);
    ok(!has_path(built, &tn__cpu_path_taps_along),
       "%s: float64 runs by blocks", isa);
    tn__cpu_program_free(&device, built);
}

int main(void)
{
    plan_later();
    tn__cpu_host = &host;
    test_set("v3");
    test_set("v4");
    return done_testing();
}
