/* einsum.c: sums of products over dimensions (PyTorch's einsum, tensordot and
 * multi_dot). einsum multiplies two operands at a time, from left to right,
 * each time as one matrix product. */
#include <base/memory.h>
#include <ops/engine/native.h>

/* A label is a small integer that says which dimensions of the operands belong
 * together. Labels below LETTERS are letters of the equation. The dimensions
 * that "..." covers have the labels LETTERS + k, where the last of them has k =
 * 0, the last but one k = 1, and so on. */
enum { LETTERS = 52, LABELS = LETTERS + TN_MAX_NDIM };

/* An operand: a tensor and the labels of its dimensions. */
typedef struct term {
    tn_tensor *x;
    int label[TN_MAX_NDIM]; /* label[d] is the label of dimension d. After
                               take_diagonals, all are different. */
} term;

static int letter(char c)
{
    return c >= 'a' && c <= 'z'   ? c - 'a' + 26
           : c >= 'A' && c <= 'Z' ? c - 'A'
                                  : -1;
}

static tn_status fail_sizes(int label, int64_t a, int64_t b)
{
    char name[4] = "...";
    if (label < 52)
        snprintf(name, sizeof name, "%c",
                 label < 26 ? 'A' + label : 'a' + label - 26);
    return tn__fail(TN_ERR_SHAPE, "einsum: index %s of the {equation} has size "
                    "%lld in one of the {operands}, %lld in another", name,
                    (long long)a, (long long)b);
}

static int dim_of_label(const term *t, int label)
{
    for (int d = 0; d < t->x->ndim; d++)
        if (t->label[d] == label)
            return d;
    return -1;
}

static tn_status fail_text(const char *equation, const char *why)
{
    return tn__fail(TN_ERR_ARGUMENT, "einsum: {equation} \"%s\": %s", equation,
                    why);
}

/* Reads the labels of one operand, or of the result, from *at up to a comma,
 * "->" or the end. Stores them in label[] and returns their number. "..."
 * covers `dots` dimensions. If dots is -1, it covers the dimensions
 * that have no letter, in an operand of `count` dimensions. */
static int read_labels(const char **at, const char *equation, int dots,
                       int count, int *label)
{
    int n = 0, letters = 0;
    for (const char *c = *at; *c && *c != ',' && *c != '-'; c++)
        letters += letter(*c) >= 0;
    bool seen = false;
    for (; **at && **at != ',' && **at != '-'; (*at)++) {
        char c = **at;
        if (c == ' ')
            continue;
        if (c == '.' && strncmp(*at, "...", 3) == 0 && !seen) {
            int width = dots >= 0 ? dots : count - letters;
            for (int k = width - 1; k >= 0 && n < TN_MAX_NDIM; k--)
                label[n++] = LETTERS + k;
            *at += 2;
            seen = true;
        } else if (letter(c) >= 0 && n < TN_MAX_NDIM) {
            label[n++] = letter(c);
        } else {
            return fail_text(equation, "expected letters, \"...\", ',' and "
                             "\"->\", and no more dimensions than tensors have");
        }
    }
    return n;
}

/* Replaces an operand in which a label occurs several times by its diagonal in
 * these dimensions. */
static tn_status take_diagonals(term *t)
{
    for (int i = 0; i < t->x->ndim; i++)
        for (int j = i + 1; j < t->x->ndim; j++) {
            if (t->label[i] != t->label[j])
                continue;
            int label = t->label[i], n = 0, ndim = t->x->ndim;
            if (t->x->shape[i] != t->x->shape[j])
                return fail_sizes(label, t->x->shape[i], t->x->shape[j]);
            t->x = tn_diagonal(t->x, .dim1 = i, .dim2 = j);
            if (!t->x)
                return tn_error_code();
            for (int d = 0; d < ndim; d++)
                if (d != i && d != j)
                    t->label[n++] = t->label[d];
            t->label[n] = label;
            return take_diagonals(t);
        }
    return TN_OK;
}

/* Sums an operand over the dimensions whose label is not in keep. As in
 * PyTorch, sums of integers are int64. */
static tn_status sum_others(term *t, const bool *keep)
{
    tn_dims_list gone = {0, {0}};
    int n = 0;
    for (int d = 0; d < t->x->ndim; d++) {
        if (keep[t->label[d]])
            t->label[n++] = t->label[d];
        else
            gone.dim[gone.count++] = d;
    }
    if (gone.count)
        t->x = tn_sum(t->x, .dims = tn__marked(gone));
    return t->x ? TN_OK : tn_error_code();
}

/* ---- products of two operands -------------------------------------------- */

/* The labels of a pair of operands, grouped by where they occur. Labels of one
 * operand only are in left or right. Labels of both operands are in both_kept
 * if the result or a later operand has them, too. Else they are in summed. */
typedef struct groups {
    int both_kept[TN_MAX_NDIM], summed[TN_MAX_NDIM];
    int left[TN_MAX_NDIM], right[TN_MAX_NDIM];
    int both_kept_count, summed_count, left_count, right_count;
} groups;

static int64_t size_of(const term *t, int label)
{
    int d = dim_of_label(t, label);
    return d < 0 ? 1 : t->x->shape[d];
}

/* Returns t->x as a tensor of three dimensions. Dimension k merges the count[k]
 * dimensions whose labels are in group[k]. */
static tn_tensor *permuted(const term *t, const int *group[3],
                           const int count[3])
{
    tn_dims_list order = {0, {0}}, shape = {3, {1, 1, 1}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < count[k]; i++) {
            order.dim[order.count++] = dim_of_label(t, group[k][i]);
            shape.dim[k] *= size_of(t, group[k][i]);
        }
    return tn_reshape(tn_permute(t->x, order), shape);
}

/* Drops the dimensions of t that broadcast against the other operand. They have
 * size 1 in t and another size in `other`. */
static tn_status drop_ones(term *t, const term *other)
{
    int n = 0, ndim = t->x->ndim, at = 0;
    for (int d = 0; d < ndim; d++) {
        int64_t beside = size_of(other, t->label[d]);
        bool absent = t->x->shape[at] == 1 && beside != 1;
        if (!absent && dim_of_label(other, t->label[d]) >= 0 &&
            beside != t->x->shape[at] && beside != 1)
            return fail_sizes(t->label[d], t->x->shape[at], beside);
        if (absent)
            t->x = tn_select(t->x, at, 0);
        else {
            t->label[n++] = t->label[d];
            at++;
        }
        if (!t->x)
            return tn_error_code();
    }
    return TN_OK;
}

static void sort_labels(const term *a, const term *b, const bool *keep,
                        groups *g)
{
    *g = (groups){.both_kept_count = 0};
    for (int d = 0; d < a->x->ndim; d++) {
        int label = a->label[d];
        if (dim_of_label(b, label) < 0)
            g->left[g->left_count++] = label;
        else if (keep[label])
            g->both_kept[g->both_kept_count++] = label;
        else
            g->summed[g->summed_count++] = label;
    }
    for (int d = 0; d < b->x->ndim; d++)
        if (dim_of_label(a, b->label[d]) < 0)
            g->right[g->right_count++] = b->label[d];
}

/* Converts two integer operands to a common dtype. They may differ because
 * sum_others returns int64. */
static tn_status promote_pair(term *a, term *b)
{
    tn_dtype dtype = tn_dtype_promote(a->x->dtype, b->x->dtype);
    if (tn_dtype_is_floating(dtype))
        return TN_OK; /* the matrix product rejects different floating-point
                         dtypes */
    if (a->x->dtype != dtype)
        a->x = tn_to_dtype(a->x, dtype);
    if (b->x->dtype != dtype)
        b->x = tn_to_dtype(b->x, dtype);
    return a->x && b->x ? TN_OK : tn_error_code();
}

/* Replaces *a by its product with b, summed over the labels that are not in
 * keep. */
static tn_status multiply(term *a, term *b, const bool *keep)
{
    bool wanted[LABELS];
    for (int k = 0; k < LABELS; k++)
        wanted[k] =
            keep[k] || (dim_of_label(a, k) >= 0 && dim_of_label(b, k) >= 0);
    if (drop_ones(a, b) < 0 || drop_ones(b, a) < 0 ||
        sum_others(a, wanted) < 0 || sum_others(b, wanted) < 0 ||
        promote_pair(a, b) < 0)
        return tn_error_code();
    groups g;
    sort_labels(a, b, keep, &g);
    int out_count = g.both_kept_count + g.left_count + g.right_count;
    if (out_count > TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "einsum: the product would have %d "
                        "dimensions; expected at most %d", out_count,
                        TN_MAX_NDIM);
    tn_tensor *x = permuted(a, (const int *[]){g.both_kept, g.left, g.summed},
                            (const int[]){g.both_kept_count, g.left_count,
                                          g.summed_count});
    tn_tensor *y = permuted(b, (const int *[]){g.both_kept, g.summed, g.right},
                            (const int[]){g.both_kept_count, g.summed_count,
                                          g.right_count});
    term out = {NULL, {0}};
    tn_dims_list shape = {0, {0}};
    for (int i = 0; i < out_count; i++) {
        int k = i - g.both_kept_count;
        int label = k < 0               ? g.both_kept[i]
                    : k < g.left_count ? g.left[k]
                                       : g.right[k - g.left_count];
        int64_t size = size_of(a, label);
        out.label[i] = label;
        shape.dim[shape.count++] = size != 1 ? size : size_of(b, label);
    }
    /* If no dimension is summed, an element-wise product is enough. */
    out.x = tn_reshape(g.summed_count ? tn_matmul(x, y) : tn_mul(x, y), shape);
    *a = out;
    return out.x ? TN_OK : tn_error_code();
}

/* ---- einsum -------------------------------------------------------------- */

typedef struct equation {
    const char *text;
    term *term;
    int count;
    int use[LABELS];            /* use[k] is the number of dimensions of
                                   operands that have label k */
    int out[TN_MAX_NDIM], out_count; /* the labels of the result */
    int dots;                   /* the number of dimensions of the longest
                                   "..." */
} equation;

static tn_status read_operands(equation *e, tn_tensor *const *x,
                               const char **at)
{
    for (int k = 0; k < e->count; k++) {
        term *t = &e->term[k];
        t->x = x[k];
        int n = read_labels(at, e->text, -1, x[k]->ndim, t->label);
        if (n < 0)
            return n;
        if (n != x[k]->ndim)
            return tn__fail(TN_ERR_SHAPE, "einsum: {operands[%d]} has %d "
                            "dimensions, but its part of the {equation} "
                            "\"%s\" names %d", k, x[k]->ndim, e->text, n);
        for (int d = 0; d < n; d++) {
            e->use[t->label[d]]++;
            if (t->label[d] - LETTERS >= e->dots)
                e->dots = t->label[d] - LETTERS + 1;
        }
        if (**at == ',' && k + 1 < e->count)
            (*at)++;
        else if ((k + 1 < e->count) != (**at == ','))
            return fail_text(e->text, "it does not have one part for each "
                             "operand");
        if (take_diagonals(t) < 0)
            return tn_error_code();
    }
    return **at == ',' ? fail_text(e->text, "it has more parts than operands")
                       : TN_OK;
}

/* Reads the labels of the result, which follow "->". If the equation has no
 * "->", the result has the dimensions of "..." and the letters that occur
 * once. */
static tn_status read_result(equation *e, const char *at)
{
    bool given = strncmp(at, "->", 2) == 0;
    e->out_count = 0;
    if (*at && !given)
        return fail_text(e->text, "expected \"->\" after the operands");
    if (given) {
        at += 2;
        e->out_count = read_labels(&at, e->text, e->dots, 0, e->out);
        if (e->out_count >= 0 && *at)
            return fail_text(e->text, "expected no ',' in the result");
    } else {
        for (int k = e->dots - 1; k >= 0; k--)
            e->out[e->out_count++] = LETTERS + k;
        for (int k = 0; k < LETTERS && e->out_count < TN_MAX_NDIM; k++)
            if (e->use[k] == 1)
                e->out[e->out_count++] = k;
    }
    for (int i = 0; i < e->out_count; i++)
        for (int j = 0; j < i; j++)
            if (e->out[i] == e->out[j])
                return fail_text(e->text, "an index occurs twice in the "
                                 "result");
    for (int i = 0; i < e->out_count; i++)
        if (!e->use[e->out[i]])
            return fail_text(e->text, "an index of the result is in no "
                             "operand");
    return e->out_count < 0 ? TN_ERR_ARGUMENT : TN_OK;
}

/* Sets keep[k] to whether label k occurs in the result or in one of the
 * operands from index `next`. */
static void find_needed(const equation *e, int next, bool *keep)
{
    memset(keep, 0, LABELS * sizeof *keep);
    for (int i = 0; i < e->out_count; i++)
        keep[e->out[i]] = true;
    for (int k = next; k < e->count; k++)
        for (int d = 0; d < e->term[k].x->ndim; d++)
            keep[e->term[k].label[d]] = true;
}

static tn_tensor *evaluate(equation *e)
{
    bool keep[LABELS];
    term *t = &e->term[0];
    for (int k = 1; k < e->count; k++) {
        find_needed(e, k + 1, keep);
        if (multiply(t, &e->term[k], keep) < 0)
            return NULL;
    }
    find_needed(e, e->count, keep);
    if (sum_others(t, keep) < 0)
        return NULL;
    tn_dims_list order = {e->out_count, {0}};
    for (int i = 0; i < e->out_count; i++)
        order.dim[i] = dim_of_label(t, e->out[i]);
    return tn_contiguous(tn_permute(t->x, order));
}

tn_status tn__run_einsum(tn__call *call)
{
    const tn_value *operands = &call->value[TN__ARG_EINSUM_OPERANDS];
    equation e = {.text = call->value[TN__ARG_EINSUM_EQUATION].of.string,
                  .count = operands->count};
    const char *at = e.text;
    if (e.count < 1)
        return tn__fail(TN_ERR_ARGUMENT, "einsum: {operands} is an empty "
                        "list; expected at least one tensor");
    e.term = tn__alloc_many(e.count, sizeof *e.term);
    if (!e.term)
        return TN_ERR_MEMORY;
    tn_status status = read_operands(&e, operands->of.tensors, &at);
    if (status >= 0)
        status = read_result(&e, at);
    if (status >= 0)
        status = tn__give(call, evaluate(&e));
    tn__free(e.term);
    return status;
}

/* ---- tensordot ----------------------------------------------------------- */

/* Returns x as a matrix for tensordot. The dimensions in `summed` become the
 * columns of the matrix, or the rows if `last` is false. Stores the sizes of
 * the other dimensions in *rest. */
static tn_tensor *as_matrix(tn_tensor *x, const tn_dims_list *summed, bool last,
                            tn_dims_list *rest)
{
    tn_dims_list order = {x->ndim, {0}};
    bool is_summed[TN_MAX_NDIM] = {false};
    int64_t inner = 1, outer = 1;
    int n = last ? 0 : summed->count, s = last ? x->ndim - summed->count : 0;
    for (int k = 0; k < summed->count; k++) {
        is_summed[summed->dim[k]] = true;
        order.dim[s++] = summed->dim[k];
        inner *= x->shape[summed->dim[k]];
    }
    for (int d = 0; d < x->ndim; d++)
        if (!is_summed[d]) {
            order.dim[n++] = d;
            outer *= rest->dim[rest->count++] = x->shape[d];
        }
    return tn_reshape(tn_permute(x, order),
                      last ? tn_dims(outer, inner) : tn_dims(inner, outer));
}

/* If *a or *b has size 1 in a summed dimension and the other operand a larger
 * size, sums the other operand over this dimension. The result is the same as
 * if the dimension of size 1 had been broadcast. */
static tn_status sum_beside_ones(tn_tensor **a, const tn_dims_list *left,
                                 tn_tensor **b, const tn_dims_list *right)
{
    for (int k = 0; k < left->count; k++) {
        int64_t m = (*a)->shape[left->dim[k]], n = (*b)->shape[right->dim[k]];
        if (m == n)
            continue;
        tn_tensor **x = m == 1 ? b : a;
        int64_t dim = m == 1 ? right->dim[k] : left->dim[k];
        *x = tn_sum(*x, .dim = dim, .keepdim = true,
                    .dtype = (*x)->dtype);
        if (!*x)
            return tn_error_code();
    }
    return TN_OK;
}

tn_status tn__run_tensordot(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_TENSORDOT_INPUT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_TENSORDOT_OTHER);
    const tn_dims_list *given = call->value[TN__ARG_TENSORDOT_DIMS].of.dims;
    bool number = given->count == 1;
    int count = number ? (int)given->dim[0] : given->count / 2;
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT], u[TN__SHAPE_TEXT];
    bool fits = count >= 0 && count <= a->ndim && count <= b->ndim &&
                (number || given->count % 2 == 0) &&
                a->ndim + b->ndim - 2 * count <= TN_MAX_NDIM;
    tn_dims_list left = {count, {0}}, right = left, shape = {0, {0}};
    for (int k = 0; k < count && fits; k++) {
        int l = number ? a->ndim - count + k
                       : tn__shape_dim(a->ndim, given->dim[k]);
        int r = number ? k : tn__shape_dim(b->ndim, given->dim[count + k]);
        fits = l >= 0 && r >= 0 &&
               (a->shape[l] == b->shape[r] || a->shape[l] == 1 ||
                b->shape[r] == 1);
        for (int i = 0; i < k && fits; i++)
            fits = left.dim[i] != l && right.dim[i] != r;
        left.dim[k] = l;
        right.dim[k] = r;
    }
    if (!fits)
        return tn__fail(TN_ERR_SHAPE, "tensordot: {dims} is %s for {input} %s "
                        "and {other} %s; expected a number of dimensions, or "
                        "the dimensions of {input} and then as many of "
                        "{other}, of equal sizes",
                        tn__shape_text(s, given->count, given->dim),
                        tn__shape_text(t, a->ndim, a->shape),
                        tn__shape_text(u, b->ndim, b->shape));
    if (sum_beside_ones(&a, &left, &b, &right) < 0)
        return tn_error_code();
    tn_tensor *x = as_matrix(a, &left, true, &shape);
    tn_tensor *y = as_matrix(b, &right, false, &shape);
    return tn__give(call, tn_reshape(tn_matmul(x, y), shape));
}

/* ---- multi_dot ----------------------------------------------------------- */

/* Sets split[i * n + j] to k if the product of the matrices i to j takes the
 * fewest multiplications when it is computed as (i to k) times (k + 1 to j):
 * Cormen and others, "Introduction to Algorithms", 15.2. */
static void best_splits(tn_tensor *const *x, int n, double *cost, int *split)
{
    for (int i = 0; i < n; i++)
        cost[i * n + i] = 0;
    for (int length = 2; length <= n; length++)
        for (int i = 0, j; (j = i + length - 1) < n; i++)
            for (int k = i; k < j; k++) {
                double c = cost[i * n + k] + cost[(k + 1) * n + j] +
                           (double)x[i]->shape[0] * (double)x[k]->shape[1] *
                               (double)x[j]->shape[1];
                if (k == i || c < cost[i * n + j]) {
                    cost[i * n + j] = c;
                    split[i * n + j] = k;
                }
            }
}

static tn_tensor *chain(tn_tensor *const *x, const int *split, int n, int i,
                        int j)
{
    if (i == j)
        return x[i];
    int k = split[i * n + j];
    return tn_matmul(chain(x, split, n, i, k), chain(x, split, n, k + 1, j));
}

tn_status tn__run_linalg_multi_dot(tn__call *call)
{
    const tn_value *list = &call->value[TN__ARG_LINALG_MULTI_DOT_TENSORS];
    int n = list->count;
    char text[TN__SHAPE_TEXT];
    if (n < 2)
        return tn__fail(TN_ERR_ARGUMENT, "linalg_multi_dot: %d {tensors}; "
                        "expected at least 2", n);
    tn_tensor **x = tn__alloc_many(n, sizeof *x);
    double *cost = tn__alloc_many(tn__size_mul(n, n), sizeof *cost);
    int *split = tn__alloc_many(tn__size_mul(n, n), sizeof *split);
    tn_status status = x && cost && split ? TN_OK : TN_ERR_MEMORY;
    bool row = false, column = false;
    for (int k = 0; k < n && status >= 0; k++) {
        x[k] = list->of.tensors[k];
        if (k == 0 && x[k]->ndim == 1 && (row = true))
            x[k] = tn_unsqueeze(x[k], 0);
        else if (k == n - 1 && x[k]->ndim == 1 && (column = true))
            x[k] = tn_unsqueeze(x[k], 1);
        if (!x[k])
            status = tn_error_code();
        else if (x[k]->ndim != 2 ||
                 (k && x[k]->shape[0] != x[k - 1]->shape[1]))
            status = tn__fail(TN_ERR_SHAPE, "linalg_multi_dot: {tensors[%d]} "
                              "has shape %s; expected a matrix with as many "
                              "rows as the one before it has columns", k,
                              tn__shape_text(text, x[k]->ndim, x[k]->shape));
    }
    if (status >= 0) {
        best_splits(x, n, cost, split);
        tn_tensor *y = chain(x, split, n, 0, n - 1);
        if (y && column)
            y = tn_squeeze(y, .dim = 1);
        if (y && row)
            y = tn_squeeze(y, .dim = 0);
        status = tn__give(call, y);
    }
    tn__free(x);
    tn__free(cost);
    tn__free(split);
    return status;
}

/* ---- linalg.vander ------------------------------------------------------- */

tn_status tn__run_linalg_vander(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_VANDER_X);
    tn_tensor *list = x->ndim ? x : tn_reshape(x, tn_dims(1));
    if (!list)
        return tn_error_code();
    int64_t n = tn__call_has(call, TN__ARG_LINALG_VANDER_N)
                    ? tn__call_int(call, TN__ARG_LINALG_VANDER_N)
                    : list->shape[list->ndim - 1];
    if (n < 2 || list->ndim == TN_MAX_NDIM)
        return tn__fail(TN_ERR_ARGUMENT, "linalg_vander: {N} is %lld; expected "
                        "at least 2", (long long)n);
    tn_dims_list size = {list->ndim + 1, {0}};
    for (int d = 0; d < list->ndim; d++)
        size.dim[d] = list->shape[d];
    size.dim[list->ndim] = n - 1;
    tn_tensor *same = tn_expand(tn_unsqueeze(list, -1), size);
    size.dim[list->ndim] = 1;
    tn_tensor *one = tn_ones(size, .dtype = x->dtype,
                             .device = x->storage->device);
    if (!same || !one)
        return tn_error_code();
    return tn__give(call, tn_cumprod(tn_cat(((tn_tensor *[]){one, same}), 2,
                                            -1), -1));
}
