/* random_print.c: prints a random program and compares its results. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernel/narrow_float.h"
#include "random_program.h"
#include "random_source.h"

static void print_ins(const tn_kernel_ins *ins, uint32_t n, FILE *out)
{
    static const char *const names[] = {
#define NAME(name, operands, text) #name,
        TN_KERNEL_MAP(NAME)
#undef NAME
    };
    fprintf(out, "#   %3u %c %-4s %s", n, "ure"[ins->level],
            random_dtype_name(ins->dtype), names[ins->op]);
    const uint32_t operand[3] = {ins->a, ins->b, ins->c};
    for (int i = 0; i < 3; i++)
        if (operand[i] != TN_NONE)
            fprintf(out, " %u", operand[i]);
    if (ins->op == TN_K_CONST && random_is_float(ins->dtype))
        fprintf(out, " %a", ins->imm.f);
    else if (ins->imm.i != 0 || ins->op == TN_K_LOAD || ins->op == TN_K_STORE ||
             ins->op == TN_K_CALL)
        fprintf(out, " imm %" PRId64, ins->imm.i);
    if (ins->sub)
        fprintf(out, " sub %u", ins->sub);
    fputc('\n', out);
}

static void print_sizes(const char *name, const int64_t *size, uint32_t count,
                        FILE *out)
{
    fprintf(out, " %s (", name);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%" PRId64, i ? ", " : "", size[i]);
    fputc(')', out);
}

void random_case_print(const random_case *c, FILE *out)
{
    const tn_program *p = &c->program;
    uint32_t ndim = c->launch.outer_ndim + c->launch.row_ndim;
    fprintf(out, "# seed %" PRIu64 ", %u outer and %u row dimensions,", c->seed,
            c->launch.outer_ndim, c->launch.row_ndim);
    print_sizes("extent", c->extent, ndim, out);
    fputc('\n', out);
    for (uint32_t k = 0; k < p->operand_count; k++) {
        const tn_kernel_operand *o = &c->operand[k];
        fprintf(out, "# operand %u: %s %s %s, memory of %u, offset %" PRId64, k,
                random_dtype_name(o->dtype),
                o->access == TN_OPERAND_READ    ? "read"
                : o->access == TN_OPERAND_WRITE ? "write"
                                                : "offset",
                o->level == TN_LEVEL_ROW ? "row" : "elem", c->home[k],
                c->launch_operand[k].offset);
        print_sizes("stride", c->stride[k], ndim, out);
        print_sizes("index extent", c->index_extent[k], o->index_count, out);
        print_sizes("stride", c->index_stride[k], o->index_count, out);
        fputc('\n', out);
    }
    for (uint32_t i = 0; i < p->param_count; i++) {
        fprintf(out, "# param %u: %s ", i,
                random_dtype_name(c->param_dtype[i]));
        if (random_is_float(c->param_dtype[i]))
            fprintf(out, "%a\n", c->param[i].f);
        else
            fprintf(out, "%" PRId64 "\n", c->param[i].i);
    }
    for (uint32_t f = 0; f < p->fn_count; f++) {
        fprintf(out, "# function %u, result %u:\n", f, c->fn[f].result);
        for (uint32_t n = 0; n < c->fn[f].ins_count; n++)
            print_ins(&c->fn[f].ins[n], n, out);
    }
    fprintf(out, "# uniform:\n");
    for (uint32_t i = 0; i < p->uniform_count; i++)
        print_ins(&p->ins[p->order[i]], p->order[i], out);
    for (uint32_t s = 0; s < p->stage_count; s++) {
        const tn_kernel_stage *stage = &p->stage[s];
        fprintf(out, "# stage %u, elem:\n", s);
        for (uint32_t i = 0; i < stage->elem_count; i++)
            print_ins(&p->ins[p->order[stage->elem_first + i]],
                      p->order[stage->elem_first + i], out);
        fprintf(out, "# stage %u, row:\n", s);
        for (uint32_t i = 0; i < stage->row_count; i++)
            print_ins(&p->ins[p->order[stage->row_first + i]],
                      p->order[stage->row_first + i], out);
    }
}

static bool is_nan_at(tn_dtype dtype, const unsigned char *at)
{
    float f32;
    double f64;
    uint16_t half;
    switch (dtype) {
    case TN_F32:
        memcpy(&f32, at, sizeof f32);
        return isnan(f32);
    case TN_F64:
        memcpy(&f64, at, sizeof f64);
        return isnan(f64);
    case TN_F16:
    case TN_BF16:
        memcpy(&half, at, sizeof half);
        return isnan(tn__narrow_decode(dtype, half));
    case TN_F8E4M3:
    case TN_F8E5M2:
        return isnan(tn__narrow_decode(dtype, *at));
    default:
        return false;
    }
}

int64_t random_case_difference(const random_case *c, uint32_t k,
                               const void *got, const void *want)
{
    /* If an output shares the memory of this input, the memory holds elements
     * of the output's dtype. */
    tn_dtype dtype = c->operand[k].dtype;
    for (uint32_t i = k + 1; i < c->program.operand_count; i++)
        if (c->home[i] == k)
            dtype = c->operand[i].dtype;
    size_t size = random_dtype_bytes(dtype);
    const unsigned char *g = got, *w = want;
    for (size_t at = 0; at + size <= c->bytes[k]; at += size)
        if (memcmp(g + at, w + at, size) != 0 &&
            !(is_nan_at(dtype, g + at) && is_nan_at(dtype, w + at)))
            return (int64_t)(at / size);
    return -1;
}

size_t random_case_element_bytes(const random_case *c, uint32_t k)
{
    return random_dtype_bytes(c->operand[k].dtype);
}
