/* Prints the source of each kernel, and compiles it with clang as OpenCL C 1.2
 * and 3.0 without any message. (test_nvrtc.c compiles CUDA C.) No device is
 * needed.
 *
 *   TENON_TEST_TEXTS     how many sources clang compiles (50; 0: all)
 *   TENON_TEST_PART      "1/4": every fourth of these, from the second on
 *   TENON_TEST_PROGRAMS  random programs for each target (100) */
#include "printed.h"

#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "source/plan/class.h"
#include "kernel/kernel.h"
#include <tenon/base.h>

static printed_list list;
static int most = 50; /* number of sources that clang compiles; 0: all */
static int part, parts = 1;

static void print_all(void)
{
    int programs = 100, rows = 0;
    if (getenv("TENON_TEST_PROGRAMS"))
        programs = atoi(getenv("TENON_TEST_PROGRAMS"));
    const tn_target cpu = printed_target(TN_TARGET_F64 | TN_TARGET_CHUNKED |
                                    TN_TARGET_EXACT_DIVIDE);
    const tn_target gpu = printed_target(TN_TARGET_F64 | TN_TARGET_EXACT_DIVIDE);
    const tn_target cores =
        printed_target(TN_TARGET_F64 | TN_TARGET_EXACT_DIVIDE | TN_TARGET_MMA);
    const tn_target poor = printed_target(TN_TARGET_F64);
    const tn_target poorest = printed_target(0);
    printed_rows(&list, &cpu, &rows);
    int of_cpu = rows;
    printed_rows(&list, &gpu, &rows);
    ok(of_cpu > 0 && rows == 2 * of_cpu, "%d rows of the table are printed",
       of_cpu);
    int texts = list.count;
    note("%d texts of %d kernels of rows", texts, list.asked);
    printed_primitives(&list, &cpu);
    printed_primitives(&list, &gpu);
    printed_primitives(&list, &cores);
    note("%d texts of primitives", list.count - texts);
    texts = list.count;
    printed_random(&list, &cpu, 1, programs);
    printed_random(&list, &gpu, 1, programs);
    printed_shared(&list, &gpu, 1, programs / 4);
    printed_random(&list, &poor, 1, programs / 4);
    printed_random(&list, &poorest, 1, programs / 4);
    note("%d texts of random programs", list.count - texts);
    is_int(list.failed, 0, "each of %d plans has its text: %d of them",
           list.asked, list.count);
}

/* A gradient of 16 x 9 weights is one tile. Its sum over 64 images is divided
 * among 16 work-groups. */
static void small_weights_fill_the_device(void)
{
    tn_target target = printed_target(TN_TARGET_EXACT_DIVIDE);
    const tn_strided view = {.dtype = TN_F32};
    const tn_conv_args c = {
        .size = sizeof c, .kind = TN_CONV_WEIGHT, .groups = 1, .count = 64,
        .in_channels = 1, .out_channels = 16, .in_size = {8, 8},
        .kernel = {3, 3}, .out_size = {6, 6}, .stride = {1, 1},
        .dilation = {1, 1}, .in = view, .weight = view, .out = view};
    tn_plan plan = {.size = sizeof plan};
    target.units = 132;
    const tn_status status = tn__plan_conv(&target, &c, &plan);
    ok(status == TN_OK && plan.group_count == 16 && plan.step_count == 2 &&
           plan.scratch_bytes == 16 * 16 * 9 * sizeof(float),
       "a gradient of few weights is %d groups, by %d bytes of sums",
       (int)plan.group_count, (int)plan.scratch_bytes);
}

/* Plain C runs one work-item at a time, with double precision. */
static void plain_c_has_its_flags(void)
{
    const tn_strided view = {.dtype = TN_F32};
    const tn_matmul_args mm = {.size = sizeof mm, .m = 1, .n = 1, .k = 1,
                               .a = view, .b = view, .c = view, .alpha = 1};
    tn_target target = printed_target(TN_TARGET_C);
    tn_plan plan = {.size = sizeof plan};
    tn_source source = {.size = sizeof source};
    ok(tn__plan_matmul(&target, &mm, &plan) == TN_OK && plan.group_size == 1 &&
           tn__print(&target, NULL, &plan, &source) == TN_OK,
       "a product is printed in plain C");
    ok(source.text && strstr(source.text, "#define TK_PLAIN 1\n") &&
           strstr(source.text, "void tn_groups(void *const *pointer,") &&
           strcmp(source.kernel, "tn_groups") == 0,
       "with one function for a range of groups");
    tn__print_free(&source);
    target.flags = TN_TARGET_PLAIN | TN_TARGET_F64;
    is_int(tn__plan_matmul(&target, &mm, &plan), TN_ERR_ARGUMENT,
           "some of its flags alone are refused");
    is_str(tn_error(), "a plain C target has all flags of TN_TARGET_C (0x17), "
                      "not 0x11", "by name");
    tn_error_clear();
}

/* A plugin's own kernel gets the definitions of the dialect. */
static void plugins_print_kernels(void)
{
    static const char text[] =
        "TK_KERNEL mine(TK_G tk_f32 *c, TK_WORDS)\n{\n"
        "    c[TK_LOCAL] = tk_div_f32((tk_f32)TK_WORD(1), 3);\n}\n";
    const tn_target gpu = printed_target(TN_TARGET_EXACT_DIVIDE);
    const tn_target plain = printed_target(TN_TARGET_C);
    tn_plan plan = {.size = sizeof plan, .buffer_count = 1,
                    .argument_bytes = 2 * sizeof(uint64_t)};
    tn_source source = {.size = sizeof source};
    ok(tn__source_host.print_text(&gpu, &plan, "mine", text, &source) ==
               TN_OK && strcmp(source.kernel, "mine") == 0 &&
           strlen(source.text) == source.text_bytes &&
           strstr(source.text, "tk_i64 w[2];") && strstr(source.text, text),
       "a plugin's kernel is printed with its argument words");
    tn__print_free(&source);
    plan.flags = TN_PLAN_WORDS_IN_BUFFER;
    ok(tn__source_host.print_text(&plain, &plan, "mine", text, &source) ==
               TN_OK && strcmp(source.kernel, "tn_groups") == 0 &&
           strstr(source.text, "mine(pointer[0], (const tk_i64 *)word"),
       "in plain C with a function for a range of groups");
    tn__print_free(&source);
    plan.size = 0;
    is_int(tn__source_host.print_text(&gpu, &plan, "mine", text, &source),
           TN_ERR_ARGUMENT, "a plan without its size is refused");
    ok(tn_error() && strstr(tn_error(), "print_text: tn_plan.size is 0"),
       "by name: %s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static const tn_program *program_of(const char *text)
{
    static const tn_dtype dtypes[] = {TN_F32};
    tn__def *def = tn__def_parse(text, "rows");
    const tn__kernel *kernel = def ? tn__def_kernel(def, dtypes) : NULL;
    const tn_program *program = kernel ? tn__kernel_program(kernel) : NULL;
    if (!program)
        bail_out("%s", tn_error());
    return program;
}

/* Makes the next step of a plan for sums of rows. */
static tn_status plan_sum(tn_plan *plan, uint32_t units, int64_t rows,
                          int64_t length)
{
    const int64_t extent[2] = {rows, length}, stride[2] = {length, 1};
    static const int64_t row_stride[2] = {1, 0};
    const tn_program *program = program_of("sum(x) = rsum(x)");
    const tn_launch_operand operand[2] = {{.stride = stride},
                                          {.stride = row_stride}};
    const tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                              .row_ndim = 1, .extent = extent,
                              .operand = operand};
    tn_target target = printed_target(TN_TARGET_EXACT_DIVIDE);
    target.units = units;
    return tn__plan_program(&target, program, &launch, plan);
}

/* Checks the steps of a sum: the number of work-groups of each, and that each
 * step has its own source and argument words. */
static void sum_has_steps(const char *what, uint32_t units, int64_t rows,
                          int64_t length, int steps, int groups)
{
    tn_plan plan = {.size = sizeof plan};
    uint64_t key = 0;
    int done = 0, of[2] = {0};
    do {
        if (plan_sum(&plan, units, rows, length) != TN_OK ||
            done == 2 || plan.key[0] == key)
            break;
        key = plan.key[0];
        of[done++] = (int)plan.group_count;
    } while (++plan.step < plan.step_count);
    ok(done == steps && of[0] == groups && (done < 2 || of[1] == rows) &&
           !!(plan.flags & TN_PLAN_SCRATCH) == (steps > 1),
       "%s on %u units: %d groups, then %d, in %d steps", what, units, of[0],
       of[1], done);
}

/* For many rows of few chunks, a team has only as many work-items as can take
 * part in the reduction. */
static void teams_fit_rows(void)
{
    static const struct {
        int64_t rows, length;
        uint32_t slots;
    } of[] = {{16384, 1024, 1}, {32768, 1025, 2}, {16384, 4096, 4},
              {16384, 4097, 8}, {16384, 9000, 16}, {100, 4096, 16}};
    int fit = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        tn_plan plan = {.size = sizeof plan};
        plan_sum(&plan, 132, of[i].rows, of[i].length);
        fit += tn__launch_class_unpack(plan.variant).slots == of[i].slots;
    }
    is_int(fit, (int)(sizeof of / sizeof *of), "teams have a row's chunks, or "
                                               "all of a group");
}

/* Returns whether the source for that reduction has a loop with eight loads at
 * once. */
static bool loads_many(const char *text)
{
    const tn_target target = printed_target(TN_TARGET_EXACT_DIVIDE);
    tn_plan plan = {.size = sizeof plan};
    tn_source source = {.size = sizeof source};
    /* the plan that adds up the parts has one operand, too */
    if (plan_sum(&plan, 132, 16384, 4096) != TN_OK ||
        tn__print(&target, program_of(text), &plan, &source) != TN_OK)
        bail_out("%s", tn_error());
    const bool many = strstr(source.text, "#pragma unroll 8\n");
    tn__print_free(&source);
    return many;
}

static void light_loops_load_many(void)
{
    ok(loads_many("a(x) = rsum(x * x)") && !loads_many("b(x) = rsum(exp(x))"),
       "a loop that computes little has eight loads at once");
}

/* Returns the plan of a program with the input x and one result, for extents of
 * two dimensions. */
static tn_plan plan_of(const tn_program *program, bool rows,
                       const int64_t *extent, const int64_t *x,
                       const int64_t *out)
{
    const tn_launch_operand operand[2] = {{.stride = x}, {.stride = out}};
    const tn_launch launch = {.size = sizeof launch,
                              .outer_ndim = rows ? 1 : 2,
                              .row_ndim = rows ? 1 : 0,
                              .extent = extent, .operand = operand};
    tn_target target = printed_target(TN_TARGET_EXACT_DIVIDE);
    tn_plan plan = {.size = sizeof plan};
    target.units = 132;
    if (tn__plan_program(&target, program, &launch, &plan) != TN_OK)
        bail_out("%s", tn_error());
    return plan;
}

/* The strides determine which work-item processes which element. */
static void plans_follow_strides(void)
{
    static const char softmax[] =
        "s(x) = let e = exp(x - rmax(x)); e / rsum(e)";
    static const struct {
        const char *text;
        int64_t extent[2], x[2], out[2];
        bool rows, cached;
        uint32_t lanes, tile;
        const char *what;
    } of[] = {
        {"a(x) = x", {4096, 1000}, {1, 4096}, {1000, 1}, false, false, 1, 64,
         "a transposed copy takes squares"},
        {"a(x) = x", {4096, 1000}, {1000, 1}, {1000, 1}, false, false, 1, 0,
         "a copy does not"},
        {"a(x) = x", {4096, 8}, {1, 4096}, {8, 1}, false, false, 1, 0,
         "nor does that of a matrix with 8 columns"},
        {"a(x) = rsum(x)", {4096, 16384}, {1, 4096}, {1, 0}, true, false, 4, 0,
         "sums over columns take neighbouring rows"},
        {"a(x) = rsum(x)", {4096, 16384}, {16384, 1}, {1, 0}, true, false, 1, 0,
         "sums of rows take neighbouring lanes"},
        {"a(x) = rsum(x)", {4096, 32}, {32, 1}, {1, 0}, true, false, 16, 0,
         "a row of 32 is a work-item's"},
        {"a(x) = rsum(x)", {4096, 33}, {33, 1}, {1, 0}, true, false, 1, 0,
         "a row of 33 a team's"},
        {softmax, {4096, 4096}, {4096, 1}, {4096, 1}, true, true, 1, 0,
         "a softmax of 4096 reads its row once"},
        {softmax, {4096, 40000}, {40000, 1}, {40000, 1}, true, false, 1, 0,
         "one of 40000 does not fit"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const tn_plan plan = plan_of(program_of(of[i].text), of[i].rows,
                                     of[i].extent, of[i].x, of[i].out);
        const tn__launch_class class = tn__launch_class_unpack(plan.variant);
        ok(class.lanes == of[i].lanes && class.tile == of[i].tile &&
               class.cached == of[i].cached && plan.group_count >= 64,
           "%s: lanes %u, tile %u, cached %d, %d groups", of[i].what,
           class.lanes, class.tile, class.cached, (int)plan.group_count);
    }
}

/* The exponential is computed once for each element. */
static void calls_are_computed_once(void)
{
    static const int64_t extent[2] = {100, 4096}, stride[2] = {4096, 1};
    const tn_program *program =
        program_of("s(x) = let e = exp(x - rmax(x)); e / rsum(e)");
    const tn_target target = printed_target(TN_TARGET_EXACT_DIVIDE);
    const tn_plan plan = plan_of(program, true, extent, stride, stride);
    tn_source source = {.size = sizeof source};
    if (tn__print(&target, program, &plan, &source) != TN_OK)
        bail_out("%s", tn_error());
    int calls = 0;
    for (const char *at = source.text; (at = strstr(at, "= fn0(")); at++)
        calls++;
    is_int(calls, 1, "a softmax in local memory computes e once");
    tn__print_free(&source);
}

/* In f, x is exp(q). Stage 1 computes x first and then loads y, which no later
 * stage reads. x may be stored in y's memory only after that load. */
static void calls_replace_what_was_read(void)
{
    static const int64_t extent[2] = {100, 1024}, stride[2] = {1024, 1};
    static const tn_dtype dtypes[] = {TN_F32, TN_F32};
    tn__def *f = tn__def_parse("f(x, y) = let m = rmax(y); "
                               "let s = rsum(x * (y - m)); x / s", "f");
    tn__def *exp = tn__def_parse("e(q) = exp(q)", "e");
    const tn__kernel *both =
        f && exp ? tn__kernel_compose(tn__def_kernel(f, dtypes), 0,
                                      tn__def_kernel(exp, dtypes), 0, NULL)
                 : NULL;
    const tn_program *program = both ? tn__kernel_program(both) : NULL;
    if (!program)
        bail_out("%s", tn_error());
    const tn_launch_operand operand[] = {
        {.stride = stride}, {.stride = stride}, {.stride = stride}};
    const tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                              .row_ndim = 1, .extent = extent,
                              .operand = operand};
    const tn_target target = printed_target(TN_TARGET_EXACT_DIVIDE);
    tn_plan plan = {.size = sizeof plan};
    tn_source source = {.size = sizeof source};
    if (tn__plan_program(&target, program, &launch, &plan) != TN_OK ||
        tn__print(&target, program, &plan, &source) != TN_OK)
        bail_out("%s", tn_error());
    ok(strstr(source.text, "local1[here1] = v") &&
           !strstr(source.text, "local0[here0] = v"),
       "a call's value replaces a value that its stage has read before");
    ok(!strstr(source.text, "tk_v_f32 x0"),
       "a stage reads no operand that it does not need");
    tn__print_free(&source);
}

static void few_long_rows_are_shared(void)
{
    sum_has_steps("2^20 elements", 132, 1, 1 << 20, 2, 64);
    sum_has_steps("2^28 elements", 132, 1, 1 << 28, 2, 2048);
    sum_has_steps("64 rows of 2^20", 132, 64, 1 << 20, 2, 64 * 32);
    sum_has_steps("528 rows of 2^20", 132, 528, 1 << 20, 2, 528 * 4);
    sum_has_steps("529 rows of 2^20", 132, 529, 1 << 20, 1, 529);
    sum_has_steps("3 chunks a work-item", 132, 1, 3 * 16384, 1, 1);
    sum_has_steps("an element more", 132, 1, 3 * 16384 + 1, 2, 4);
    sum_has_steps("2^20 elements", 2, 1, 1 << 20, 2, 32);
}

/* Long lines are divided among many work-groups, with three kernels for each
 * digit of the radix sort. Many lines are sorted in batches that fit into the
 * scratch memory. Short lines need no scratch memory. */
static void sorts_fill_the_device(void)
{
    enum { STEPS = 12 };
    const int64_t length = 1 << 20, lines = 100;
    tn_target target = printed_target(TN_TARGET_EXACT_DIVIDE);
    const tn_strided view = {.dtype = TN_F32, .stride = {length, 1}};
    tn_sort_args s = {.size = sizeof s, .ndim = 2, .extent = {1, length},
                      .keep = length, .in = view, .out = view,
                      .out_index = view};
    tn_plan plan[STEPS], more = {.size = sizeof more};
    int few = 0, same = 0;
    target.units = 132;
    for (uint32_t i = 0; i < STEPS; i++) {
        plan[i] = (tn_plan){.size = sizeof plan[i], .step = i};
        tn__plan_sort(&target, &s, &plan[i]);
        few += plan[i].group_count < 256;
        for (uint32_t k = 0; k < i; k++)
            same += (plan[i].key[0] == plan[k].key[0]) != (i % 3 == k % 3);
    }
    ok(plan[0].step_count == STEPS && few == 0 && same == 0,
       "a row of 2^20 is sorted by %d launches of many groups, with 3 texts",
       (int)plan[0].step_count);
    ok(plan[0].scratch_bytes < 17 * (uint64_t)length,
       "in %.1f bytes an element of scratch memory",
       (double)plan[0].scratch_bytes / (double)length);
    s.keep = 100;
    tn__plan_sort(&target, &s, &more);
    ok(more.step_count == STEPS && more.scratch_bytes < (uint64_t)length,
       "the first 100 of it are not, in %d bytes", (int)more.scratch_bytes);
    s.extent[0] = lines;
    s.keep = length;
    tn__plan_sort(&target, &s, &more);
    ok(more.step_count == STEPS * ((uint32_t)lines / 8 + 1) &&
           more.scratch_bytes < 9 * plan[0].scratch_bytes,
       "rows of which 8 are sorted at a time");
    s.extent[0] = 4096;
    s.extent[1] = s.keep = 1024;
    tn__plan_sort(&target, &s, &more);
    ok(more.step_count == 1 && more.scratch_bytes == 0 &&
           more.group_count == 4096,
       "rows of 1024 are sorted by a group each, at once");
}

/* Keeps a sample of the sources: every n-th one, and of those the ones in this
 * test's part. */
static int sample(void)
{
    return most < 1 || list.count <= most ? 1 : (list.count + most - 1) / most;
}

static int first(void)
{
    return part * sample();
}

static int stride(void)
{
    return parts * sample();
}

/* ---- clang --------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) == EOF || fclose(f) != 0)
        bail_out("cannot write %s", path);
}

/* Stores the compiler's messages about the file; "" if there are none. */
static void compile(const char *standard, const char *path, char *out,
                    size_t room)
{
    char command[512];
    snprintf(command, sizeof command,
             "clang -x cl -cl-std=%s -fsyntax-only -Wall -Wextra %s 2>&1",
             standard, path);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        bail_out("cannot run clang");
    size_t length = fread(out, 1, room - 1, pipe);
    out[length] = 0;
    int status = pclose(pipe);
    if (status != 0 && length == 0)
        snprintf(out, room, "status %d", status);
}

static void test_clang(const char *standard)
{
    char folder[] = "printed-XXXXXX", path[64], said[2000];
    int compiled = 0, bad = 0;
    if (!mkdtemp(folder))
        bail_out("cannot make a folder");
    snprintf(path, sizeof path, "%s/kernel.cl", folder);
    for (int i = first(); i < list.count && bad < 3; i += stride()) {
        /* sources with TN_TARGET_MMA are CUDA C */
        if (list.item[i].flags & TN_TARGET_MMA)
            continue;
        compiled++;
        write_file(path, list.item[i].text);
        compile(standard, path, said, sizeof said);
        if (!*said)
            continue;
        note("%s: %s", list.item[i].what, said);
        bad++;
    }
    unlink(path);
    rmdir(folder);
    ok(compiled > 0 && bad == 0,
       "clang -cl-std=%s: nothing to say of %d of %d texts", standard,
       compiled, list.count);
}

int main(void)
{
    plan_later();
    if (getenv("TENON_TEST_TEXTS"))
        most = atoi(getenv("TENON_TEST_TEXTS"));
    const char *of = getenv("TENON_TEST_PART");
    if (of && (sscanf(of, "%d/%d", &part, &parts) != 2 || part < 0 ||
               part >= parts))
        bail_out("TENON_TEST_PART=%s is not like 1/4", of);
    ok(tn__math_fn_count() > 0, "functions of the language take part");
    print_all();
    small_weights_fill_the_device();
    plain_c_has_its_flags();
    plugins_print_kernels();
    few_long_rows_are_shared();
    sorts_fill_the_device();
    teams_fit_rows();
    plans_follow_strides();
    calls_are_computed_once();
    calls_replace_what_was_read();
    light_loops_load_many();
    if (system("clang --version >/dev/null 2>&1") == 0) {
        test_clang("CL1.2");
        test_clang("CL3.0");
    } else {
        skip(2, "clang is not installed");
    }
    printed_release(&list);
    return done_testing();
}
