/* check_epilogue.c: checks that the extension "epilogue" gives results
 * bit-identical to those of two calls: a matrix product, and the launch of a
 * program max(c + e, 0) that reads the product c. The launch has the dimensions
 * of the product, or m cut in two; e is added to each row or has all elements;
 * the launch may write to the memory of c. */
#include "check_epilogue.h"

#include <stdio.h>
#include <string.h>

#include "operand.h"
#include "random_layout.h"
#include "random_library.h"

static operand a, b, c, e, out;

enum { C, E, OUT, OPERANDS };

/* The program. Its arrays and key are static, as program_build requires. */
static tn_program *program_of(tn_dtype dtype)
{
    static tn_kernel_operand kinds[OPERANDS];
    static tn_kernel_ins ins[6];
    static tn_kernel_stage stage[1] = {{1, 5, 6, 0}};
    static const uint32_t order[6] = {2, 0, 1, 3, 4, 5};
    static tn_program program = {.size = sizeof program, .ins_count = 6,
                                 .operand_count = OPERANDS, .stage_count = 1,
                                 .order_count = 6, .uniform_count = 1,
                                 .ins = ins, .operand = kinds, .stage = stage,
                                 .order = order};
    const uint8_t type = (uint8_t)random_register_type(dtype);
    for (int k = 0; k < OPERANDS; k++) {
        kinds[k] = (tn_kernel_operand){
            .dtype = (uint8_t)dtype, .level = TN_LEVEL_ELEM,
            .access = k == OUT ? TN_OPERAND_WRITE : TN_OPERAND_READ};
        if (k != OUT)
            ins[k] = (tn_kernel_ins){.op = TN_K_LOAD, .dtype = type,
                                     .level = TN_LEVEL_ELEM, .a = TN_NONE,
                                     .b = TN_NONE, .c = TN_NONE, .imm.i = k};
    }
    ins[2] = (tn_kernel_ins){.op = TN_K_CONST, .dtype = type,
                             .level = TN_LEVEL_UNIFORM, .a = TN_NONE,
                             .b = TN_NONE, .c = TN_NONE};
    ins[3] = (tn_kernel_ins){.op = TN_K_ADD, .dtype = type,
                             .level = TN_LEVEL_ELEM, .a = C, .b = E,
                             .c = TN_NONE};
    ins[4] = (tn_kernel_ins){.op = TN_K_MAX, .dtype = type,
                             .level = TN_LEVEL_ELEM, .a = 3, .b = 2,
                             .c = TN_NONE};
    ins[5] = (tn_kernel_ins){.op = TN_K_STORE, .dtype = type,
                             .level = TN_LEVEL_ELEM, .a = 4, .b = TN_NONE,
                             .c = TN_NONE, .imm.i = OUT};
    program.key[0] = 0x65706931 + dtype;
    program.key[1] = 0x65706932 + dtype;
    return &program;
}

/* The dimensions of the launch: (batch, m, n), with m as (m / part, part). */
typedef struct space {
    int64_t extent[4], stride[OPERANDS][4];
    tn_launch_operand operand[OPERANDS];
    tn_launch launch;
    uint8_t of[4];
} space;

static void fill_space(space *s, int64_t part)
{
    const operand *const all[OPERANDS] = {&c, &e, &out};
    const int64_t extent[4] = {c.extent[0], c.extent[1] / part, part,
                               c.extent[2]};
    const uint8_t of[4] = {0, 1, 1, 2};
    memcpy(s->extent, extent, sizeof extent);
    memcpy(s->of, of, sizeof of);
    for (int k = 0; k < OPERANDS; k++) {
        const int64_t *own = all[k]->view.stride;
        const int64_t stride[4] = {own[0], own[1] * part, own[1], own[2]};
        memcpy(s->stride[k], stride, sizeof stride);
        for (int d = 0; d < 4 && k == E; d++)
            if (e.view.ndim == 1)
                s->stride[k][d] = d == 3 ? own[0] : 0;
        s->operand[k] = (tn_launch_operand){.offset = all[k]->view.offset,
                                            .stride = s->stride[k]};
    }
    s->launch = (tn_launch){.size = sizeof s->launch, .outer_ndim = 4,
                            .extent = s->extent, .operand = s->operand};
}

static void send_all(bool in_place, space *s)
{
    operand_send(&a), operand_send(&b), operand_send(&c), operand_send(&e);
    if (!in_place)
        operand_send(&out);
    s->operand[C].buffer = c.view.buffer;
    s->operand[E].buffer = e.view.buffer;
    s->operand[OUT].buffer = in_place ? c.view.buffer : out.view.buffer;
}

static int64_t receive_all(bool in_place)
{
    int64_t wrong = operand_receive(&a) + operand_receive(&b) +
                    operand_receive(&c) + operand_receive(&e);
    return in_place ? wrong : wrong + operand_receive(&out);
}

/* Takes the elements that two calls of the plugin have written to a buffer as
 * the expected ones, and leaves what was there before in `memory`. */
static void expect_content(operand *o)
{
    static unsigned char before[OPERAND_ROOM];
    memcpy(before, o->memory, o->bytes);
    operand_succeeded(by_hand_copy(now.device, o->view.buffer, 0, o->memory,
                                   o->bytes, false),
                      "a copy to the host");
    operand_read(o);
    memset(o->tolerance, 0, sizeof o->tolerance);
    memcpy(o->memory, before, o->bytes);
}

static tn_dtype any_float(void)
{
    static const tn_dtype floats[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
    tn_dtype dtype;
    do
        dtype = floats[random_below(&now.source, 4)];
    while (!(now.device->info.storage_types >> dtype & 1));
    return dtype;
}

tn_status epilogue_case(const tn_epilogue_extension *epilogue, int64_t *wrong)
{
    const tn_plugin *plugin = now.device->plugin;
    const tn_dtype dtype = any_float();
    const int64_t batch = random_between(&now.source, 1, 2);
    const int64_t part = random_between(&now.source, 1, 4);
    const int64_t m = part * random_between(&now.source, 1, 7);
    const int64_t n = random_between(&now.source, 1, 29);
    const int64_t k = random_between(&now.source, 1, 70);
    const bool dense = random_chance(&now.source, 60);
    const bool in_place = random_chance(&now.source, 40);
    void (*const lay_out)(operand *, tn_dtype, uint32_t, const int64_t *) =
        operand_init_dense;
    lay_out(&a, dtype, 3, (int64_t[]){batch, m, k});
    lay_out(&b, dtype, 3, (int64_t[]){batch, k, n});
    if (dense)
        lay_out(&c, dtype, 3, (int64_t[]){batch, m, n});
    else
        operand_init(&c, dtype, 3, (int64_t[]){batch, m, n}, true);
    if (random_chance(&now.source, 50))
        lay_out(&e, dtype, 1, &n);
    else
        lay_out(&e, dtype, 3, (int64_t[]){batch, m, n});
    out = c;
    out.view.buffer = NULL;
    a.name = "a", b.name = "b", c.name = "c", e.name = "e", out.name = "out";
    operand_fill(&a, true), operand_fill(&b, true), operand_fill(&e, true);
    operand_words("epilogue of matmul", in_place ? "in place, k" : "k", k, &c);

    space s;
    fill_space(&s, part);
    tn_program *const program = program_of(dtype);
    tn_built *built = NULL;
    send_all(in_place, &s);
    tn_matmul_args work = {.size = sizeof work, .batch_ndim = 1,
                           .batch = {batch}, .m = m, .n = n, .k = k,
                           .a = a.view, .b = b.view, .c = c.view, .alpha = 1};
    bool good = operand_succeeded(
        plugin->program_build(now.device->device, program, &built),
        "program_build");
    operand_enter();
    good = good &&
           operand_succeeded(plugin->matmul(now.device->queue, &work),
                             "matmul") &&
           operand_succeeded(
               plugin->launch(now.device->queue, built, &s.launch), "launch");
    operand_leave();
    expect_content(&c);
    if (!in_place)
        expect_content(&out);
    *wrong = receive_all(in_place);

    send_all(in_place, &s);
    work.a = a.view, work.b = b.view, work.c = c.view;
    tn_epilogue_args args = {.size = sizeof args, .kind = TN_EPILOGUE_MATMUL,
                             .work = &work, .program = program, .built = built,
                             .launch = &s.launch, .operand = C};
    memcpy(args.of, s.of, sizeof s.of);
    operand_enter();
    tn_status status = epilogue->takes(now.device->device, args.kind);
    if (!status && good)
        status = epilogue->run(now.device->queue, &args);
    operand_leave();
    *wrong += receive_all(in_place);
    if (built)
        plugin->program_free(now.device->device, built);
    return status;
}
