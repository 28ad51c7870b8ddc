/* iou.c: the overlap of boxes, and losses made from it. Each formula is one
 * definition of the kernel language, so that a matrix (N, M) is computed in one
 * pass, on every device, with gradients. */
#include <media/vision/boxes.h>

#include <string.h>

TN_OPTIONS_TYPE(tn_box_area, "box_area", "boxes", TN_BOX_AREA_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_box_iou, "box_iou", "boxes1, boxes2",
                TN_BOX_AREA_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_distance_box_iou, "distance_box_iou", "boxes1, boxes2",
                TN_DISTANCE_BOX_IOU_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_complete_box_iou, "complete_box_iou", "boxes1, boxes2",
                TN_DISTANCE_BOX_IOU_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_generalized_box_iou_loss, "generalized_box_iou_loss",
                "boxes1, boxes2", TN_BOX_IOU_LOSS_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_distance_box_iou_loss, "distance_box_iou_loss",
                "boxes1, boxes2", TN_BOX_IOU_LOSS_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_complete_box_iou_loss, "complete_box_iou_loss",
                "boxes1, boxes2", TN_BOX_IOU_LOSS_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_sigmoid_focal_loss, "sigmoid_focal_loss", "inputs, targets",
                TN_SIGMOID_FOCAL_LOSS_OPTIONS_LIST)

/* ---- formats ------------------------------------------------------------- */

enum { XYXY, XYWH, CXCYWH, FORMATS };
static const char *const format_name[FORMATS] = {"xyxy", "xywh", "cxcywh"};

/* Returns the index of a format, or -1 with an error. */
static int format_of(const char *call, const char *argument, const char *name)
{
    for (int i = 0; i < FORMATS; i++)
        if (name && strcmp(name, format_name[i]) == 0)
            return i;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                             "%s is \"%s\"; expected \"xyxy\", \"xywh\" or "
                             "\"cxcywh\"",
                             argument, name ? name : "(null)");
    return -1;
}

/* Splits boxes (..., 4) into four tensors (...). */
static bool split(tn_tensor *boxes, tn_tensor *out[4])
{
    return tn_unbind(boxes, -1, out, 4) == 4;
}

static tn_tensor *join(tn_tensor *a, tn_tensor *b, tn_tensor *c, tn_tensor *d)
{
    return tn_stack((tn_tensor *[]){a, b, c, d}, 4, -1);
}

static tn_tensor *to_xyxy(tn_tensor *boxes, int format)
{
    tn_tensor *b[4];
    if (format == XYXY)
        return boxes;
    if (!split(boxes, b))
        return NULL;
    if (format == XYWH)
        return join(b[0], b[1], tn_add(b[0], b[2]), tn_add(b[1], b[3]));
    tn_tensor *w = tn_mul_scalar(b[2], 0.5), *h = tn_mul_scalar(b[3], 0.5);
    return join(tn_sub(b[0], w), tn_sub(b[1], h), tn_add(b[0], w),
                tn_add(b[1], h));
}

static tn_tensor *from_xyxy(tn_tensor *boxes, int format)
{
    tn_tensor *b[4];
    if (format == XYXY)
        return boxes;
    if (!split(boxes, b))
        return NULL;
    tn_tensor *w = tn_sub(b[2], b[0]), *h = tn_sub(b[3], b[1]);
    if (format == XYWH)
        return join(b[0], b[1], w, h);
    return join(tn_div_scalar(tn_add(b[0], b[2]), 2),
                tn_div_scalar(tn_add(b[1], b[3]), 2), w, h);
}

tn_tensor *tn_box_convert(tn_tensor *boxes, const char *in_fmt,
                          const char *out_fmt)
{
    const char *call = "box_convert";
    const tn__box_rule rule = {"boxes", boxes, TN__ANY_NUMBER, -1, 4};
    if (!tn__box_check(call, &rule, 1))
        return NULL;
    const int from = format_of(call, "in_fmt", in_fmt);
    const int to = from < 0 ? -1 : format_of(call, "out_fmt", out_fmt);
    if (to < 0)
        return NULL;
    if (from == to)
        return tn_clone(boxes);
    tn_scope *scope = tn_scope_open();
    const tn_dtype dtype = tn_tensor_dtype(boxes);
    const bool is_whole = dtype != TN_F32 && dtype != TN_F64 &&
                          dtype != TN_F16 && dtype != TN_BF16;
    if (is_whole && (from == CXCYWH || to == CXCYWH))
        boxes = tn_to_dtype(boxes, TN_F32); /* centers have halves */
    return tn_scope_result(scope, from_xyxy(to_xyxy(boxes, from), to));
}

tn_tensor *tn_box_area_with(tn_tensor *boxes,
                            const tn_box_area_options *options)
{
    tn_box_area_options o;
    const tn__box_rule rule = {"boxes", boxes, TN__ANY_NUMBER, -1, 4};
    if (tn_options_take(tn_box_area_type(), &o, options) < 0 ||
        !tn__box_check("box_area", &rule, 1))
        return NULL;
    const int format = format_of("box_area", "fmt", o.fmt);
    if (format < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *b[4], *area = NULL;
    if (split(tn__box_upcast(boxes), b))
        area = format == XYXY ? tn_mul(tn_sub(b[2], b[0]), tn_sub(b[3], b[1]))
                              : tn_mul(b[2], b[3]);
    return tn_scope_result(scope, area);
}

/* ---- formulas -------------------------------------------------------------
 * Boxes a and b are inputs ax, ay, aX, aY and bx, by, bX, bY. where(x < 0, 0,
 * x) has the gradient 1 at 0, as PyTorch's clamp. */

#define BOXES "(ax, ay, aX, aY, bx, by, bX, bY"
#define UNION                                                                 \
    "let all = (aX - ax) * (aY - ay) + (bX - bx) * (bY - by) - inter; "
#define INTERSECTION                                                          \
    "let w = min(aX, bX) - max(ax, bx); let h = min(aY, bY) - max(ay, by); "  \
    "let inter = where(w < 0, 0, w) * where(h < 0, 0, h); " UNION             \
    "let iou = inter / all; "
#define AROUND /* the smallest box around both */                             \
    "let wide = max(aX, bX) - min(ax, bx); "                                  \
    "let high = max(aY, bY) - min(ay, by); "
#define CLAMPED_AROUND                                                        \
    AROUND "let cw = where(wide < 0, 0, wide); "                              \
           "let ch = where(high < 0, 0, high); "
#define CENTERS                                                               \
    "let dx = (ax + aX) / 2 - (bx + bX) / 2; "                                \
    "let dy = (ay + aY) / 2 - (by + bY) / 2; "
#define ASPECT                                                                \
    "let angle = atan((aX - ax) / (aY - ay)) - atan((bX - bx) / (bY - by)); " \
    "let v = 4 / (pi * pi) * angle * angle; "                                 \
    "let alpha = stop(v / (1 - iou + v + eps)); "
/* The losses divide by the area of the union plus eps. */
#define LOSS_INTERSECTION                                                     \
    "let left = max(ax, bx); let top = max(ay, by); "                         \
    "let right = min(aX, bX); let bottom = min(aY, bY); "                     \
    "let inter = where(bottom > top && right > left, "                        \
    "(right - left) * (bottom - top), 0); " UNION                             \
    "let iou = inter / (all + eps); " AROUND
#define LOSS_DISTANCE                                                         \
    CENTERS "let far = 1 - iou + (dx * dx + dy * dy) / "                      \
            "(wide * wide + high * high + eps); "

/* A formula: the call that applies it, and the definition of its operator, which
 * is named "media_" and the call. */
typedef struct formula {
    const char *call, *name, *text;
    const tn_op *op;
} formula;
#define FORMULA(call, parameters, body)                                       \
    {#call, "media_" #call, "media_" #call BOXES parameters ") = " body, NULL}
#define DISTANCE                                                              \
    INTERSECTION CLAMPED_AROUND CENTERS                                       \
    "let near = iou - (dx * dx + dy * dy) / (cw * cw + ch * ch + eps); "

static formula iou = FORMULA(box_iou, "", INTERSECTION "iou");
static formula generalized =
    FORMULA(generalized_box_iou, "", INTERSECTION CLAMPED_AROUND
            "let area = cw * ch; iou - (area - all) / area");
static formula distance = FORMULA(distance_box_iou, "; eps", DISTANCE "near");
static formula complete =
    FORMULA(complete_box_iou, "; eps", DISTANCE ASPECT "near - alpha * v");
static formula generalized_loss =
    FORMULA(generalized_box_iou_loss, "; eps", LOSS_INTERSECTION
            "let area = wide * high; 1 - (iou - (area - all) / (area + eps))");
static formula distance_loss =
    FORMULA(distance_box_iou_loss, "; eps", LOSS_INTERSECTION LOSS_DISTANCE
            "far");
static formula complete_loss =
    FORMULA(complete_box_iou_loss, "; eps", LOSS_INTERSECTION LOSS_DISTANCE
            ASPECT "far + alpha * v");

/* Checks a pair of lists of boxes. */
static bool check_pair(const char *call, tn_tensor *a, tn_tensor *b)
{
    const tn__box_rule rule[] = {{"boxes1", a, TN__ANY_NUMBER, -1, 4},
                                 {"boxes2", b, TN__ANY_NUMBER, -1, 4}};
    if (!tn__box_check(call, rule, 2))
        return false;
    if (tn_tensor_dtype(a) == tn_tensor_dtype(b))
        return true;
    const tn_given given[] = {{"boxes2", b}, {"boxes1", a}};
    tn_error_refuse(TN_ERR_DTYPE, call, given, 2,
                    "boxes2 has dtype %s, but boxes1 has %s; convert one with "
                    "tn_to_dtype",
                    tn_dtype_name(tn_tensor_dtype(b)),
                    tn_dtype_name(tn_tensor_dtype(a)));
    return false;
}

/* Applies a formula to boxes a (..., N, 4) and b (..., M, 4), for each pair of
 * boxes. */
static tn_tensor *each_pair(formula *f, tn_tensor *a, tn_tensor *b, int format,
                            double eps)
{
    for (int i = 0; i < 2; i++) {
        tn_tensor *x = i ? b : a;
        const tn_given given = {i ? "boxes2" : "boxes1", x};
        if (tn_tensor_ndim(x) < 2) {
            tn_error_refuse(TN_ERR_SHAPE, f->call, &given, 1,
                            "%s has the shape (4,); expected (..., N, 4): pass "
                            "tn_unsqueeze() of it, a list of one box",
                            given.argument);
            return NULL;
        }
    }
    const bool pending = tn_error() != NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *in[8], *out = NULL;
    a = tn_unsqueeze(to_xyxy(tn__box_upcast(a), format), -2);
    b = tn_unsqueeze(to_xyxy(tn__box_upcast(b), format), -3);
    if (split(a, in) && split(b, in + 4))
        out = tn__box_apply(f->text, &f->op, in, &eps);
    if (!pending)
        tn_error_rename(f->name, f->call, NULL);
    return tn_scope_result(scope, out);
}

tn_tensor *tn_box_iou_with(tn_tensor *boxes1, tn_tensor *boxes2,
                           const tn_box_iou_options *options)
{
    tn_box_iou_options o;
    if (tn_options_take(tn_box_iou_type(), &o, options) < 0 ||
        !check_pair("box_iou", boxes1, boxes2))
        return NULL;
    const int format = format_of("box_iou", "fmt", o.fmt);
    return format < 0 ? NULL : each_pair(&iou, boxes1, boxes2, format, 0);
}

tn_tensor *tn_generalized_box_iou(tn_tensor *boxes1, tn_tensor *boxes2)
{
    return check_pair("generalized_box_iou", boxes1, boxes2)
               ? each_pair(&generalized, boxes1, boxes2, XYXY, 0)
               : NULL;
}

/* Checks the option eps: a number that is not negative. */
static bool check_eps(const char *call, double eps)
{
    if (eps >= 0)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "eps",
                             "eps is %g; expected at least 0", eps);
    return false;
}

tn_tensor *tn_distance_box_iou_with(tn_tensor *boxes1, tn_tensor *boxes2,
                                    const tn_distance_box_iou_options *options)
{
    tn_distance_box_iou_options o;
    return tn_options_take(tn_distance_box_iou_type(), &o, options) >= 0 &&
                   check_pair(distance.call, boxes1, boxes2) &&
                   check_eps(distance.call, o.eps)
               ? each_pair(&distance, boxes1, boxes2, XYXY, o.eps)
               : NULL;
}

tn_tensor *tn_complete_box_iou_with(tn_tensor *boxes1, tn_tensor *boxes2,
                                    const tn_complete_box_iou_options *options)
{
    tn_complete_box_iou_options o;
    return tn_options_take(tn_complete_box_iou_type(), &o, options) >= 0 &&
                   check_pair(complete.call, boxes1, boxes2) &&
                   check_eps(complete.call, o.eps)
               ? each_pair(&complete, boxes1, boxes2, XYXY, o.eps)
               : NULL;
}

/* ---- losses -------------------------------------------------------------- */

/* Applies a formula to box i of a and box i of b. */
static tn_tensor *loss(formula *f, tn_tensor *a, tn_tensor *b, double eps,
                       const char *reduction)
{
    if (!check_pair(f->call, a, b) || !check_eps(f->call, eps) ||
        !tn__box_reduction_is_known(f->call, reduction))
        return NULL;
    bool fits = tn_tensor_ndim(a) == tn_tensor_ndim(b);
    for (int d = 0; fits && d < tn_tensor_ndim(a); d++)
        fits = tn_tensor_size(a, d) == tn_tensor_size(b, d);
    if (!fits) {
        const tn_given given[] = {{"boxes2", b}, {"boxes1", a}};
        tn_error_refuse(TN_ERR_SHAPE, f->call, given, 2,
                        "boxes1 and boxes2 have different shapes");
        return NULL;
    }
    const bool pending = tn_error() != NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *in[8], *out = NULL;
    a = tn__box_upcast(a);
    b = tn__box_upcast(b);
    if (tn_tensor_dtype(a) == TN_I32 || tn_tensor_dtype(a) == TN_I64) {
        a = tn_to_dtype(a, TN_F32);
        b = tn_to_dtype(b, TN_F32);
    }
    if (split(a, in) && split(b, in + 4))
        out = tn__box_apply(f->text, &f->op, in, &eps);
    if (!pending)
        tn_error_rename(f->name, f->call, NULL);
    return tn_scope_result(scope, out ? tn__box_reduce(f->call, out, reduction)
                                      : NULL);
}

tn_tensor *tn_generalized_box_iou_loss_with(
    tn_tensor *boxes1, tn_tensor *boxes2,
    const tn_generalized_box_iou_loss_options *options)
{
    tn_generalized_box_iou_loss_options o;
    return tn_options_take(tn_generalized_box_iou_loss_type(), &o, options) < 0
               ? NULL
               : loss(&generalized_loss, boxes1, boxes2, o.eps, o.reduction);
}

tn_tensor *
tn_distance_box_iou_loss_with(tn_tensor *boxes1, tn_tensor *boxes2,
                              const tn_distance_box_iou_loss_options *options)
{
    tn_distance_box_iou_loss_options o;
    return tn_options_take(tn_distance_box_iou_loss_type(), &o, options) < 0
               ? NULL
               : loss(&distance_loss, boxes1, boxes2, o.eps, o.reduction);
}

tn_tensor *
tn_complete_box_iou_loss_with(tn_tensor *boxes1, tn_tensor *boxes2,
                              const tn_complete_box_iou_loss_options *options)
{
    tn_complete_box_iou_loss_options o;
    return tn_options_take(tn_complete_box_iou_loss_type(), &o, options) < 0
               ? NULL
               : loss(&complete_loss, boxes1, boxes2, o.eps, o.reduction);
}

tn_tensor *
tn_sigmoid_focal_loss_with(tn_tensor *inputs, tn_tensor *targets,
                           const tn_sigmoid_focal_loss_options *options)
{
    const char *call = "sigmoid_focal_loss";
    static const tn_op *op;
    tn_sigmoid_focal_loss_options o;
    const tn__box_rule rule[] = {{"inputs", inputs, TN__FLOATING, -2, -1},
                                 {"targets", targets, TN__FLOATING, -2, -1}};
    if (tn_options_take(tn_sigmoid_focal_loss_type(), &o, options) < 0 ||
        !tn__box_check(call, rule, 2) ||
        !tn__box_reduction_is_known(call, o.reduction))
        return NULL;
    if (!((o.alpha >= 0 && o.alpha <= 1) || o.alpha == -1)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "alpha",
                                 "alpha is %g; expected 0 to 1, or -1 for no "
                                 "weights",
                                 o.alpha);
        return NULL;
    }
    if (!(o.gamma >= 0)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "gamma",
                                 "gamma is %g; expected at least 0", o.gamma);
        return NULL;
    }
    const tn_given given[] = {{"targets", targets}, {"inputs", inputs}};
    bool fits = tn_tensor_ndim(inputs) == tn_tensor_ndim(targets);
    for (int d = 0; fits && d < tn_tensor_ndim(inputs); d++)
        fits = tn_tensor_size(inputs, d) == tn_tensor_size(targets, d);
    if (!fits || tn_tensor_dtype(inputs) != tn_tensor_dtype(targets)) {
        tn_error_refuse(fits ? TN_ERR_DTYPE : TN_ERR_SHAPE, call, given, 2,
                        "inputs and targets have different %s",
                        fits ? "dtypes" : "shapes");
        return NULL;
    }
    /* max(x, 0) - x t + log1p(exp(-|x|)) is the cross entropy of the logit */
    const char *text =
        "media_focal_loss(x, t; alpha, gamma) = let p = sigmoid(x); "
        "let entropy = max(x, 0) - x * t + log1p(exp(-abs(x))); "
        "let hit = p * t + (1 - p) * (1 - t); "
        "let weight = alpha * t + (1 - alpha) * (1 - t); "
        "where(alpha < 0, 1, weight) * entropy * pow(1 - hit, gamma)";
    tn_scope *scope = tn_scope_open();
    tn_tensor *out = tn__box_apply(text, &op, (tn_tensor *[]){inputs, targets},
                                   (double[]){o.alpha, o.gamma});
    return tn_scope_result(scope, out ? tn__box_reduce(call, out, o.reduction)
                                      : NULL);
}
