/* distribution_file.c: checks the file of two distributions p and q of one
 * kind: log_prob and entropy of p, the KL divergence, and the gradients by all
 * parameters. */
#include "golden.h"

#include <string.h>

enum { SIDES = 2, MOST = 2 };

typedef struct pair {
    tn_safetensors *file;
    tn_tensor *leaf[SIDES * MOST]; /* parameters of p, then of q */
    char key[SIDES * MOST][32];    /* keys in the file, such as "p.loc" */
    int count;                     /* number of parameters of each
                                    * distribution */
    tn_distribution *side[SIDES];
} pair;

static tn_distribution *make(const char *kind, const char *first, tn_tensor *a,
                             tn_tensor *b)
{
    const bool logits = strcmp(first, "logits") == 0;
    if (strcmp(kind, "Normal") == 0)
        return tn_distribution_normal(a, b);
    if (strcmp(kind, "Uniform") == 0)
        return tn_distribution_uniform(a, b);
    if (strcmp(kind, "Bernoulli") == 0)
        return tn_distribution_bernoulli(logits ? NULL : a, logits ? a : NULL);
    if (strcmp(kind, "Categorical") == 0)
        return tn_distribution_categorical(logits ? NULL : a,
                                           logits ? a : NULL);
    return NULL;
}

static bool read_pair(pair *at)
{
    const char *kind = tn_safetensors_metadata(at->file, "distribution");
    const char *text = tn_safetensors_metadata(at->file, "parameters");
    json_t *names = json_loads(text ? text : "[]", 0, NULL);
    at->count = (int)json_array_size(names);
    for (int s = 0; s < SIDES && at->count >= 1 && at->count <= MOST; s++) {
        tn_tensor **leaf = at->leaf + s * at->count;
        for (int i = 0; i < at->count; i++) {
            char *key = at->key[s * at->count + i];
            snprintf(key, sizeof at->key[0], "%c.%s", "pq"[s],
                     json_string_value(json_array_get(names, (size_t)i)));
            leaf[i] =
                tn_requires_grad(tn_clone(golden_tensor(at->file, key, NULL)));
        }
        at->side[s] = make(kind, json_string_value(json_array_get(names, 0)),
                           leaf[0], at->count > 1 ? leaf[1] : NULL);
    }
    json_decref(names);
    return at->side[0] && at->side[1];
}

static void compare(verdict *v, const pair *at, const char *key, tn_tensor *got)
{
    char why[300];
    tn_tensor *want = golden_tensor(at->file, key, NULL);
    if (tn_error())
        verdict_fail(v, "%s: %s", key, tn_error());
    else if (!golden_equal(got, want,
                           tolerance_for("distribution", tn_tensor_dtype(want)),
                           why, sizeof why))
        verdict_fail(v, "%s: %s", key, why);
}

/* Compares a result, and those of its gradients that the file has. */
static void check(verdict *v, const pair *at, const char *name, tn_tensor *out)
{
    char key[80];
    compare(v, at, name, out);
    snprintf(key, sizeof key, "%s.cotangent", name);
    if (v->failed || !tn_safetensors_has(at->file, key))
        return;
    tn_tensor *grad[SIDES * MOST];
    tn_tensor *cotangent = golden_tensor(at->file, key, NULL);
    const int count = SIDES * at->count;
    tn_grad(out, at->leaf, count, grad, .gradient = cotangent,
            .allow_unused = true);
    for (int i = 0; i < count && !v->failed; i++) {
        snprintf(key, sizeof key, "%s.grad.%s", name, at->key[i]);
        if (tn_safetensors_has(at->file, key))
            compare(v, at, key,
                    grad[i] || tn_error() ? grad[i]
                                          : tn_zeros_like(at->leaf[i]));
    }
}

verdict distribution_file_run(tn_safetensors *file)
{
    verdict v = {0};
    pair at = {.file = file};
    if (!read_pair(&at)) {
        v.unsupported = !tn_error();
        if (tn_error())
            verdict_fail(&v, "%s", tn_error());
        else
            snprintf(v.detail, sizeof v.detail, "no such distribution");
        return v;
    }
    check(&v, &at, "log_prob",
          tn_distribution_log_prob(at.side[0],
                                   golden_tensor(file, "value", NULL)));
    if (!v.failed)
        check(&v, &at, "entropy", tn_distribution_entropy(at.side[0]));
    if (!v.failed)
        check(&v, &at, "kl", tn_distribution_kl(at.side[0], at.side[1]));
    v.passed = !v.failed;
    return v;
}
