/* vectors.c: prints loads and stores of vectors, which are several neighbouring
 * elements. */
#include <stdio.h>

#include <source/program/printer.h>

/* Prints the types of vectors as aligned structs. Compilers of OpenCL C and
 * CUDA C load and store such a struct by one instruction. */
void tn__print_vector_types(tn__printer *p, uint32_t operands)
{
    bool known[TN_DTYPE_END] = {false};
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        unsigned dtype = p->program->operand[k].dtype;
        if (!(operands >> k & 1) || known[dtype])
            continue;
        known[dtype] = true;
        tn__print_line(p, "typedef struct __attribute__((aligned(%u))) {",
                       p->class.vector *
                           (unsigned)tn_dtype_bytes((tn_dtype)dtype));
        tn__print_line(p, "    tk_s_%s e[%u];", tn__source_dtype(dtype),
                       p->class.vector);
        tn__print_line(p, "} tk_v_%s;", tn__source_dtype(dtype));
    }
}

/* Prints the loads (if `reads`) or stores of the operands' vectors x<k>. Inputs
 * are loaded before the elements are computed, and outputs are stored after
 * that. */
static void print_vectors(tn__printer *p, bool reads)
{
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        const tn_kernel_operand *operand = &p->program->operand[k];
        const char *dtype = tn__source_dtype(operand->dtype);
        if (!(p->vectors >> k & 1))
            continue;
        if (p->cached >> k & 1) {
            if (reads)
                tn__print_line(p,
                               "const tk_v_%s x%u = "
                               "*(TK_S const tk_v_%s *)(local%u + here%u);",
                               dtype, k, dtype, k, k);
        } else if (!reads && operand->access == TN_OPERAND_WRITE)
            tn__print_line(p, "*(TK_G tk_v_%s *)(p%u + from%u) = x%u;", dtype,
                           k, k, k);
        else if (reads && operand->access == TN_OPERAND_WRITE)
            tn__print_line(p, "tk_v_%s x%u;", dtype, k);
        else if (reads)
            tn__print_line(p,
                           "const tk_v_%s x%u = "
                           "*(TK_G const tk_v_%s *)(p%u + from%u);",
                           dtype, k, dtype, k, k);
    }
}

uint32_t tn__vectors_of(const tn__printer *p, uint32_t used)
{
    uint32_t vectors = 0;
    for (uint32_t k = 0; p->class.vector > 1 && k < p->program->operand_count;
         k++)
        if (used >> k & 1 &&
            tn__operand_is_contiguous(p->program, &p->class, k))
            vectors |= 1u << k;
    return vectors;
}

void tn__print_vectors_open(tn__printer *p, uint32_t used)
{
    char head[80];
    print_vectors(p, true);
    tn__text_add(&p->body, "#pragma unroll\n");
    snprintf(head, sizeof head, "for (tk_i32 l = 0; l < %u; l++) ",
             p->class.vector);
    tn__print_open(p, head);
    tn__print_step_offsets(p, used & ~p->vectors, "l");
}

void tn__print_vectors_close(tn__printer *p)
{
    tn__print_close(p);
    print_vectors(p, false);
    p->vectors = 0;
}
