/* run_case.c: runs a program on a plugin and in the interpreter, and compares
 * the results. */
#include "run_case.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "random_source.h"

/* The number of guard bytes before and after an operand in its buffer. They
 * reveal writes outside the operand, also if the case itself has no margin.
 * GUARD is a multiple of every element size. */
enum { GUARD = 64, GUARD_BYTE = 0xa5 };

/* The results of running a case. */
typedef struct outcome {
    tn_status status;
    tn_fault fault;
    unsigned char *memory[RANDOM_MAX_OPERANDS]; /* contents of each operand's
                                                 * buffer, with GUARD bytes on
                                                 * both sides; operands that
                                                 * share memory also share the
                                                 * array */
} outcome;

static bool has_memory(const random_case *c, uint32_t k)
{
    return c->home[k] == k && c->operand[k].access != TN_OPERAND_OFFSET;
}

static size_t guarded_bytes(const random_case *c, uint32_t k)
{
    return c->bytes[k] + 2 * GUARD;
}

static bool outcome_init(outcome *o, const random_case *c)
{
    *o = (outcome){.status = TN_OK};
    for (uint32_t k = 0; k < c->program.operand_count; k++) {
        if (!has_memory(c, k)) {
            o->memory[k] = o->memory[c->home[k]];
            continue;
        }
        o->memory[k] = malloc(guarded_bytes(c, k));
        if (!o->memory[k])
            return false;
        memset(o->memory[k], GUARD_BYTE, guarded_bytes(c, k));
        memcpy(o->memory[k] + GUARD, c->data[k], c->bytes[k]);
    }
    return true;
}

static void outcome_fini(outcome *o, const random_case *c)
{
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        if (has_memory(c, k))
            free(o->memory[k]);
}

static void run_oracle(const random_case *c, outcome *o)
{
    void *memory[RANDOM_MAX_OPERANDS] = {NULL};
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        if (o->memory[k])
            memory[k] = o->memory[k] + GUARD;
    o->fault = (tn_fault){.size = sizeof o->fault};
    o->status = tn__interpret(&c->program, &c->launch, memory, &o->fault);
}

/* ---- the plugin --------------------------------------------------------- */

/* Launches by the extension "launch-list", if the plugin has it and this program
 * is one that tests it: half of the programs are. Else returns false. */
static bool launch_by_list(const by_hand *h, const random_case *c,
                           tn_built *built, const tn_launch *launch,
                           tn_status *status)
{
    const tn_launch_list_extension *lists =
        h->plugin->extension ? h->plugin->extension("launch-list", 1) : NULL;
    if (!lists || !(c->program.key[0] & 1))
        return false;
    const tn_launch_item item = {built, launch};
    tn_launch_list *list = NULL;
    *status = lists->prepare(h->queue, &item, 1, &list);
    if (*status == TN_OK) {
        *status = lists->run(h->queue, list, launch->tag);
        lists->release(h->device, list);
    }
    return true;
}

/* Builds and launches the case, waits for it, and copies all memory back.
 * Returns false if a call failed that must not fail. */
static bool run_launch(const by_hand *h, const random_case *c, outcome *o,
                       tn_buffer **buffer, char *why, size_t room)
{
    tn_launch_operand operand[RANDOM_MAX_OPERANDS];
    for (uint32_t k = 0; k < c->program.operand_count; k++) {
        operand[k] = c->launch_operand[k];
        operand[k].buffer = buffer[c->home[k]];
        if (c->operand[k].access != TN_OPERAND_OFFSET)
            operand[k].offset +=
                GUARD / (int64_t)random_dtype_bytes(c->operand[k].dtype);
    }
    tn_launch launch = c->launch;
    launch.operand = operand;

    tn_built *built = NULL;
    tn_status status = h->plugin->program_build(h->device, &c->program, &built);
    if (status != TN_OK) {
        snprintf(why, room, "program_build returns %d: %s", status,
                 by_hand_failure());
        return false;
    }
    if (!launch_by_list(h, c, built, &launch, &status))
        status = h->plugin->launch(h->queue, built, &launch);
    o->fault = (tn_fault){.size = sizeof o->fault};
    o->status = h->plugin->queue_sync(h->queue, &o->fault);
    h->plugin->program_free(h->device, built);
    if (status != TN_OK && status != o->status) {
        snprintf(why, room, "launch returns %d, queue_sync %d: %s", status,
                 o->status, by_hand_failure());
        return false;
    }
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        if (has_memory(c, k) &&
            by_hand_copy(h, buffer[k], 0, o->memory[k], guarded_bytes(c, k),
                         false) != TN_OK) {
            snprintf(why, room, "copy to the host: %s", by_hand_failure());
            return false;
        }
    return true;
}

static bool run_plugin(const by_hand *h, const random_case *c, outcome *o,
                       char *why, size_t room)
{
    tn_buffer *buffer[RANDOM_MAX_OPERANDS] = {NULL};
    bool done = true;
    for (uint32_t k = 0; k < c->program.operand_count && done; k++)
        if (has_memory(c, k)) {
            done = h->plugin->buffer_alloc(h->device, guarded_bytes(c, k),
                                           &buffer[k]) == TN_OK &&
                   by_hand_copy(h, buffer[k], 0, o->memory[k],
                                guarded_bytes(c, k), true) == TN_OK;
            if (!done)
                snprintf(why, room, "memory of operand %u: %s", k,
                         by_hand_failure());
        }
    done = done && run_launch(h, c, o, buffer, why, room);
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        if (buffer[k])
            h->plugin->buffer_free(h->device, buffer[k]);
    return done;
}

/* ---- the comparison ----------------------------------------------------- */

static void hex_of(char *hex, const unsigned char *element, size_t size)
{
    for (size_t i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02x", element[size - 1 - i]);
}

static bool guards_stand(const random_case *c, uint32_t k, const outcome *o,
                         char *why, size_t room)
{
    for (size_t i = 0; i < GUARD; i++) {
        const unsigned char *before = o->memory[k] + GUARD - 1 - i;
        const unsigned char *behind = o->memory[k] + GUARD + c->bytes[k] + i;
        if (*before != GUARD_BYTE || *behind != GUARD_BYTE) {
            snprintf(why, room, "writes %zu bytes %s the memory of operand %u",
                     i + 1, *before != GUARD_BYTE ? "before" : "behind", k);
            return false;
        }
    }
    return true;
}

static bool same_memory(const random_case *c, uint32_t k, const outcome *got,
                        const outcome *want, char *why, size_t room)
{
    int64_t at = random_case_difference(c, k, got->memory[k] + GUARD,
                                        want->memory[k] + GUARD);
    if (at < 0)
        return true;
    size_t size = random_case_element_bytes(c, k);
    char hex[2][20] = {"", ""};
    hex_of(hex[0], got->memory[k] + GUARD + (size_t)at * size, size);
    hex_of(hex[1], want->memory[k] + GUARD + (size_t)at * size, size);
    snprintf(why, room,
             "memory of operand %u, element %" PRId64 ": got 0x%s, want 0x%s",
             k, at, hex[0], hex[1]);
    return false;
}

static bool compare(const random_case *c, const outcome *got,
                    const outcome *want, char *why, size_t room)
{
    if (got->status != want->status) {
        snprintf(why, room, "status %d, not %d%s%s", got->status, want->status,
                 *by_hand_failure() ? ": " : "", by_hand_failure());
        return false;
    }
    if (want->status == TN_ERR_INDEX &&
        (got->fault.position != want->fault.position ||
         got->fault.tag != want->fault.tag)) {
        snprintf(why, room,
                 "index fault at %" PRId64 " of launch %" PRIu64
                 ", not at %" PRId64 " of %" PRIu64,
                 got->fault.position, got->fault.tag, want->fault.position,
                 want->fault.tag);
        return false;
    }
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        if (has_memory(c, k) && !(guards_stand(c, k, got, why, room) &&
                                  same_memory(c, k, got, want, why, room)))
            return false;
    return true;
}

bool run_case(const by_hand *h, const random_case *c, char *why, size_t room)
{
    outcome want, got = {.status = TN_OK};
    bool same = outcome_init(&want, c) && outcome_init(&got, c);
    if (!same)
        snprintf(why, room, "tenon-plugin-check itself ran out of memory");
    by_hand_forget();
    if (same) {
        run_oracle(c, &want);
        same = run_plugin(h, c, &got, why, room) &&
               compare(c, &got, &want, why, room);
    }
    outcome_fini(&want, c);
    outcome_fini(&got, c);
    return same;
}

/* ---- what a device can do ----------------------------------------------- */

static bool ins_fit(const by_hand *h, const tn_kernel_ins *ins, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ins[i].dtype != TN_DTYPE_NONE && /* the instruction ENDLOOP has no
                                                dtype */
            !(h->info.register_types >> ins[i].dtype & 1))
            return false;
    return true;
}

bool run_case_fits(const by_hand *h, const random_case *c)
{
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        if (c->operand[k].access != TN_OPERAND_OFFSET &&
            !(h->info.storage_types >> c->operand[k].dtype & 1))
            return false;
    for (uint32_t f = 0; f < c->program.fn_count; f++)
        if (!ins_fit(h, c->fn[f].ins, c->fn[f].ins_count))
            return false;
    return ins_fit(h, c->ins, c->program.ins_count);
}
