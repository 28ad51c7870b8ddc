/* compiled.c: a function is called by itself and compiled, and both must leave
 * the same bits. */
#include "compiled.h"

#include <same_bits.h>
#include <stdio.h>
#include <string.h>

enum { WAYS = 2, MOST = TN_COMPILE_MAX_OUTPUTS, KEPT = 4 };

/* What one way has after a call. */
typedef struct result {
    tn_tensor *in[MOST], *out[MOST], *state[COMPILED_MOST_STATE];
    int state_count;
    tn_rng_state random;
    char error[400]; /* "" if the call succeeded */
} result;

/* ---- calls --------------------------------------------------------------- */

/* Calls the function in a scope of its own, as a compiled call does. */
static void call_plain(const subject *s, result *r)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *out[MOST] = {NULL};
    const tn_status status =
        s->fn(r->in, s->in_count, out, s->out_count, s->plain);
    if (status < 0 || tn_error())
        snprintf(r->error, sizeof r->error, "%s",
                 tn_error() ? tn_error() : tn_status_name(status));
    tn_error_clear();
    for (int o = 0; o < s->out_count && !*r->error; o++)
        r->out[o] = tn_keep(out[o]);
    tn_scope_close(scope);
}

static void call_compiled(const subject *s, tn_compiled *compiled, result *r)
{
    if (tn_compiled_run(compiled, r->in, s->in_count, r->out, s->out_count) < 0)
        snprintf(r->error, sizeof r->error, "%s", tn_error());
    tn_error_clear();
    for (int o = 0; o < s->out_count && !*r->error; o++)
        tn_keep(r->out[o]);
}

static bool call_way(const subject *s, tn_compiled *compiled, int call,
                     result *r)
{
    void *context = compiled ? s->compiled : s->plain;
    memset(r, 0, sizeof *r);
    if (!s->inputs(context, call, r->in))
        return false;
    const bool mode = tn_grad_mode_set(!s->no_grad);
    if (compiled)
        call_compiled(s, compiled, r);
    else
        call_plain(s, r);
    tn_grad_mode_set(mode);
    r->random = tn_rng_snapshot();
    if (s->after && !*r->error)
        s->after(context);
    if (s->state)
        r->state_count = s->state(context, r->state);
    return true;
}

/* ---- comparison ---------------------------------------------------------- */

static bool all_same(const char *what, tn_tensor **x, tn_tensor **y, int count,
                     char *text, size_t room)
{
    for (int i = 0; i < count; i++)
        if ((x[i] || y[i]) && !same_bits(x[i], y[i])) {
            snprintf(text, room, "%s %d has other bits%s%s", what, i,
                     tn_error() ? ": " : "", tn_error() ? tn_error() : "");
            return false;
        }
    return true;
}

static bool same_result(const subject *s, result way[WAYS], char *text,
                        size_t room)
{
    if (way[0].state_count != way[1].state_count ||
        way[0].random.call != way[1].random.call ||
        way[0].random.seed != way[1].random.seed) {
        snprintf(text, room, "another %s follows",
                 way[0].state_count != way[1].state_count ? "state"
                                                          : "random number");
        return false;
    }
    return all_same("output", way[0].out, way[1].out, s->out_count, text,
                    room) &&
           all_same("input", way[0].in, way[1].in, s->in_count, text, room) &&
           all_same("state", way[0].state, way[1].state, way[0].state_count,
                    text, room);
}

static outcome compare_call(const subject *s, int call, result way[WAYS],
                            char *text, size_t room)
{
    const char *plain = way[0].error, *compiled = way[1].error;
    char why[480] = "";
    outcome found = COMPILED_SAME;
    if (*plain) {
        found = *compiled ? COMPILED_UNFIT : COMPILED_WRONG;
        snprintf(why, sizeof why, "%s%s", plain,
                 *compiled ? "" : "; the compiled function accepts it");
    } else if (*compiled) {
        found = COMPILED_REFUSED;
        snprintf(why, sizeof why, "%s", compiled);
    } else if (!same_result(s, way, why, sizeof why)) {
        found = COMPILED_WRONG;
    }
    if (found == COMPILED_WRONG)
        snprintf(text, room, "call %d: %s", call + 1, why);
    else if (found != COMPILED_SAME)
        snprintf(text, room, "%s", why);
    return found;
}

static outcome compare_calls(const subject *s, tn_compiled *compiled,
                             char *text, size_t room)
{
    static result kept[KEPT][WAYS]; /* static because it has 50 KiB */
    outcome found = COMPILED_SAME;
    int call = 0;
    for (; call < s->calls && found == COMPILED_SAME; call++) {
        result *way = kept[call % KEPT];
        for (int w = 0; w < WAYS && call >= KEPT; w++)
            for (int o = 0; o < s->out_count; o++)
                tn_drop(way[w].out[o]);
        const tn_rng_state random = tn_rng_snapshot();
        const bool made = call_way(s, NULL, call, &way[0]);
        tn_rng_restore(random);
        if (!made || !call_way(s, compiled, call, &way[1])) {
            snprintf(text, room, "inputs: %s", tn_error() ? tn_error() : "");
            return COMPILED_WRONG;
        }
        found = compare_call(s, call, way, text, room);
    }
    /* No call may have changed the outputs of those before it. */
    for (int c = 0; c < KEPT && c < call; c++)
        if (found == COMPILED_SAME &&
            !all_same("an earlier call's output", kept[c][0].out,
                      kept[c][1].out, s->out_count, text, room))
            found = COMPILED_WRONG;
    for (int c = 0; c < KEPT && c < call; c++)
        for (int w = 0; w < WAYS; w++)
            for (int o = 0; o < s->out_count; o++)
                tn_drop(kept[c][w].out[o]);
    return found;
}

outcome compiled_compare(const subject *s, char *text, size_t room)
{
    tn_compiled *compiled = tn_compile(s->fn, s->compiled, .name = s->name,
                                       .freeze = s->freeze);
    if (!compiled) {
        snprintf(text, room, "%s", tn_error());
        return COMPILED_WRONG;
    }
    outcome found = compare_calls(s, compiled, text, room);
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(compiled, &counts);
    if (found == COMPILED_SAME &&
        counts.replays < s->calls - COMPILED_CAPTURES) {
        snprintf(text, room, "%lld replays in %d calls",
                 (long long)counts.replays, s->calls);
        found = COMPILED_WRONG;
    }
    return found;
}

/* ---- what is refused ------------------------------------------------------ */

static const struct {
    const char *name, *reason;
} refusable[] = {
#define HOST(op) {op, "LAPACK computes on the host"},
#include "host.def"
#undef HOST
#define REFUSED(name, reason) {name, reason},
#include "compiled.def"
#undef REFUSED
};
enum { LINES = sizeof refusable / sizeof *refusable };
static long refused[LINES], unfit;
static bool compared[LINES]; /* whether there were samples of that name */

static int line_of(const char *name)
{
    int i = 0;
    while (i < LINES && strcmp(refusable[i].name, name) != 0)
        i++;
    return i;
}

void compiled_count(verdict *v, const char *name, size_t sample, outcome found,
                    const char *text)
{
    const int line = line_of(name);
    if (line < LINES)
        compared[line] = true;
    if (found == COMPILED_SAME) {
        v->passed++;
    } else if (found == COMPILED_UNFIT ||
               (found == COMPILED_REFUSED && line < LINES &&
                strstr(text, "work is being recorded (compiled_run), and a "
                             "replay would not repeat"))) {
        v->unsupported++;
        if (found == COMPILED_UNFIT)
            unfit++;
        else
            refused[line]++;
        if (!v->detail[0])
            snprintf(v->detail, sizeof v->detail, "%s", text);
    } else {
        if (v->failed)
            printf("# %s: sample %zu: %s\n", name, sample, text);
        verdict_fail(v, "sample %zu: %s", sample, text);
    }
}

bool compiled_print_refused(bool all)
{
    bool needed = true;
    for (int i = 0; i < LINES; i++) {
        long total = 0;
        bool first = true;
        for (int k = 0; k < LINES; k++)
            if (strcmp(refusable[k].reason, refusable[i].reason) == 0) {
                first = first && k >= i;
                total += refused[k];
            }
        if (first && total)
            printf("# refused: %ld samples, because %s\n", total,
                   refusable[i].reason);
        if (all && compared[i] && !refused[i]) {
            printf("# %s: no sample is refused; compiled.def and host.def say "
                   "that one is\n", refusable[i].name);
            needed = false;
        }
    }
    if (unfit)
        printf("# %ld samples that the function itself rejects\n", unfit);
    return needed;
}
