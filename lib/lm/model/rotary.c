/* rotary.c: rotary position embedding (arXiv:2104.09864) and its scalings.
 *
 * The frequencies, cos and sin are computed here on the host in double. This is
 * cheap: each token needs a few dozen of them. */
#include <base/nearest.h>
#include <lm/model/layers.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/op.h>
#include <tenon/ops.h>

/* ---- frequencies --------------------------------------------------------- */

static double plain_frequency(const tn__lm_rope *r, int64_t i, double base)
{
    return pow(base, -2.0 * (double)i / (double)r->dim);
}

/* YaRN (arXiv:2309.00071): low frequencies are interpolated, high frequencies
 * are unchanged, and those between are a mixture of both. */
static double yarn_frequency(const tn__lm_rope *r, int64_t i)
{
    const double turns[2] = {r->beta_fast, r->beta_slow}, pi = acos(-1);
    double bound[2], last = (double)r->dim - 1;
    for (int b = 0; b < 2; b++)
        bound[b] = (double)r->dim *
                   log((double)r->original / (turns[b] * 2 * pi)) /
                   (2 * log(r->base));
    if (r->truncate) {
        bound[0] = floor(bound[0]);
        bound[1] = ceil(bound[1]);
    }
    bound[0] = fmax(bound[0], 0);
    bound[1] = fmin(bound[1], last);
    double width = bound[1] - bound[0];
    double slow = ((double)i - bound[0]) / (width == 0 ? 0.001 : width);
    slow = fmin(fmax(slow, 0), 1);
    double f = plain_frequency(r, i, r->base);
    return f / r->factor * slow + f * (1 - slow);
}

/* Llama 3.1: low frequencies are divided by factor, high frequencies are
 * unchanged. */
static double llama3_frequency(const tn__lm_rope *r, int64_t i)
{
    double f = plain_frequency(r, i, r->base);
    double turns = (double)r->original * f / (2 * acos(-1));
    if (turns < r->low_freq_factor)
        return f / r->factor;
    if (turns > r->high_freq_factor)
        return f;
    double smooth = (turns - r->low_freq_factor) /
                    (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * f / r->factor + smooth * f;
}

static double frequency(const tn__lm_rope *r, int64_t i, int64_t length)
{
    double base = r->base;
    switch (r->scaling) {
    case TN__LM_ROPE_LINEAR:
        return plain_frequency(r, i, base) / r->factor;
    case TN__LM_ROPE_YARN:
        return yarn_frequency(r, i);
    case TN__LM_ROPE_LLAMA3:
        return llama3_frequency(r, i);
    case TN__LM_ROPE_LONG: {
        const double *factor =
            length > r->original ? r->long_factor : r->short_factor;
        return plain_frequency(r, i, base) / factor[i];
    }
    case TN__LM_ROPE_DYNAMIC:
        if (length > r->longest)
            base *= pow(r->factor * (double)length / (double)r->longest -
                            (r->factor - 1),
                        (double)r->dim / (double)(r->dim - 2));
        return plain_frequency(r, i, base);
    default:
        return plain_frequency(r, i, base);
    }
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* Returns the factor by which cos and sin are multiplied (attention
 * scaling). */
static double amplitude(const tn__lm_rope *r)
{
    bool yarn = r->scaling == TN__LM_ROPE_YARN;
    if (!yarn && r->scaling != TN__LM_ROPE_LONG)
        return 1;
    if (r->attention_factor >= 0)
        return r->attention_factor;
    if (!yarn)
        return r->factor <= 1
                   ? 1
                   : sqrt(1 + log(r->factor) / log((double)r->original));
    if (r->mscale != 0 && r->mscale_all_dim != 0)
        return yarn_scale(r->factor, r->mscale) /
               yarn_scale(r->factor, r->mscale_all_dim);
    return yarn_scale(r->factor, 1);
}

bool tn__lm_rope_same(const tn__lm_rope *r, int64_t a, int64_t b)
{
    switch (r->scaling) {
    case TN__LM_ROPE_LONG:
        return (a > r->original) == (b > r->original);
    case TN__LM_ROPE_DYNAMIC:
        return a == b || (a <= r->longest && b <= r->longest);
    default:
        return true;
    }
}

bool tn__lm_rope_tables(const tn__lm_rope *rope, const int64_t *positions,
                        const int64_t *lengths, int64_t count, tn_dtype dtype,
                        bool is_signed, tn_tensor **out_cos,
                        tn_tensor **out_sin)
{
    TN__ROUND_NEAREST;
    const int64_t half = rope->dim / 2, dim = rope->dim;
    const float sign = is_signed ? -1 : 1;
    double step[TN__LM_MAX_FACTORS], scale = amplitude(rope);
    float *table = malloc((size_t)(2 * count * dim + 1) * sizeof *table);
    if (!table) {
        tn_error_set(TN_ERR_MEMORY, "lm_rotary: out of memory");
        return false;
    }
    float *cosines = table, *sines = table + count * dim;
    for (int64_t t = 0; t < count; t++) {
        for (int64_t i = 0; i < half && (!t || lengths[t] != lengths[t - 1]);
             i++)
            step[i] = frequency(rope, i, lengths[t]);
        for (int64_t i = 0; i < half; i++) {
            /* in float32, as in transformers */
            double angle = (double)((float)positions[t] * (float)step[i]);
            float c = (float)(cos(angle) * scale),
                  s = (float)(sin(angle) * scale);
            cosines[t * dim + i] = cosines[t * dim + half + i] = c;
            sines[t * dim + i] = sign * s;
            sines[t * dim + half + i] = s;
        }
    }
    *out_cos = tn__lm_in_dtype(
        tn_tensor_from_array(cosines, TN_F32, tn_dims(count, dim)), dtype);
    *out_sin = tn__lm_in_dtype(
        tn_tensor_from_array(sines, TN_F32, tn_dims(count, dim)), dtype);
    free(table);
    return *out_cos && *out_sin;
}

tn_tensor *tn__lm_rotate(tn_tensor *x, tn_tensor *cos_, tn_tensor *sin_)
{
    static const tn_op *turn[2];
    if (!tn_op_define_once("lm_rotary_first(x, y, c, s) = x * c - y * s",
                           &turn[0]) ||
        !tn_op_define_once("lm_rotary_second(x, y, c, s) = y * c + x * s",
                           &turn[1]))
        return NULL;
    const int64_t half = tn_tensor_size(cos_, -1) / 2,
                  all = tn_tensor_size(x, -1);
    cos_ = tn_unsqueeze(cos_, 1);
    sin_ = tn_unsqueeze(sin_, 1);
    tn_tensor *xy[] = {tn_narrow(x, -1, 0, half), tn_narrow(x, -1, half, half)};
    tn_tensor *part[3];
    for (int i = 0; i < 2; i++) {
        tn_tensor *in[] = {xy[0], xy[1], tn_narrow(cos_, -1, i * half, half),
                           tn_narrow(sin_, -1, i * half, half)};
        part[i] = tn_op_apply(turn[i], in, NULL);
    }
    if (2 * half < all)
        part[2] = tn_narrow(x, -1, 2 * half, all - 2 * half);
    return tn_cat(part, 2 * half < all ? 3 : 2, -1);
}

tn_tensor *tn__lm_rotary_partner(int64_t dim)
{
    int64_t partner[2 * TN__LM_MAX_FACTORS];
    for (int64_t i = 0; i < dim; i++)
        partner[i] = (i + dim / 2) % dim;
    return tn_tensor_from_array(partner, TN_I64, tn_dims(dim));
}

tn_tensor *tn__lm_rotate_rows(tn_tensor *x, tn_tensor *cos_, tn_tensor *sin_,
                              tn_tensor *partner)
{
    static const tn_op *turn;
    if (!tn_op_define_once("lm_rotary_rows(x, y, c, s, p) = x * c + y[p] * s",
                           &turn))
        return NULL;
    tn_tensor *in[] = {x, tn_unsqueeze(x, 2), cos_, sin_, partner};
    return tn_op_apply(turn, in, NULL);
}

/* ---- the layer ----------------------------------------------------------- */

typedef struct rotary {
    tn_module base;
    tn__lm_rope rope;
} rotary;

static bool tables_of(const rotary *r, tn_tensor *x, tn_tensor *positions,
                      tn_tensor **cos_, tn_tensor **sin_)
{
    int64_t time = tn_tensor_size(x, -3), longest = 0;
    int64_t *at = calloc((size_t)time * 2 + 1, sizeof *at);
    bool fine = at != NULL;
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "lm_rotary: out of memory");
    for (int64_t t = 0; fine && !positions && t < time; t++)
        at[t] = t;
    if (fine && positions)
        fine = tn_tensor_to_array(positions, at, (size_t)time * sizeof *at) ==
               TN_OK;
    for (int64_t t = 0; fine && t < time; t++)
        longest = at[t] >= longest ? at[t] + 1 : longest;
    for (int64_t t = 0; fine && t < time; t++)
        at[time + t] = longest;
    fine = fine && tn__lm_rope_tables(&r->rope, at, at + time, time,
                                      tn_tensor_dtype(x), false, cos_, sin_);
    free(at);
    return fine;
}

static void rotary_forward(tn_module *self, tn_tensor *const *in, int in_count,
                           tn_tensor **out, int out_count)
{
    rotary *r = (rotary *)self;
    tn_tensor *x = in[0], *positions = in[1], *cos_, *sin_;
    (void)in_count, (void)out_count;
    if (tn_error())
        return;
    if (tn_tensor_ndim(x) < 3 || tn_tensor_size(x, -1) < r->rope.dim ||
        !tn_dtype_is_floating(tn_tensor_dtype(x))) {
        tn_error_refuse(TN_ERR_SHAPE, "lm_rotary", &(tn_given){"x", x}, 1,
                        "expected a floating-point x of (..., time, heads, "
                        "head_dim) whose head_dim is at least %" PRId64,
                        r->rope.dim);
        return;
    }
    if (positions && (tn_tensor_dtype(positions) != TN_I64 ||
                      tn_tensor_numel(positions) != tn_tensor_size(x, -3))) {
        tn_error_refuse(TN_ERR_SHAPE, "lm_rotary",
                        &(tn_given){"positions", positions}, 1,
                        "expected an int64 position for each of the %" PRId64
                        " time steps of x",
                        tn_tensor_size(x, -3));
        return;
    }
    if (tables_of(r, x, positions, &cos_, &sin_))
        out[0] = tn__lm_rotate(x, cos_, sin_);
}

static void rotary_describe(const tn_module *self, char *text, size_t room)
{
    const rotary *r = (const rotary *)self;
    tn_format(text, room, "%" PRId64 ", base=%g", r->rope.dim, r->rope.base);
}

static const tn_module_class rotary_class = {.size = sizeof rotary_class,
                                             .name = "RotaryEmbedding",
                                             .bytes = sizeof(rotary),
                                             .forward_list = rotary_forward,
                                             .describe = rotary_describe,
                                             .signature = "x, positions? -> y"};

TN_OPTIONS_TYPE(tn_lm_rotary, "lm_rotary", "dim", TN_LM_ROTARY_OPTIONS_LIST)

static bool refuse(const char *argument, double value, const char *expected)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, "lm_rotary", argument,
                             "%s is %.15g; expected %s", argument, value,
                             expected);
    return false;
}

static bool check(int64_t dim, const tn_lm_rotary_options *o,
                  tn__lm_scaling scaling)
{
    if (dim < 2 || dim % 2 || dim > 2 * TN__LM_MAX_FACTORS)
        return refuse("dim", (double)dim, "an even number from 2 to 256");
    if (scaling == TN__LM_ROPE_SCALINGS)
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, "lm_rotary", "scaling",
                   "scaling is \"%.60s\"; expected \"none\", \"linear\", "
                   "\"dynamic\", \"yarn\", \"longrope\" or \"llama3\"",
                   o->scaling),
               false;
    if (!(o->base > 0) || !isfinite(o->base))
        return refuse("base", o->base, "a finite number above 0");
    if (!(o->factor > 0) || !isfinite(o->factor))
        return refuse("factor", o->factor, "a finite number above 0");
    if (scaling >= TN__LM_ROPE_DYNAMIC && o->original_positions < 1)
        return refuse("original_positions", (double)o->original_positions,
                      "at least 1 with this scaling");
    if (scaling == TN__LM_ROPE_DYNAMIC && dim < 4)
        return refuse("dim", (double)dim,
                      "at least 4 with scaling \"dynamic\"");
    if (scaling == TN__LM_ROPE_LONG && (!o->short_factor || !o->long_factor))
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, "lm_rotary",
                   o->short_factor ? "long_factor" : "short_factor",
                   "%s is NULL; scaling \"longrope\" needs it",
                   o->short_factor ? "long_factor" : "short_factor"),
               false;
    if (scaling == TN__LM_ROPE_LLAMA3 &&
        !(o->high_freq_factor > o->low_freq_factor))
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, "lm_rotary", "high_freq_factor",
                   "high_freq_factor is %g; expected more than "
                   "low_freq_factor, %g", o->high_freq_factor,
                   o->low_freq_factor),
               false;
    return true;
}

tn_module *tn_lm_rotary_with(int64_t dim, const tn_lm_rotary_options *options)
{
    tn_lm_rotary_options o;
    if (tn_options_take(tn_lm_rotary_type(), &o, options) < 0)
        return NULL;
    tn__lm_scaling scaling = tn__lm_scaling_of(o.scaling);
    if (!check(dim, &o, scaling))
        return NULL;
    rotary *r = tn_module_new(&rotary_class);
    if (!r)
        return NULL;
    r->rope = (tn__lm_rope){
        .dim = dim,
        .base = o.base,
        .scaling = scaling,
        .factor = o.factor,
        .low_freq_factor = o.low_freq_factor,
        .high_freq_factor = o.high_freq_factor,
        .beta_fast = o.beta_fast,
        .beta_slow = o.beta_slow,
        .attention_factor =
            tn_is_none_float(o.attention_factor) ? -1 : o.attention_factor,
        .mscale = o.mscale,
        .mscale_all_dim = o.mscale_all_dim,
        .truncate = o.truncate,
        .original = o.original_positions,
        .longest = o.original_positions};
    if (scaling == TN__LM_ROPE_LONG) {
        size_t bytes = (size_t)(dim / 2) * sizeof(double);
        memcpy(r->rope.short_factor, o.short_factor, bytes);
        memcpy(r->rope.long_factor, o.long_factor, bytes);
    }
    return &r->base;
}
