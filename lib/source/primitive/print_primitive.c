/* print_primitive.c: prints the kernel source of a primitive (matrix product,
 * scan, sort, scatter or convolution): a few definitions followed by .cl
 * files. */
#include <source/primitive/primitive.h>

tn_status tn__print_primitive(const tn_target *target, const tn_plan *plan,
                              tn_source *source)
{
    static const char *const name[] = {"tn_matmul", "tn_scatter", "tn_scan",
                                       "tn_sort", "tn_conv"};
    static const char *const part[] = {"matmul.cl", NULL, "scan.cl",
                                       "sort.cl", "conv.cl"};
    tn__variant v = tn__variant_unpack(plan->variant);
    if (v.primitive == TN__PLAN_ATTENTION)
        return tn__print_attention(target, plan, source);
    const char *stored = tn__source_dtype(v.dtype);
    const char *type = tn__source_dtype(tn__primitive_type(v.dtype));
    tn__text text = {.data = NULL};
    tn__source_head(&text, target, v.is_wide, v.in_buffer,
                    plan->argument_bytes / 8);
    tn__text_add(&text,
                 "#define TK_WORDS %s\n#define TK_NDIM %u\n"
                 "#define TK_OPERANDS %d\n"
                 "#define TK_STORED tk_s_%s\n#define TK_VALUE tk_%s\n"
                 "#define TK_FROM(s) tk_from_%s(s)\n"
                 "#define TK_TO(x) tk_to_%s(x)\n",
                 tn__source_parameters(target, v.in_buffer), v.ndim,
                 v.primitive == TN__SCATTER ? TN__OPERANDS : 3, stored, type,
                 stored, stored);
    const bool chunked = target->flags & TN_TARGET_CHUNKED;
    if (chunked)
        tn__text_add(&text, "#define TK_CHUNKED 1\n");
    const bool sums = v.primitive == TN__MATMUL || v.primitive == TN__CONV;
    const char *body = part[v.primitive];
    const char *behind = sums && !chunked ? "tile.cl" : NULL;
    if (sums)
        tn__define_sums(&text, &v, type);
    if (v.primitive == TN__MATMUL)
        tn__define_matmul(&text, &v);
    else if (v.primitive == TN__CONV)
        behind = tn__define_conv(&text, &v);
    else if (v.primitive == TN__SCATTER)
        body = tn__define_scatter(&text, &v, type);
    else if (v.primitive == TN__SCAN)
        body = tn__define_scan(&text, &v, type);
    else
        behind = tn__define_sort(&text, &v);
    tn__text_add(&text, "%s%s%s%s", tn__source_text("primitive.cl"),
                 v.primitive == TN__SCATTER ? tn__source_text("fault.cl") : "",
                 tn__source_text(body), behind ? tn__source_text(behind) : "");
    source->kernel =
        tn__source_entry(&text, target, plan, v.in_buffer, name[v.primitive]);
    source->text_bytes = text.length;
    source->text = tn__text_finish(&text);
    return source->text ? TN_OK : TN_ERR_MEMORY;
}
