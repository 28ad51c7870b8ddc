/* config_rope.c: reads the parameters of rotary embeddings: rope_parameters, or
 * in older files rope_theta and rope_scaling. */
#include <lm/model/spec.h>

#include <math.h>
#include <string.h>
#include <tenon/base.h>

static bool is_null(const tn__json_value *value)
{
    return !value || value->kind == TN__JSON_NULL;
}

/* Reads the numbers whose names are in a table. */
static bool read_numbers(const tn__lm_config *config, const tn__json_value *at,
                         tn__lm_rope *rope)
{
    const struct {
        const char *name;
        double *to;
    } numbers[] = {{"rope_theta", &rope->base},
                   {"factor", &rope->factor},
                   {"low_freq_factor", &rope->low_freq_factor},
                   {"high_freq_factor", &rope->high_freq_factor},
                   {"beta_fast", &rope->beta_fast},
                   {"beta_slow", &rope->beta_slow},
                   {"attention_factor", &rope->attention_factor},
                   {"mscale", &rope->mscale},
                   {"mscale_all_dim", &rope->mscale_all_dim}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const tn__json_value *value = tn__json_get(at, numbers[i].name);
        if (!is_null(value) &&
            (!tn__json_real(value, numbers[i].to) || !isfinite(*numbers[i].to)))
            return tn__lm_refuse(config, numbers[i].name, "expected a number");
    }
    return true;
}

static bool read_factors(const tn__lm_config *config, const tn__json_value *at,
                         const char *name, int64_t count, double *to)
{
    const tn__json_value *list = tn__json_get(at, name);
    if (!tn__json_is(list, TN__JSON_LIST) || (int64_t)list->count != count)
        return tn__lm_refuse(config, name,
                             "expected a number for each rotated pair");
    TN__JSON_EACH(item, list)
    {
        if (!tn__json_real(item, to) || !(*to > 0))
            return tn__lm_refuse(config, name, "expected positive numbers");
        to++;
    }
    return true;
}

/* Checks that the object has only members that are known. */
static bool check_names(const tn__lm_config *config, const tn__json_value *at)
{
    static const char *const names[] = {"rope_type",
                                        "type",
                                        "rope_theta",
                                        "factor",
                                        "low_freq_factor",
                                        "high_freq_factor",
                                        "beta_fast",
                                        "beta_slow",
                                        "attention_factor",
                                        "mscale",
                                        "mscale_all_dim",
                                        "truncate",
                                        "short_factor",
                                        "long_factor",
                                        "original_max_position_embeddings",
                                        "partial_rotary_factor",
                                        NULL};
    TN__JSON_EACH(member, at)
    {
        int i = 0;
        while (names[i] && strcmp(names[i], member->key) != 0)
            i++;
        if (!names[i] && !is_null(member)) {
            char key[160];
            tn_format(key, sizeof key, "rope_parameters.%.100s", member->key);
            return tn__lm_refuse(config, key, "this key is not supported");
        }
    }
    return true;
}

static bool read_dim(const tn__lm_config *config, const tn__json_value *at,
                     const tn__lm_spec *spec, tn__lm_rope *rope)
{
    static const char *const names[] = {"partial_rotary_factor", "rotary_pct"};
    double part = 1;
    const tn__json_value *value = tn__json_get(at, names[0]);
    for (int i = 0; i < 2 && is_null(value); i++)
        value = tn__json_get(config->root, names[i]);
    if (!is_null(value) &&
        (!tn__json_real(value, &part) || !(part > 0 && part <= 1)))
        return tn__lm_refuse(config, names[0], "expected a number up to 1");
    rope->dim = (int64_t)((double)spec->head_dim * part);
    if (rope->dim < 2 || rope->dim % 2 || rope->dim > 2 * TN__LM_MAX_FACTORS)
        return tn__lm_refuse(
            config, names[0],
            "the rotated part of a head must be an even number "
            "of elements, at most 256");
    return true;
}

static bool read_original(const tn__lm_config *config, const tn__json_value *at,
                          tn__lm_rope *rope)
{
    static const char name[] = "original_max_position_embeddings";
    const tn__json_value *value = tn__json_get(at, name);
    if (is_null(value))
        value = tn__json_get(config->root, name);
    if (is_null(value)) {
        rope->original = rope->longest;
        return true;
    }
    if (!tn__json_is(value, TN__JSON_INTEGER) || value->integer < 1)
        return tn__lm_refuse(config, name, "expected a positive integer");
    rope->original = value->integer;
    return true;
}

bool tn__lm_read_rope(const tn__lm_config *config, const tn__json_value *at,
                      double base, tn__lm_spec *spec, tn__lm_rope *rope)
{
    if (!is_null(at) && at->kind != TN__JSON_OBJECT)
        return tn__lm_refuse(config, "rope_parameters", "expected an object");
    *rope = (tn__lm_rope){.base = base,
                          .factor = 1,
                          .low_freq_factor = 1,
                          .high_freq_factor = 4,
                          .beta_fast = 32,
                          .beta_slow = 1,
                          .attention_factor = -1,
                          .truncate = true,
                          .longest = spec->positions};
    const char *type = tn__json_text(tn__json_get(at, "rope_type"));
    if (!type)
        type = tn__json_text(tn__json_get(at, "type"));
    rope->scaling = type ? tn__lm_scaling_of(type) : TN__LM_ROPE_NONE;
    if (rope->scaling == TN__LM_ROPE_SCALINGS)
        return tn__lm_refuse(config, "rope_type",
                             "this rotary scaling is not supported");
    if (tn__json_is(tn__json_get(at, "truncate"), TN__JSON_FALSE))
        rope->truncate = false;
    if (!check_names(config, at) || !read_numbers(config, at, rope) ||
        !read_dim(config, at, spec, rope) || !read_original(config, at, rope))
        return false;
    if (rope->scaling == TN__LM_ROPE_LONG) {
        rope->has_factors = true;
        if (is_null(tn__json_get(at, "factor")) && rope->original)
            rope->factor = (double)rope->longest / (double)rope->original;
        if (!read_factors(config, at, "short_factor", rope->dim / 2,
                          rope->short_factor) ||
            !read_factors(config, at, "long_factor", rope->dim / 2,
                          rope->long_factor))
            return false;
    }
    if (!(rope->base > 0) || !(rope->factor > 0))
        return tn__lm_refuse(config, "rope_parameters",
                             "rope_theta and factor must be positive");
    if (rope->scaling == TN__LM_ROPE_LLAMA3 &&
        !(rope->high_freq_factor > rope->low_freq_factor))
        return tn__lm_refuse(config, "rope_parameters",
                             "high_freq_factor must be above low_freq_factor");
    if (rope->scaling == TN__LM_ROPE_DYNAMIC && rope->dim < 4)
        return tn__lm_refuse(config, "rope_parameters",
                             "dynamic scaling needs at least 4 rotated "
                             "elements");
    return true;
}
