/* block_reduce.c: runs a reduction over a block. Some reductions also compute
 * the preceding operations, such as the products of a sum of products (fuse.c).
 * Columns are adjacent rows, stored as value[element][column]. */
#include "block.h"

/* Finds an operand of an operation, for a reduction of columns. i is 0 for
 * operand a, 1 for b, 2 for c. Stores the operand's address and its stride
 * between element indices. With is_each, the operand must be scalar[element],
 * the same for all columns, otherwise value[element][column]. Returns false if
 * it is not. */
static bool find_column_factor(const cpu_task *t, const cpu_op *op, unsigned i,
                               bool is_each, const void **at, int64_t *step)
{
    const uint32_t slots[3] = {op->a, op->b, op->c};
    bool lent = op->lent >> i & 1;
    if (t->layout.across_columns && (op->row >> i & 1)) {
        *at = t->slot[op->narrow[i]];
        *step = 0;
        return !is_each;
    }
    *at = t->slot[slots[i]];
    *step = lent ? t->step[slots[i]] : t->group.rows;
    bool single = (op->scalar >> i & 1) || *step == TN_CPU_ONE_VALUE;
    bool each = single || *step == TN_CPU_ONE_EACH;
    if (each)
        *step = !single;
    return each == is_each;
}

/* A reduction of columns may compute its input itself (fuse.c). Finds the
 * operands that it then needs. They are the operands of the one or two
 * operations before the reduction. Returns false if an operand has an
 * unsuitable layout. */
static bool find_column_products(const cpu_task *t, const cpu_op *op,
                                 tn_cpu_column_products *l)
{
    static const float zero = 0, one = 1;
    const cpu_op *last = op - 1, *first = last;
    *l = (tn_cpu_column_products){.center = &zero, .scale = &one};
    if (op->column_form == CPU_CENTERED_SCALED) {
        first = last - 1;
        unsigned other = last->a == first->out;
        if (!find_column_factor(t, last, other, true, &l->scale,
                                &l->scale_step))
            return false;
    }
    bool center = op->column_form == CPU_CENTERED_SCALED ||
                  op->column_form == CPU_CENTERED;
    if (center &&
        !find_column_factor(t, first, 1, true, &l->center, &l->center_step))
        return false;
    if (op->column_form == CPU_TRIPLE &&
        !find_column_factor(t, last, 2, true, &l->scale, &l->scale_step))
        return false;
    return find_column_factor(t, first, 0, false, &l->x, &l->x_step) &&
           find_column_factor(t, first, center ? 2 : 1, false, &l->y,
                              &l->y_step);
}

bool tn__cpu_reduce_takes_operands(const cpu_task *t, const cpu_op *op)
{
    tn_cpu_column_products products;
    if (t->layout.columns)
        return op->column_form != 0 && find_column_products(t, op, &products);
    return op->b != TN_CPU_NONE &&
           !((op->lent & 2) && t->step[op->b] == TN_CPU_ONE_VALUE) &&
           !((op->lent & 4) && t->step[op->c] == TN_CPU_ONE_VALUE);
}

void tn__cpu_run_reduce(cpu_task *t, const cpu_op *op)
{
    const cpu_reduce *reduce = &t->code->reduce[op->index];
    cpu_fold *fold = &t->fold[op->index];
    tn_cpu_column_products products;
    bool takes = tn__cpu_reduce_takes_operands(t, op);
    if (takes && t->layout.columns) {
        find_column_products(t, op, &products);
        if (t->plan->kept)
            tn__cpu_fold_begin(fold);
        tn__cpu_fold_column_products(
            fold, products, t->block.count / t->group.rows, t->group.rows);
        if (t->plan->kept)
            tn__cpu_fold_end(fold, t->group.rows, t->slot[reduce->out]);
        return;
    }
    const char *x = t->slot[op->a];
    int64_t step = op->flags & LOAD_FOLDED ? t->step[op->a] : t->group.rows;
    if (takes) {
        const uint32_t from[2] = {op->b, op->c};
        int64_t length = t->block.count / t->group.rows;
        tn_cpu_factor factor[2];
        for (int i = 0; i < 2; i++) {
            uint32_t center = op->narrow[i + 1];
            factor[i] = (tn_cpu_factor){
                t->slot[from[i]],
                center == TN_CPU_NONE ? NULL : t->slot[center],
                op->lent & 2 << i ? t->step[from[i]] : length, 1};
        }
        if (t->plan->kept)
            tn__cpu_fold_product_rows(fold, factor, t->group.rows, length,
                                      t->slot[reduce->out]);
        else
            tn__cpu_fold_products(fold, factor, t->block.count);
        return;
    }
    if (t->plan->kept)
        tn__cpu_fold_rows(fold, x, step, t->group.rows, t->plan->row_length,
                          t->layout.columns, t->slot[reduce->out]);
    else
        tn__cpu_fold_block(fold, x, step, t->block.first_elem,
                           t->block.count / t->group.rows, t->group.rows,
                           t->layout.columns);
}
