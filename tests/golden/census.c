/* census.c: counts different kernel sources; see census.h. */
#include "census.h"

#include <device/device.h>
#include <source/source.h>
#include <source/plan/class.h>
#include <kernel/program_hash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hash sets of keys --------------------------------------------------- */

typedef struct keys {
    uint64_t (*key)[2]; /* {0, 0}: unused entry */
    size_t count, room;
} keys;

static size_t place_of(const keys *s, const uint64_t key[2])
{
    size_t i = (size_t)key[0] & (s->room - 1);
    while ((s->key[i][0] || s->key[i][1]) &&
           (s->key[i][0] != key[0] || s->key[i][1] != key[1]))
        i = (i + 1) & (s->room - 1);
    return i;
}

static void add(keys *s, const uint64_t key[2])
{
    if (s->count * 2 >= s->room) {
        keys grown = {.room = s->room ? 2 * s->room : 1024};
        grown.key = calloc(grown.room, sizeof *grown.key);
        if (!grown.key) {
            printf("Bail out! out of memory\n");
            exit(1);
        }
        for (size_t i = 0; i < s->room; i++)
            if (s->key[i][0] || s->key[i][1])
                add(&grown, s->key[i]);
        free(s->key);
        *s = grown;
    }
    size_t i = place_of(s, key);
    if (s->key[i][0] || s->key[i][1])
        return;
    memcpy(s->key[i], key, sizeof s->key[i]);
    s->count++;
}

/* ---- keys of programs ---------------------------------------------------- */

/* A key is a hash of the parts of a program that its kernel source depends on.
 * Each key includes more parts than the one before; the last three are TEXT
 * with some parts left out. */
enum { STRUCTURE, COMPUTED, STORED, CONSTANTS, TEXT, ANY_RANK, ANY_STRIDE,
       F32_TEXT, PRIMITIVE, KINDS };

static keys seen[KINDS];

/* Adds an instruction's operation to the hash; its dtype and constant on
 * request. */
static void add_instruction(uint64_t h[2], const tn_kernel_ins *ins,
                            bool with_dtype, bool with_constant)
{
    tn_kernel_ins x = *ins;
    if (x.op == TN_K_CONST) {
        x.imm.i = with_constant ? x.imm.i : 0;
        x.sub = with_constant ? x.sub : 0;
    }
    if (!with_dtype)
        x.dtype = 0;
    if (!with_dtype && x.op == TN_K_NARROW)
        x.sub = 0; /* sub is a dtype here */
    tn__hash_ins(h, &x);
}

static void key_of(const tn_program *p, int kind, uint64_t h[2])
{
    bool dtypes = kind >= COMPUTED, constants = kind >= CONSTANTS;
    h[0] = p->ins_count;
    h[1] = p->operand_count;
    for (uint32_t i = 0; i < p->ins_count; i++)
        add_instruction(h, &p->ins[i], dtypes, constants);
    for (uint32_t f = 0; f < p->fn_count; f++)
        for (uint32_t i = 0; i < p->fn[f].ins_count; i++)
            add_instruction(h, &p->fn[f].ins[i], dtypes, constants);
    for (uint32_t k = 0; k < p->operand_count; k++)
        tn__hash_word(h, p->operand[k].access |
                             (uint64_t)p->operand[k].level << 8 |
                             (uint64_t)p->operand[k].index_count << 16 |
                             (kind >= STORED
                                  ? (uint64_t)p->operand[k].dtype << 32 : 0));
    tn__hash_finish(h);
}

static bool is_f32(const tn_program *p)
{
    bool any = false, other = false;
    for (uint32_t k = 0; k < p->operand_count; k++) {
        tn_dtype dtype = (tn_dtype)p->operand[k].dtype;
        any = any || dtype == TN_F32;
        other = other || (tn_dtype_is_floating(dtype) && dtype != TN_F32);
    }
    return any && !other;
}

static const tn_target target = {
    .size = sizeof target,
    .flags = TN_TARGET_F64 | TN_TARGET_CHUNKED | TN_TARGET_EXACT_DIVIDE,
    .units = 2, .group_limit = 4096, .argument_room = 1024,
    .fault_room = 4096, .local_bytes = 32768};

static void count_text(const tn_program *p, const tn_plan *plan)
{
    uint64_t h[2];
    for (int kind = STRUCTURE; kind <= CONSTANTS; kind++) {
        key_of(p, kind, h);
        add(&seen[kind], h);
    }
    add(&seen[TEXT], plan->key);
    if (is_f32(p))
        add(&seen[F32_TEXT], plan->key);
    tn__launch_class class = tn__launch_class_unpack(plan->variant);
    for (int any = ANY_RANK; any <= ANY_STRIDE; any++) {
        memcpy(h, p->key, sizeof h);
        tn__hash_word(h, any == ANY_RANK ? 0 : class.outer | class.row << 8);
        tn__hash_word(h, any == ANY_STRIDE
                             ? 0 : class.zero | (uint64_t)class.is_unit << 32);
        tn__hash_word(h, class.is_wide | (uint32_t)class.in_buffer << 1 |
                             (uint32_t)class.is_short << 2);
        tn__hash_finish(h);
        add(&seen[any], h);
    }
}

/* ---- wrapped functions of the plugin ------------------------------------- */

static tn_device *watched;
static const tn_plugin *plugin;
static tn_plugin counting;

/* Built programs and their kernel sources. Kernels are never freed. */
static struct {
    const tn_built *built;
    const tn_program *program;
} pair[16384];
static size_t pair_count;

static tn_status build(tn_plugin_device *device, const tn_program *program,
                       tn_built **built)
{
    tn_status status = plugin->program_build(device, program, built);
    if (status == TN_OK && pair_count == sizeof pair / sizeof *pair) {
        printf("Bail out! census.c: too many programs\n");
        exit(1);
    }
    if (status == TN_OK) {
        pair[pair_count].built = *built;
        pair[pair_count++].program = program;
    }
    return status;
}

static tn_status launch(tn_queue *queue, tn_built *built,
                        const tn_launch *args)
{
    tn_plan plan = {.size = sizeof plan};
    for (size_t i = pair_count; i-- > 0;)
        if (pair[i].built == built) {
            if (tn__plan_program(&target, pair[i].program, args, &plan) ==
                TN_OK && plan.group_count)
                count_text(pair[i].program, &plan);
            break;
        }
    return plugin->launch(queue, built, args);
}

#define PRIMITIVE(name)                                                       \
    static tn_status name(tn_queue *queue, const tn_##name##_args *args)      \
    {                                                                         \
        tn_plan plan = {.size = sizeof plan};                                 \
        if (tn__plan_##name(&target, args, &plan) == TN_OK)                   \
            add(&seen[PRIMITIVE], plan.key);                                  \
        return plugin->name(queue, args);                                     \
    }
PRIMITIVE(matmul)
PRIMITIVE(scatter)
PRIMITIVE(scan)
PRIMITIVE(sort)
#undef PRIMITIVE

void census_watch(tn_device *device)
{
    watched = device;
    plugin = device->plugin;
    counting = *plugin;
    counting.program_build = build;
    counting.launch = launch;
    counting.matmul = matmul;
    counting.scatter = scatter;
    counting.scan = scan;
    counting.sort = sort;
    device->plugin = &counting;
}

void census_leave(void)
{
    watched->plugin = plugin;
    for (int kind = 0; kind < KINDS; kind++)
        free(seen[kind].key);
    memset(seen, 0, sizeof seen);
}

void census_print(void)
{
    printf("# programs: %zu structures; %zu by the types that are computed in, "
           "%zu by those that are stored, %zu by their constants; %zu texts by "
           "the class of the launch (%zu if ranks did not tell them apart, %zu "
           "if unit and zero strides did not)\n",
           seen[STRUCTURE].count, seen[COMPUTED].count, seen[STORED].count,
           seen[CONSTANTS].count, seen[TEXT].count, seen[ANY_RANK].count,
           seen[ANY_STRIDE].count);
    printf("# of these texts %zu are of float32; the primitives have %zu "
           "more\n", seen[F32_TEXT].count, seen[PRIMITIVE].count);
}
