/* place_slots.c: assigns memory to the slots of a compiled program, like a
 * register allocator. Slots with disjoint lifetimes share memory. The fewer
 * bytes the slots have per element, the more elements of a block fit in L1.
 * Slots whose elements have different sizes (8, 4 or 1 bytes) never share
 * memory. Therefore a routine may write its result over an operand that it
 * reads for the last time: element i of both has the same address. */
#include <stdlib.h>

#include "code.h"

/* The lifetime of a slot: the index of the operation that first writes it, and
 * the index of the operation that last reads it. */
typedef struct life {
    uint32_t first, last;
} life;

/* Extends the lifetime of a slot so that it includes operation `at`. */
static void see(const cpu_code *code, life *lives, uint32_t slot, uint32_t at)
{
    if (slot == TN_CPU_NONE || code->slot[slot].space != CPU_ELEM)
        return;
    if (lives[slot].first == TN_CPU_NONE)
        lives[slot].first = at;
    lives[slot].last = at;
}

/* Extends lifetimes over loops. If a slot is written before a loop and read in
 * it, its lifetime ends with the loop, because every iteration reads it. */
static void extend_over_loops(const cpu_code *code, life *lives)
{
    for (uint32_t i = code->op_count; i-- > 0;) {
        if (code->op[i].code != CPU_LOOP)
            continue;
        uint32_t end = i + code->op[i].jump;
        for (uint32_t s = 0; s < code->slot_count; s++)
            if (code->slot[s].space == CPU_ELEM && lives[s].first <= i &&
                lives[s].last >= i && lives[s].last < end)
                lives[s].last = end;
    }
}

/* Extends a slot's lifetime to all operations, because later blocks read its
 * value. The slot then shares its memory with no other slot. */
static void keep(const cpu_code *code, life *lives, uint32_t slot)
{
    if (slot != TN_CPU_NONE && code->slot[slot].space == CPU_ELEM)
        lives[slot] = (life){0, code->op_count - 1};
}

/* A value of elements (ELEM slot) that a later part reads gets memory for the
 * whole group of rows: the slot becomes a GROUP slot. */
static tn_status place_group(cpu_code *code, life *lives)
{
    code->group_slot = malloc((code->slot_count + 1u) *
                              sizeof *code->group_slot);
    if (!code->group_slot)
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "program: out of memory while building");
    for (uint32_t s = 0; s < code->slot_count; s++) {
        if (lives[s].first == TN_CPU_NONE)
            continue;
        for (uint32_t i = 0; i < code->stage_count; i++) {
            const cpu_part *part = &code->stage[i].elem;
            uint32_t end = part->first + part->count;
            if (lives[s].first < part->first || lives[s].first >= end ||
                lives[s].last < end)
                continue;
            cpu_slot *slot = &code->slot[s];
            slot->space = CPU_GROUP;
            slot->offset = code->group_bytes;
            code->group_bytes += slot->bytes;
            code->group_slot[code->group_slot_count++] = s;
            lives[s].first = TN_CPU_NONE;
            break;
        }
    }
    /* Later stages read a GROUP slot. Therefore no operation may write its
     * value to the tensor of a STORE instead of to the slot. */
    for (uint32_t i = 0; i < code->op_count; i++)
        if (code->op[i].code == CPU_STORE &&
            code->slot[code->op[i].a].space == CPU_GROUP)
            code->op[i].flags = 0;
    return TN_OK;
}

/* Free memory for slots of one element size. */
typedef struct places {
    uint32_t *spare; /* spare[i]: offset of a slot whose lifetime has ended */
    /* The number of entries of spare, and the element size. */
    uint32_t count, bytes;
} places;

/* Returns the offset of free memory for a slot. If there is none, adds new
 * memory of p->bytes bytes per element. *total is the sum of these bytes. */
static uint32_t take(places *p, uint32_t *total)
{
    if (p->count > 0)
        return p->spare[--p->count];
    uint32_t offset = *total;
    *total += p->bytes;
    return offset;
}

static places *places_of(places *all, unsigned bytes)
{
    return &all[bytes == 8 ? 0 : bytes == 4 ? 1 : 2];
}

/* Assigns an offset to each slot of elements, operation by operation. begin[i]
 * is the head of the linked list of slots whose lifetimes begin at operation i.
 * end[i] is the head of the list of slots whose lifetimes end there.
 * next_begin[slot] and next_end[slot] link the lists. */
static void place(cpu_code *code, const life *lives, uint32_t *next_begin,
                  uint32_t *next_end, uint32_t *begin, uint32_t *end,
                  places *all)
{
    for (uint32_t s = 0; s < code->slot_count; s++) {
        if (lives[s].first == TN_CPU_NONE)
            continue;
        next_begin[s] = begin[lives[s].first];
        begin[lives[s].first] = s;
        next_end[s] = end[lives[s].last];
        end[lives[s].last] = s;
    }
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        /* The result of a mathematical function must not overlap an operand.
         * The result of a broadcast is longer than its operand. Such results
         * get their memory before the memory of their operands is freed. */
        bool apart = op->code != CPU_RUN && op->code != CPU_NATIVE;
        for (int pass = 0; pass < 2; pass++) {
            if ((pass == 0) == apart) {
                for (uint32_t s = begin[i]; s != TN_CPU_NONE;
                     s = next_begin[s])
                    code->slot[s].offset =
                        take(places_of(all, code->slot[s].bytes),
                             &code->elem_bytes);
            } else {
                for (uint32_t s = end[i]; s != TN_CPU_NONE; s = next_end[s])
                    if (lives[s].first < i || pass == 1) {
                        places *p = places_of(all, code->slot[s].bytes);
                        p->spare[p->count++] = code->slot[s].offset;
                    }
            }
        }
        if (!apart) /* also frees the results that no operation reads */
            for (uint32_t s = end[i]; s != TN_CPU_NONE; s = next_end[s])
                if (lives[s].first == i) {
                    places *p = places_of(all, code->slot[s].bytes);
                    p->spare[p->count++] = code->slot[s].offset;
                }
    }
}

tn_status tn__cpu_place_slots(cpu_code *code)
{
    size_t slots = code->slot_count + 1u, ops = code->op_count + 1u;
    life *lives = malloc(slots * sizeof *lives);
    uint32_t *words = malloc((5 * slots + 2 * ops) * sizeof *words);
    tn_status status = TN_OK;
    if (lives && words) {
        for (size_t s = 0; s < slots; s++)
            lives[s] = (life){TN_CPU_NONE, TN_CPU_NONE};
        for (uint32_t i = 0; i < code->op_count; i++) {
            const cpu_op *op = &code->op[i];
            see(code, lives, op->a, i);
            see(code, lives, op->b, i);
            see(code, lives, op->c, i);
            see(code, lives, op->out, i);
            see(code, lives, op->where, i);
            const cpu_segment *s =
                op->code == CPU_NATIVE ? code->segment[op->index] : NULL;
            for (uint32_t j = 0; s && j < s->native.operand_count; j++)
                see(code, lives, s->operand[j].wide, i);
            for (uint32_t j = 0; s && j < s->native.result_count; j++)
                see(code, lives, s->result[j], i);
        }
        extend_over_loops(code, lives);
        for (uint32_t i = 0; code->hoisted && i < code->op_count; i++) {
            const cpu_op *op = &code->op[i];
            keep(code, lives, op->where);
            if (op->hoistable && op->where == TN_CPU_NONE)
                keep(code, lives, op->out);
        }
        status = place_group(code, lives);
        places all[3] = {{words, 0, 8},
                         {words + slots, 0, 4},
                         {words + 2 * slots, 0, 1}};
        uint32_t *begin = words + 5 * slots, *end = begin + ops;
        for (size_t i = 0; i < ops; i++)
            begin[i] = end[i] = TN_CPU_NONE;
        code->elem_bytes = 0;
        place(code, lives, words + 3 * slots, words + 4 * slots, begin, end,
              all);
    } else {
        status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                    "program: out of memory while building");
    }
    free(lives);
    free(words);
    return status;
}
