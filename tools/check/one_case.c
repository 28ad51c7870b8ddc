/* one_case.c: makes small programs that each test one instruction, reduction or
 * loop. Each is a random_case whose arrays this file fills, so that the
 * functions for random programs also run, compare and print it. */
#include "one_case.h"

#include <stdlib.h>
#include <string.h>

#include "random_layout.h"
#include "random_library.h"
#include "random_source.h"

const char *const one_layout_names[ONE_LAYOUTS] = {
#define NAME(name, text) text,
    ONE_LAYOUT_MAP(NAME)
#undef NAME
};

/* ---- building ----------------------------------------------------------- */

/* Appends an instruction to the program and to its execution order. Returns its
 * index. */
static uint32_t put(random_case *c, unsigned op, tn_dtype dtype, int level,
                    uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t n = c->program.ins_count++;
    c->ins[n] = (tn_kernel_ins){.op = (uint8_t)op,
                                .dtype = (uint8_t)dtype,
                                .level = (uint8_t)level,
                                .a = x,
                                .b = y,
                                .c = z};
    c->order[c->program.order_count++] = n;
    return n;
}

static uint32_t put_load(random_case *c, uint32_t k, int level)
{
    uint32_t n = put(c, TN_K_LOAD, random_register_type(c->operand[k].dtype),
                     level, TN_NONE, TN_NONE, TN_NONE);
    c->ins[n].imm.i = k;
    return n;
}

static uint32_t put_store(random_case *c, uint32_t k, uint32_t value)
{
    uint32_t n = put(c, TN_K_STORE, c->ins[value].dtype, c->operand[k].level,
                     value, TN_NONE, TN_NONE);
    c->ins[n].imm.i = k;
    return n;
}

static uint32_t add_operand(random_case *c, tn_dtype dtype, int access,
                            int level)
{
    uint32_t k = c->program.operand_count++;
    c->operand[k] = (tn_kernel_operand){.dtype = (uint8_t)dtype,
                                        .access = (uint8_t)access,
                                        .level = (uint8_t)level};
    return k;
}

static void set_extents(random_case *c, uint32_t outer, uint32_t row,
                        const int64_t *extent)
{
    c->launch.outer_ndim = outer;
    c->launch.row_ndim = row;
    for (uint32_t d = 0; d < outer + row; d++)
        c->extent[d] = extent[d];
}

/* Sets the strides of operand k so that its dimensions are contiguous in the
 * given order, with the last one innermost and a distance of `step` elements.
 * Dimensions whose bit is set in `flips` get a negative stride. */
static void set_strides(random_case *c, uint32_t k, const uint32_t *order,
                        int64_t step, uint32_t flips)
{
    uint32_t outer = c->launch.outer_ndim, ndim = outer + c->launch.row_ndim;
    for (uint32_t i = ndim; i-- > 0;) {
        uint32_t d = order[i];
        if (c->operand[k].level == TN_LEVEL_ROW && d >= outer)
            continue; /* one element for a row: this stride stays 0 */
        c->stride[k][d] = flips >> d & 1 ? -step : step;
        step *= c->extent[d] ? c->extent[d] : 1;
    }
}

/* Completes the case and fills its memory. The first `uniform` instructions are
 * executed once for a launch. All others belong to one stage and are executed
 * for each element. */
static random_case *finish(random_case *c, random_source *r, uint32_t uniform)
{
    c->seed = r->state;
    c->program.uniform_count = uniform;
    if (c->program.stage_count == 0) {
        c->program.stage_count = 1;
        c->stage[0] =
            (tn_kernel_stage){.elem_first = uniform,
                              .elem_count = c->program.order_count - uniform,
                              .row_first = c->program.order_count};
    }
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        if (!random_layout_memory(r, c, k)) {
            random_case_free(c);
            return NULL;
        }
    random_case_finish(c);
    return c;
}

/* ---- layouts ------------------------------------------------------------ */

static void lay_out_space(random_case *c, int layout)
{
    static const int64_t extents[ONE_LAYOUTS][TN_MAX_NDIM] = {
        [ONE_CONTIGUOUS] = {RANDOM_CORNERS * RANDOM_CORNERS * 2 + 5},
        [ONE_PERMUTED] = {7, 5, 19},
        [ONE_BROADCAST] = {6, 35},
        [ONE_NEGATIVE] = {5, 37},
        [ONE_STEPPED] = {4, 33},
        [ONE_EMPTY] = {4, 0, 3},
        [ONE_RANK_12] = {2, 1, 2, 1, 2, 3, 1, 2, 1, 2, 1, 3}};
    static const uint8_t ndim[ONE_LAYOUTS] = {1, 3, 2, 2, 2, 3, 0, 12};
    set_extents(c, ndim[layout], 0, extents[layout]);
}

static void lay_out(random_case *c, uint32_t k, int layout)
{
    uint32_t ndim = c->launch.outer_ndim, order[TN_MAX_NDIM];
    bool permutes = layout == ONE_PERMUTED || layout == ONE_RANK_12;
    for (uint32_t i = 0; i < ndim;
         i++) /* each operand gets a different order */
        order[i] = permutes ? (i + 1 + k) % ndim : i;
    set_strides(c, k, order, layout == ONE_STEPPED ? 3 : 1,
                layout == ONE_NEGATIVE ? 3 - k % 3 : 0);
    if (layout == ONE_BROADCAST && c->operand[k].access != TN_OPERAND_WRITE)
        c->stride[k][k % 2] = 0;
}

/* Fills a contiguous operand k with special values. The first operand runs
 * through all special values again and again. The second takes its next value
 * after each run of the first, so that all pairs occur. The third mixes both
 * orders. */
static void fill_corners(random_case *c, uint32_t k)
{
    tn_dtype dtype = c->operand[k].dtype;
    size_t size = random_dtype_bytes(dtype);
    tn_dtype reg = random_register_type(dtype);
    unsigned char *at = c->data[k] + (size_t)c->launch_operand[k].offset * size;
    for (uint64_t i = 0; i < (uint64_t)c->extent[0]; i++, at += size) {
        uint64_t corner = k == 0   ? i % RANDOM_CORNERS
                          : k == 1 ? i / RANDOM_CORNERS
                                   : i * 7 / 5;
        tn_number x;
        if (random_is_float(reg))
            x.f = random_float_corner(corner);
        else
            x.i = reg == TN_BOOL ? (int64_t)(corner & 1)
                                 : random_int_corner(corner);
        random_layout_store(dtype, at, x);
    }
}

/* ---- one instruction ---------------------------------------------------- */

static tn_number corner_of(const one_form *form)
{
    uint64_t i = (uint64_t)form->number;
    tn_number x;
    if (form->dtype == TN_F32)
        x.f = (double)(float)random_float_corner(i);
    else if (random_is_float(form->dtype))
        x.f = random_float_corner(i);
    else if (form->dtype == TN_I32)
        x.i = (int32_t)random_int_corner(i);
    else
        x.i = form->dtype == TN_BOOL ? (int64_t)(i & 1) : random_int_corner(i);
    return x;
}

/* Appends an instruction that has no operands. Such an instruction is executed
 * once for a launch, except OFFSET, which differs for each element. */
static uint32_t put_leaf(random_case *c, const one_form *form)
{
    int level = form->op == TN_K_OFFSET ? TN_LEVEL_ELEM : TN_LEVEL_UNIFORM;
    uint32_t n =
        put(c, form->op, form->dtype, level, TN_NONE, TN_NONE, TN_NONE);
    tn_number x = corner_of(form);
    if (form->op == TN_K_CONST) {
        if (random_is_float(form->dtype))
            c->ins[n].imm.f = x.f;
        else
            c->ins[n].imm.i = x.i;
    } else if (form->op == TN_K_PARAM) {
        c->program.param_count = 1;
        c->param_dtype[0] = form->dtype;
        c->param[0] = x;
    } else if (form->op == TN_K_OFFSET) {
        c->ins[n].imm.i =
            add_operand(c, TN_DTYPE_NONE, TN_OPERAND_OFFSET, TN_LEVEL_ELEM);
    }
    return n;
}

static uint32_t put_form(random_case *c, const one_form *form)
{
    uint32_t arg[3] = {TN_NONE, TN_NONE, TN_NONE};
    if (!form->arg[0])
        return put_leaf(c, form);
    for (int a = 0; a < 3 && form->arg[a]; a++)
        arg[a] = put_load(
            c,
            add_operand(c, form->op == TN_K_LOAD ? form->storage : form->arg[a],
                        TN_OPERAND_READ, TN_LEVEL_ELEM),
            TN_LEVEL_ELEM);
    if (form->op == TN_K_LOAD || form->op == TN_K_STORE)
        return arg[0];
    uint32_t n =
        put(c, form->op, form->dtype, TN_LEVEL_ELEM, arg[0], arg[1], arg[2]);
    c->ins[n].sub = form->sub;
    return n;
}

random_case *one_case_new(const one_form *form, int layout)
{
    random_source r = {(uint64_t)layout * 1000 + form->op};
    random_case *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    lay_out_space(c, layout);
    uint32_t n = put_form(c, form);
    if (form->op == TN_K_CALL) {
        uint32_t count = 0;
        uint32_t f = random_library_put(c, (int)form->number, &count);
        if (f == TN_NONE) { /* the function is too long for a program, which no
                               library function is at present */
            random_case_free(c);
            return NULL;
        }
        c->ins[n].imm.i = f;
        c->program.fn_count = count;
    }
    uint32_t uniform = c->ins[n].level == TN_LEVEL_UNIFORM ? 1 : 0;
    put_store(c,
              add_operand(c,
                          form->op == TN_K_STORE ? form->storage : form->dtype,
                          TN_OPERAND_WRITE, TN_LEVEL_ELEM),
              n);
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        lay_out(c, k, layout);
    c = finish(c, &r, uniform);
    if (c && layout == ONE_CONTIGUOUS)
        for (uint32_t k = 0; k < c->program.operand_count; k++)
            if (c->operand[k].access == TN_OPERAND_READ)
                fill_corners(c, k);
    return c;
}

/* ---- other questions ---------------------------------------------------- */

random_case *one_rank_case(uint32_t rank, uint64_t seed)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_I64, TN_F64};
    random_source r = {seed};
    random_case *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    int64_t extent[TN_MAX_NDIM];
    for (uint32_t d = 0; d < rank; d++)
        extent[d] = random_between(&r, 1, rank > 6 ? 2 : 4);
    set_extents(c, rank, 0, extent);
    tn_dtype dtype = dtypes[random_below(&r, 3)];
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t order[TN_MAX_NDIM];
        add_operand(c, dtype, k < 2 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                    TN_LEVEL_ELEM);
        for (uint32_t i = 0; i < rank; i++) { /* a random permutation, by the
                                                 inside-out shuffle */
            uint32_t j = random_below(&r, i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        set_strides(c, k, order, 1, random_below(&r, 1u << rank));
    }
    uint32_t x = put_load(c, 0, TN_LEVEL_ELEM);
    uint32_t y = put_load(c, 1, TN_LEVEL_ELEM);
    put_store(c, 2, put(c, TN_K_ADD, dtype, TN_LEVEL_ELEM, x, y, TN_NONE));
    return finish(c, &r, 0);
}

random_case *one_reduce_case(unsigned kind, tn_dtype dtype, int64_t length,
                             int variant, bool *exists)
{
    bool tells_place = kind == TN_REDUCE_ARGMAX || kind == TN_REDUCE_ARGMIN;
    *exists =
        dtype != TN_BOOL || kind == TN_REDUCE_MAX || kind == TN_REDUCE_MIN;
    random_source r = {(uint64_t)length * 8 + kind};
    random_case *c = *exists ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    static const uint32_t plain[] = {0, 1, 2}, columns[] = {1, 0, 2};
    int64_t two[] = {3, 5, length / 5};
    if (variant == 3)
        set_extents(c, 1, 2, two);
    else
        set_extents(c, 1, 1, (int64_t[]){3, length});
    tn_dtype result = tells_place ? TN_I64 : dtype;
    add_operand(c, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM);
    add_operand(c, result, TN_OPERAND_WRITE, TN_LEVEL_ROW);
    set_strides(c, 0, variant == 2 ? columns : plain, 1,
                variant == 1   ? 2
                : variant == 3 ? 4
                               : 0);
    set_strides(c, 1, plain, 1, 0);
    uint32_t x = put_load(c, 0, TN_LEVEL_ELEM);
    uint32_t n = put(c, TN_K_REDUCE, result, TN_LEVEL_ROW, x, TN_NONE, TN_NONE);
    c->ins[n].sub = (uint8_t)kind;
    put_store(c, 1, n);
    c->program.stage_count = 1;
    c->stage[0] =
        (tn_kernel_stage){.elem_count = 2, .row_first = 2, .row_count = 1};
    return finish(c, &r, 0);
}

/* Returns the i-th index of a gather: alternately the first and the last valid
 * index. If `outside` is true, some are just outside or far outside the
 * extent. */
static int64_t index_at(uint64_t i, int64_t extent, bool outside)
{
    if (outside && i % 5 == 3) {
        const int64_t beyond[] = {-1, extent, INT64_MAX, INT64_MIN,
                                  extent + (INT64_C(1) << 32)};
        return beyond[i / 5 % 5];
    }
    return i % 3 == 0 ? 0 : i % 3 == 1 ? extent - 1 : (int64_t)i % extent;
}

random_case *one_gather_case(uint32_t indices, bool outside, bool zero,
                             tn_dtype dtype)
{
    static const int64_t extents[3] = {9, 4, 3}, strides[3] = {-12, 3, 1};
    static const uint32_t order[] = {0, 1};
    random_source r = {indices * 64 + dtype};
    random_case *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    set_extents(c, 2, 0, (int64_t[]){6, 21});
    uint32_t table = add_operand(c, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM);
    c->operand[table].index_count = (uint8_t)indices;
    uint32_t index[3] = {TN_NONE, TN_NONE, TN_NONE};
    for (uint32_t i = 0; i < indices; i++) {
        c->index_extent[table][i] = extents[i];
        c->index_stride[table][i] = strides[i];
        uint32_t k = add_operand(c, TN_I64, TN_OPERAND_READ, TN_LEVEL_ELEM);
        set_strides(c, k, order, 1, 0);
        index[i] = put_load(c, k, TN_LEVEL_ELEM);
    }
    tn_dtype reg = random_register_type(dtype);
    uint32_t n =
        put(c, TN_K_LOAD, reg, TN_LEVEL_ELEM, index[0], index[1], index[2]);
    c->ins[n].imm.i = table;
    c->ins[n].sub = zero ? TN_LOAD_ZERO : 0;
    uint32_t out = add_operand(c, dtype, TN_OPERAND_WRITE, TN_LEVEL_ELEM);
    set_strides(c, out, order, 1, 0);
    put_store(c, out, n);
    c = finish(c, &r, 0);
    for (uint32_t i = 0; c && i < indices; i++) {
        uint32_t k = table + 1 + i;
        unsigned char *at =
            c->data[k] + (size_t)c->launch_operand[k].offset * 8;
        for (uint64_t j = 0; j < 6 * 21; j++)
            random_layout_store(
                TN_I64, at + j * 8,
                (tn_number){
                    .i = index_at(j * (i + 1) + i, extents[i], outside)});
    }
    return c;
}

random_case *one_loop_case(void)
{
    static const uint32_t order[] = {0, 1};
    random_source r = {5};
    random_case *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    set_extents(c, 2, 0, (int64_t[]){7, 41});
    for (uint32_t k = 0; k < 3; k++) {
        add_operand(c, k == 1 ? TN_I64 : TN_F32,
                    k == 2 ? TN_OPERAND_WRITE : TN_OPERAND_READ, TN_LEVEL_ELEM);
        set_strides(c, k, order, 1, 0);
    }
    uint32_t rounds =
        put(c, TN_K_CONST, TN_I64, TN_LEVEL_UNIFORM, TN_NONE, TN_NONE, TN_NONE);
    c->ins[rounds].imm.i = 9;
    uint32_t x = put_load(c, 0, TN_LEVEL_ELEM);
    uint32_t last = put_load(c, 1, TN_LEVEL_ELEM);
    uint32_t loop =
        put(c, TN_K_LOOP, TN_I64, TN_LEVEL_ELEM, rounds, TN_NONE, TN_NONE);
    uint32_t sum =
        put(c, TN_K_CARRY, TN_F32, TN_LEVEL_ELEM, x, TN_NONE, TN_NONE);
    uint32_t kept = put(c, TN_K_CARRY, TN_F32, TN_LEVEL_ELEM, x, sum, TN_NONE);
    uint32_t goes =
        put(c, TN_K_LT, TN_BOOL, TN_LEVEL_ELEM, loop, last, TN_NONE);
    put(c, TN_K_WHILE, TN_BOOL, TN_LEVEL_ELEM, goes, TN_NONE, TN_NONE);
    c->ins[sum].b = put(c, TN_K_FMA, TN_F32, TN_LEVEL_ELEM, sum, x, kept);
    c->ins[loop].imm.i =
        put(c, TN_K_ENDLOOP, TN_I64, TN_LEVEL_ELEM, TN_NONE, TN_NONE, TN_NONE);
    put_store(c, 2,
              put(c, TN_K_SUB, TN_F32, TN_LEVEL_ELEM, sum, kept, TN_NONE));
    return finish(c, &r, 1);
}
