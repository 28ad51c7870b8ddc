/* print.c: prints tensors as PyTorch does (torch/_tensor_str.py): in columns of
 * equal width, with four digits. Scientific notation is used if numbers are
 * very large or small, or if the ratio of the largest to the smallest is above
 * 1000. If a tensor has more than 1000 elements, only the first and last three
 * of each dimension are shown. PyTorch appends a number to the name of a
 * gradient function (AddBackward0); here it is printed without that number. */
#include <base/error.h>
#include <base/memory.h>
#include <base/plain.h>
#include <math.h>
#include <string.h>
#include <tensor/tensor.h>

#define PRECISION 4
#define THRESHOLD 1000
#define EDGE_ITEMS 3
#define LINE_WIDTH 80
#define INDENT 7 /* length of "tensor(" */
#define NUMBER_TEXT 400 /* size of a buffer for a number; the largest double
                           printed with %.4f has 314 characters */

typedef struct printer {
    const tn_tensor *x;
    tn__host_view view;
    tn__text text;
    bool summarize, floating;
    bool whole, scientific; /* print floats without digits after the point, or
                               in scientific notation */
    int width;
    size_t line; /* length of the last line, which decides whether a suffix such
                    as dtype= is put on it or on a new line */
} printer;

/* ---- numbers ------------------------------------------------------------- */

static const char *element_at(const printer *p, int64_t offset)
{
    return p->view.base + offset * (int64_t)tn_dtype_bytes(p->x->dtype);
}

/* Writes an element as a string without padding. Returns its length. */
static int write_number(const printer *p, const char *element,
                        char out[NUMBER_TEXT])
{
    if (p->x->dtype == TN_BOOL)
        return snprintf(out, NUMBER_TEXT, "%s", *element ? "True" : "False");
    if (!p->floating)
        return snprintf(out, NUMBER_TEXT, "%lld",
                        (long long)tn__element_int(p->x->dtype, element));
    double value = tn__element_double(p->x->dtype, element);
    if (isnan(value))
        return snprintf(out, NUMBER_TEXT, "nan");
    if (isinf(value))
        return snprintf(out, NUMBER_TEXT, value < 0 ? "-inf" : "inf");
    if (p->scientific)
        return tn__plain_print(out, NUMBER_TEXT, "%.*e", PRECISION, value);
    if (p->whole)
        return tn__plain_print(out, NUMBER_TEXT, "%.0f.", value);
    return tn__plain_print(out, NUMBER_TEXT, "%.*f", PRECISION, value);
}

/* ---- elements shown ------------------------------------------------------ */

/* Returns the index that is shown after index i in a dimension of this size,
 * which skips the omitted elements. */
static int64_t next_shown(const printer *p, int64_t i, int64_t size)
{
    bool skip = p->summarize && size > 2 * EDGE_ITEMS && i == EDGE_ITEMS - 1;
    return skip ? size - EDGE_ITEMS : i + 1;
}

static void each_shown(printer *p, int dim, int64_t offset,
                       void (*visit)(printer *p, const char *element,
                                     void *context),
                       void *context)
{
    if (dim == p->x->ndim) {
        visit(p, element_at(p, offset), context);
        return;
    }
    int64_t size = p->x->shape[dim];
    for (int64_t i = 0; i < size; i = next_shown(p, i, size))
        each_shown(p, dim + 1, offset + i * p->x->stride[dim], visit, context);
}

/* ---- choosing the format ------------------------------------------------- */

/* The smallest and the largest magnitude of the finite non-zero elements that
 * are shown. */
typedef struct range {
    double least, greatest;
    bool any, whole;
} range;

static void note_range(printer *p, const char *element, void *context)
{
    range *r = context;
    double value = tn__element_double(p->x->dtype, element);
    double size = fabs(value);
    if (!isfinite(value) || value == 0)
        return;
    r->least = !r->any || size < r->least ? size : r->least;
    r->greatest = !r->any || size > r->greatest ? size : r->greatest;
    r->whole = r->whole && value == ceil(value);
    r->any = true;
}

static void note_width(printer *p, const char *element, void *context)
{
    (void)context;
    char number[NUMBER_TEXT];
    if (p->floating) {
        double value = tn__element_double(p->x->dtype, element);
        if (!isfinite(value) || value == 0)
            return;
    }
    int length = write_number(p, element, number);
    if (length > p->width)
        p->width = length;
}

static void choose_format(printer *p)
{
    p->width = 1;
    p->whole = true;
    if (p->floating) {
        range r = {.whole = true};
        each_shown(p, 0, 0, note_range, &r);
        p->whole = r.whole;
        p->scientific = r.any && (r.greatest / r.least > 1000 ||
                                  r.greatest > 1e8 ||
                                  (!r.whole && r.least < 1e-4));
    }
    each_shown(p, 0, 0, note_width, NULL);
}

/* ---- brackets ------------------------------------------------------------ */

static void add_number(printer *p, const char *element)
{
    char number[NUMBER_TEXT];
    write_number(p, element, number);
    tn__text_add(&p->text, "%*s", p->width, number);
}

static void add_break(printer *p, int lines, int indent)
{
    tn__text_add(&p->text, ",%.*s%*s", lines, "\n\n\n\n\n\n\n\n\n\n\n\n",
                 indent, "");
}

static void add_vector(printer *p, int dim, int64_t offset, int indent)
{
    int64_t size = p->x->shape[dim];
    int per_line = (LINE_WIDTH - indent) / (p->width + 2);
    if (per_line < 1)
        per_line = 1;
    int count = 0;
    tn__text_add(&p->text, "[");
    for (int64_t i = 0; i < size; i = next_shown(p, i, size)) {
        if (i && count % per_line == 0)
            add_break(p, 1, indent + 1);
        else if (i)
            tn__text_add(&p->text, ", ");
        add_number(p, element_at(p, offset + i * p->x->stride[dim]));
        count++;
        if (next_shown(p, i, size) != i + 1) {
            if (count % per_line == 0)
                add_break(p, 1, indent + 1);
            else
                tn__text_add(&p->text, ", ");
            tn__text_add(&p->text, " ...");
            count++;
        }
    }
    tn__text_add(&p->text, "]");
}

static void add_array(printer *p, int dim, int64_t offset, int indent)
{
    int below = p->x->ndim - dim;
    if (below == 0) {
        add_number(p, element_at(p, offset));
        return;
    }
    if (below == 1) {
        add_vector(p, dim, offset, indent);
        return;
    }
    int64_t size = p->x->shape[dim];
    tn__text_add(&p->text, "[");
    for (int64_t i = 0; i < size; i = next_shown(p, i, size)) {
        if (i)
            add_break(p, below - 1, indent + 1);
        add_array(p, dim + 1, offset + i * p->x->stride[dim], indent + 1);
        if (next_shown(p, i, size) != i + 1) {
            add_break(p, below - 1, indent + 1);
            tn__text_add(&p->text, "...");
        }
    }
    tn__text_add(&p->text, "]");
}

/* ---- suffixes ------------------------------------------------------------ */

/* Sets p->line to the length of the last line plus 2, which is how PyTorch
 * measures it. */
static void measure_line(printer *p)
{
    const char *line = p->text.data ? strrchr(p->text.data, '\n') : NULL;
    p->line = line ? (size_t)(p->text.data + p->text.length - line) + 1
                   : p->text.length + 2;
}

static void add_suffix(printer *p, const char *suffix)
{
    if (p->line + strlen(suffix) + 2 > LINE_WIDTH) {
        tn__text_add(&p->text, ",\n%*s%s", INDENT, "", suffix);
        p->line = INDENT + strlen(suffix);
    } else {
        tn__text_add(&p->text, ", %s", suffix);
        p->line += strlen(suffix) + 2;
    }
}

static void add_suffixes(printer *p)
{
    const tn_tensor *x = p->x;
    const tn_device *device = x->storage->device;
    char suffix[400];
    if (strcmp(device->plugin->name, "cpu") != 0) {
        snprintf(suffix, sizeof suffix, "device='%s'", device->name);
        add_suffix(p, suffix);
    }
    bool is_default = x->dtype == TN_F32;
    if (x->numel == 0 && x->ndim != 1) {
        tn__text shape = {0};
        tn__text_add_shape(&shape, x->ndim, x->shape);
        snprintf(suffix, sizeof suffix, "size=%s",
                 shape.data ? shape.data : "");
        tn__text_release(&shape);
        add_suffix(p, suffix);
    } else if (x->numel) {
        is_default |= x->dtype == TN_I64 || x->dtype == TN_BOOL;
    }
    if (!is_default) {
        snprintf(suffix, sizeof suffix, "dtype=torch.%s",
                 tn_dtype_name(x->dtype));
        add_suffix(p, suffix);
    }
    char made_by[TN__GRAD_FN_BYTES] = "";
    if (tn__tensor_tracks(x) && tn__tensor_hook.grad_fn)
        /* The cast is safe: grad_fn may replace the tensor's graph node, but
         * does not change the tensor's value. */
        tn__tensor_hook.grad_fn((tn_tensor *)(uintptr_t)x, made_by);
    if (*made_by) {
        snprintf(suffix, sizeof suffix, "grad_fn=<%s>", made_by);
        add_suffix(p, suffix);
    } else if (x->requires_grad) {
        add_suffix(p, "requires_grad=True");
    }
}

/* Returns x as a string, which the caller frees with tn__free. */
static char *text_of(const tn_tensor *x)
{
    printer p = {.x = x, .summarize = x->numel > THRESHOLD,
                 .floating = tn_dtype_is_floating(x->dtype)};
    tn__text_add(&p.text, "tensor(");
    if (x->numel == 0) {
        tn__text_add(&p.text, "[]");
    } else {
        if (tn__host_view_open(&p.view, x) < 0) {
            tn__text_release(&p.text);
            return NULL;
        }
        choose_format(&p);
        add_array(&p, 0, 0, INDENT);
        tn__host_view_close(&p.view);
    }
    measure_line(&p);
    add_suffixes(&p);
    tn__text_add(&p.text, ")");
    return tn__text_finish(&p.text);
}

/* ---- public functions ---------------------------------------------------- */

char *tn_tensor_text(const tn_tensor *x)
{
    if (!tn__tensor_check(x, "tensor_text", "x"))
        return NULL;
    char *own = text_of(x), *out = own ? strdup(own) : NULL;
    if (own && !out)
        tn__fail(TN_ERR_MEMORY, "tensor_text: out of memory");
    tn__free(own);
    return out;
}

tn_status tn_fprint(FILE *file, const tn_tensor *x)
{
    if (!tn__tensor_check(x, "fprint", "x"))
        return tn_error_code();
    if (!file)
        return tn__fail(TN_ERR_ARGUMENT, "fprint: file is NULL");
    char *text = text_of(x);
    if (!text)
        return tn_error_code();
    bool written = fprintf(file, "%s\n", text) >= 0;
    tn__free(text);
    return written ? TN_OK : tn__fail(TN_ERR_IO, "fprint: the {file} cannot be "
                                      "written");
}

void tn_print(const tn_tensor *x)
{
    if (tn__tensor_check(x, "print", "x"))
        tn_fprint(stdout, x);
}
