/* launches.c: checks that queue_sync reports the first of several failed
 * launches once, and that a program may be freed while it runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kernel/kernel.h"
#include "memory_guard.h"
#include "one_case.h"
#include "process.h"
#include "run_case.h"

/* ---- a case on the device ----------------------------------------------- */

/* A case with its operands in buffers on the device. In this file each operand
 * has its own buffer. */
typedef struct placed {
    const random_case *c;
    tn_buffer *buffer[RANDOM_MAX_OPERANDS];
    tn_launch_operand operand[RANDOM_MAX_OPERANDS];
    tn_launch launch;
} placed;

static bool well(tn_status status, const char *what)
{
    return expect(status == TN_OK, "%s returns %d: %s", what, status,
                  by_hand_failure());
}

static bool place(const by_hand *h, const random_case *c, placed *p)
{
    *p = (placed){.c = c, .launch = c->launch};
    for (uint32_t k = 0; k < c->program.operand_count; k++) {
        p->operand[k] = c->launch_operand[k];
        if (!well(h->plugin->buffer_alloc(h->device, c->bytes[k],
                                          &p->buffer[k]),
                  "buffer_alloc") ||
            !well(by_hand_copy(h, p->buffer[k], 0, c->data[k], c->bytes[k],
                               true),
                  "a copy to the device"))
            return false;
        p->operand[k].buffer = p->buffer[k];
    }
    p->launch.operand = p->operand;
    return true;
}

static void remove_placed(const by_hand *h, placed *p)
{
    for (uint32_t k = 0; k < p->c->program.operand_count; k++)
        h->plugin->buffer_free(h->device, p->buffer[k]);
}

/* Launches a program and checks the returned status. If the program has an
 * index out of range, a synchronous device may return TN_ERR_INDEX at once. */
static bool launched(const by_hand *h, tn_built *built, const placed *p,
                     uint64_t tag, bool faults)
{
    tn_launch launch = p->launch;
    launch.tag = tag;
    tn_status status = h->plugin->launch(h->queue, built, &launch);
    return expect(status == TN_OK || (faults && status == TN_ERR_INDEX),
                  "launch %llu returns %d: %s", (unsigned long long)tag, status,
                  by_hand_failure());
}

/* ---- faults ------------------------------------------------------------- */

/* Runs the case in the interpreter, in the case's own memory. Returns the fault
 * that the interpreter reports. */
static tn_fault fault_of(const random_case *c)
{
    void *memory[RANDOM_MAX_OPERANDS] = {NULL};
    tn_fault fault = {.size = sizeof fault};
    for (uint32_t k = 0; k < c->program.operand_count; k++)
        memory[k] = c->data[k];
    tn__interpret(&c->program, &c->launch, memory, &fault);
    return fault;
}

static void expect_fault(const tn_fault *got, const tn_fault *want,
                         uint64_t tag)
{
    expect(got->code == TN_ERR_INDEX, "the fault's code is %d, not %d",
           got->code, TN_ERR_INDEX);
    expect(got->tag == tag, "the fault has the tag of launch %llu, not %llu",
           (unsigned long long)got->tag, (unsigned long long)tag);
    expect(got->position == want->position && got->index == want->index &&
               got->extent == want->extent && got->operand == want->operand &&
               got->dim == want->dim,
           "the fault is index %lld of operand %u, dimension %u, extent %lld, "
           "at %lld; not index %lld of operand %u, dimension %u, extent %lld, "
           "at %lld",
           (long long)got->index, got->operand, got->dim,
           (long long)got->extent, (long long)got->position,
           (long long)want->index, want->operand, want->dim,
           (long long)want->extent, (long long)want->position);
}

/* Makes two launches that fail, with one between them that does not. The fault
 * of the first must be reported. */
static void first_fault(int argument)
{
    (void)argument;
    by_hand h;
    placed bad, good;
    tn_built *built[2] = {NULL};
    if (!open_device(&h))
        return;
    random_case *c[2] = {one_gather_case(2, true, false, TN_F32),
                         one_gather_case(2, false, false, TN_F32)};
    if (!expect(c[0] && c[1], "tenon-plugin-check itself ran out of memory"))
        return;
    const tn_fault want = fault_of(c[0]);
    trying("launch 7 with an index fault, 8 without, 9 with one; queue_sync");
    if (!place(&h, c[0], &bad) || !place(&h, c[1], &good))
        return;
    for (int i = 0; i < 2; i++)
        if (!well(h.plugin->program_build(h.device, &c[i]->program, &built[i]),
                  "program_build"))
            return;
    tn_fault fault = {.size = sizeof fault};
    if (!launched(&h, built[0], &bad, 7, true) ||
        !launched(&h, built[1], &good, 8, false) ||
        !launched(&h, built[0], &bad, 9, true))
        return;
    tn_status status = h.plugin->queue_sync(h.queue, &fault);
    if (expect(status == TN_ERR_INDEX, "queue_sync returns %d, not %d", status,
               TN_ERR_INDEX))
        expect_fault(&fault, &want, 7);
    trying("queue_sync again");
    status = h.plugin->queue_sync(h.queue, &fault);
    expect(status == TN_OK, "returns %d: the fault is reported twice", status);
    trying("launch 10 without a fault, queue_sync");
    if (launched(&h, built[1], &good, 10, false))
        well(h.plugin->queue_sync(h.queue, &fault), "queue_sync");
    for (int i = 0; i < 2; i++) {
        h.plugin->program_free(h.device, built[i]);
        remove_placed(&h, i ? &good : &bad);
        random_case_free(c[i]);
    }
    by_hand_close(&h);
}

/* Passes tn_fault structs of the sizes that older and newer hosts use. */
static void fault_sizes(int argument)
{
    (void)argument;
    static const uint32_t sizes[] = {
        TN_END(tn_fault, extent), sizeof(tn_fault), sizeof(tn_fault) + 8,
        sizeof(tn_fault) + 4000};
    by_hand h;
    placed p;
    tn_built *built = NULL;
    if (!open_device(&h))
        return;
    random_case *c = one_gather_case(1, true, false, TN_F32);
    if (!expect(c != NULL, "tenon-plugin-check itself ran out of memory"))
        return;
    const tn_fault want = fault_of(c);
    if (!place(&h, c, &p) ||
        !well(h.plugin->program_build(h.device, &c->program, &built),
              "program_build"))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tn_fault fault = {.size = sizeof fault};
        trying("a launch with an index fault, queue_sync with a tn_fault of %u "
               "bytes", sizes[i]);
        if (!launched(&h, built, &p, 5 + i, true))
            return;
        guard_next_bytes(sizes[i]);
        tn_status status = h.plugin->queue_sync(h.queue, &fault);
        expect(status == TN_ERR_INDEX, "queue_sync returns %d, not %d", status,
               TN_ERR_INDEX);
        if (sizes[i] >= sizeof fault)
            expect_fault(&fault, &want, 5 + i);
    }
    h.plugin->program_free(h.device, built);
    remove_placed(&h, &p);
    random_case_free(c);
    by_hand_close(&h);
}

/* ---- programs ----------------------------------------------------------- */

enum { LARGE = 4 << 20, COPIES = 12 };

/* Checks that operand k's memory on the device has the contents `want`, which
 * the interpreter computed. */
static void expect_result(const by_hand *h, const placed *p, uint32_t k,
                          const void *want)
{
    unsigned char *got = malloc(p->c->bytes[k]);
    if (expect(got != NULL, "tenon-plugin-check itself ran out of memory") &&
        well(by_hand_copy(h, p->buffer[k], 0, got, p->c->bytes[k], false),
             "a copy to the host")) {
        int64_t at = random_case_difference(p->c, k, got, want);
        expect(at < 0, "element %lld of the stored result differs from the "
                       "interpreter's", (long long)at);
    }
    free(got);
}

/* Builds a program twice and frees the first build. The second must still work.
 * Then frees the second while its launch is pending after long work, and
 * overwrites the program's description as soon as program_free has returned. */
static void freed_programs(int argument)
{
    (void)argument;
    by_hand h;
    placed p;
    tn_built *built[2] = {NULL};
    if (!open_device(&h))
        return;
    random_case *c = one_gather_case(1, false, false, TN_F32);
    unsigned char *memory = calloc(1, LARGE);
    tn_buffer *large = NULL;
    if (!expect(c && memory, "tenon-plugin-check itself ran out of memory"))
        return;
    tn_program *program = malloc(sizeof *program);
    tn_kernel_ins *ins = malloc(c->program.ins_count * sizeof *ins);
    if (!expect(program && ins, "tenon-plugin-check itself ran out of memory"))
        return;
    if (!place(&h, c, &p))
        return;
    fault_of(c); /* runs the interpreter, so that c->data[2] holds the expected
                    result */
    memcpy(ins, c->program.ins, c->program.ins_count * sizeof *ins);
    *program = c->program;
    program->ins = ins;
    trying("program_build twice of one program, program_free of the first, "
           "launch of the second");
    process_watch_freed(true);
    for (int i = 0; i < 2; i++)
        if (!well(h.plugin->program_build(h.device, program, &built[i]),
                  "program_build"))
            return;
    h.plugin->program_free(h.device, built[0]);
    if (!launched(&h, built[1], &p, 1, false))
        return;
    tn_fault fault = {.size = sizeof fault};
    well(h.plugin->queue_sync(h.queue, &fault), "queue_sync");
    expect_result(&h, &p, 2, c->data[2]);

    trying("launch after other work, program_free before the launch has run, "
           "then queue_sync");
    const tn_copy_args copy = {.size = sizeof copy,
                               .direction = TN_COPY_TO_DEVICE,
                               .host = memory,
                               .bytes = LARGE,
                               .rows = 1};
    if (!well(h.plugin->buffer_alloc(h.device, LARGE, &large),
              "buffer_alloc") ||
        !well(by_hand_copy(&h, p.buffer[2], 0, memory, c->bytes[2], true),
              "a copy to the device"))
        return;
    for (int i = 0; i < COPIES; i++) {
        tn_copy_args one = copy;
        one.dst = large;
        if (!well(h.plugin->copy(h.queue, &one), "copy"))
            return;
    }
    if (!launched(&h, built[1], &p, 2, false))
        return;
    h.plugin->program_free(h.device, built[1]);
    memset(ins, 0xee, c->program.ins_count * sizeof *ins);
    memset(program, 0xee, sizeof *program);
    well(h.plugin->queue_sync(h.queue, &fault), "queue_sync");
    h.plugin->buffer_free(h.device, large);
    memset(c->data[2], 0, c->bytes[2]);
    fault_of(c);
    expect_result(&h, &p, 2, c->data[2]);
    remove_placed(&h, &p);
    by_hand_close(&h);
    long written = process_watch_freed(false);
    expect(written == 0, "writes to memory that it has freed (%ld blocks)",
           written);
    random_case_free(c);
    free(program);
    free(ins);
    free(memory);
}

static const check of_launches[] = {
    {2, "first fault",
     "queue_sync reports the first failure since the last sync: that of the "
     "launch that was submitted first, with its tag",
     .body = first_fault},
    {2, "fault sizes",
     "tn_fault is filled only up to its size, and fields that the plugin does "
     "not know become 0",
     .body = fault_sizes},
    {2, "programs freed",
     "each built program is a separate object; program_free may be called "
     "while a launch runs, and then waits or frees later",
     .body = freed_programs},
};

int launch_checks(check *list, int count)
{
    return check_add_all(list, count, of_launches,
                         sizeof of_launches / sizeof *of_launches);
}
