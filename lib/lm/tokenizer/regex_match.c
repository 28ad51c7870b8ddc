/* regex_match.c: runs a compiled pattern by backtracking, in bounded time.
 *
 * When the current attempt fails, matching continues with the topmost entry of
 * the stack. Because there are no captures and no back references, whether
 * matching succeeds from an instruction at a position depends on nothing else.
 * This makes it possible to remember failures.
 *
 * Once matching in a text has taken many steps, each choice also pushes a MARK
 * below its alternatives. When the MARK becomes the topmost entry, all
 * alternatives have failed. The pair of instruction and position is then
 * remembered as failing, for the rest of the text. When a lookahead matches,
 * the MARKs that are still on the stack are the choices that led to the match.
 * These pairs are remembered as matching. */
#include <lm/tokenizer/regex.h>

#include <stdlib.h>
#include <string.h>
#include <tenon/error.h>

enum { ALTERNATIVE, BACK, MORE, MARK };

typedef struct tn__regex_entry {
    uint32_t pc;
    uint32_t kind;
    size_t at;
    size_t least; /* BACK: the position at which the loop must not give back
                     more characters. MORE: how many more characters the loop
                     may take */
} entry;

#define NO_MATCH SIZE_MAX
#define NO_MEMORY (SIZE_MAX - 1)

void tn__regex_begin(tn__regex_run *run, const unsigned char *text,
                     size_t bytes)
{
    run->text = text;
    run->bytes = bytes;
    run->memo_on = false;
    run->steps = 0;
    run->most_steps = 1024 + 16 * bytes;
}

void tn__regex_run_free(tn__regex_run *run)
{
    free(run->stack);
    free(run->memo);
    *run = (tn__regex_run){0};
}

static bool push(tn__regex_run *run, uint32_t pc, uint32_t kind, size_t at,
                 size_t least)
{
    if (run->count == run->room &&
        !tn__array_grow(&run->stack, &run->room, run->count + 1,
                        sizeof *run->stack))
        return false;
    run->stack[run->count++] = (entry){pc, kind, at, least};
    return true;
}

/* ---- memory of failures -------------------------------------------------- */

static bool remember(const tn__regex *regex, tn__regex_run *run)
{
    size_t bits;
    if (__builtin_mul_overflow(run->bytes + 1, (size_t)regex->points * 2,
                               &bits))
        bits = SIZE_MAX - 64;
    const size_t words = bits / 64 + 1;
    if (!tn__array_grow(&run->memo, &run->memo_room, words,
                        sizeof *run->memo))
        return false;
    memset(run->memo, 0, words * sizeof *run->memo);
    return run->memo_on = true;
}

static size_t memo_bit(const tn__regex *regex, const tn__regex_code *code,
                       size_t at)
{
    return (at * regex->points + code->point) * 2;
}

static bool memo_has(const tn__regex_run *run, size_t bit)
{
    return run->memo[bit >> 6] >> (bit & 63) & 1;
}

static void memo_set(tn__regex_run *run, size_t bit)
{
    run->memo[bit >> 6] |= (uint64_t)1 << (bit & 63);
}

/* ---- matching ------------------------------------------------------------ */

static inline bool take(const tn__regex_run *run, const tn__set *set,
                        size_t *at)
{
    if (*at >= run->bytes)
        return false;
    size_t next = *at;
    if (!tn__set_has(set, tn__utf8_take(run->text, &next)))
        return false;
    *at = next;
    return true;
}

static bool is_word_before(const tn__regex *regex, const tn__regex_run *run,
                           size_t at)
{
    size_t before = at ? tn__utf8_before(run->text, at) : 0;
    return at && take(run, regex->word, &before);
}

static bool holds(const tn__regex *regex, const tn__regex_run *run,
                  const tn__regex_code *code, size_t at)
{
    size_t after = at;
    switch (code->op) {
    case TN__REGEX_LINE_BEGIN: /* a newline at the end of the text does not
                                  begin another line */
        return !at || (run->text[at - 1] == '\n' && at < run->bytes);
    case TN__REGEX_LINE_END:
        return at == run->bytes || run->text[at] == '\n';
    case TN__REGEX_BEGIN:
        return !at;
    case TN__REGEX_END:
        return at == run->bytes;
    case TN__REGEX_LAST_LINE_END:
        return at == run->bytes ||
               (at + 1 == run->bytes && run->text[at] == '\n');
    default:
        return (is_word_before(regex, run, at) !=
                take(run, regex->word, &after)) != code->negative;
    }
}

static size_t match(const tn__regex *regex, tn__regex_run *run, uint32_t pc,
                    size_t at, bool in_look);

/* Runs the body of a lookaround or an atomic group. Returns the end of its
 * match, NO_MATCH or NO_MEMORY. */
static size_t match_body(const tn__regex *regex, tn__regex_run *run,
                         uint32_t pc, size_t at)
{
    const tn__regex_code *code = &regex->code[pc];
    if (code->op == TN__REGEX_LOOK)
        for (int32_t i = 0; i < code->c; i++) {
            if (!at)
                return NO_MATCH;
            at = tn__utf8_before(run->text, at);
        }
    if (code->op == TN__REGEX_LOOK && code[1].op == TN__REGEX_SET &&
        code[2].op == TN__REGEX_ACCEPT) /* a short cut for one character,
                                           because most patterns contain
                                           (?!\S) */
        return take(run, code[1].set, &at) ? at : NO_MATCH;
    const size_t base = run->count;
    const size_t end =
        match(regex, run, pc + 1, at, code->op == TN__REGEX_LOOK);
    if (end < NO_MEMORY && code->op == TN__REGEX_LOOK && run->memo_on)
        for (size_t i = base; i < run->count; i++)
            if (run->stack[i].kind == MARK)
                memo_set(run, memo_bit(regex,
                                       &regex->code[run->stack[i].pc],
                                       run->stack[i].at) +
                                  1);
    run->count = base;
    return end;
}

/* Matches from instruction pc at position `at`. Returns the end of the match,
 * NO_MATCH or NO_MEMORY. After a match, new entries may be left on the stack.
 * in_look is true in the body of a lookaround. */
static size_t match(const tn__regex *regex, tn__regex_run *run, uint32_t pc,
                    size_t at, bool in_look)
{
    const size_t base = run->count;
    for (;;) {
        const tn__regex_code *code = &regex->code[pc];
        size_t end;
        switch (code->op) {
        case TN__REGEX_CHAR:
            if (at < run->bytes) {
                if (code->c < 0x80 ? run->text[at] == code->c
                                   : tn__utf8_take(run->text,
                                                   &(size_t){at}) == code->c) {
                    at += tn__utf8_length(run->text[at]);
                    pc++;
                    continue;
                }
            }
            break;
        case TN__REGEX_SET:
            if (take(run, code->set, &at)) {
                pc++;
                continue;
            }
            break;
        case TN__REGEX_LOOP: {
            int32_t n = 0;
            while (n < code->min && take(run, code->set, &at))
                n++;
            if (n < code->min)
                break;
            const size_t least = at;
            if (code->mode == TN__REGEX_LAZY) {
                if (n < code->max &&
                    !push(run, pc, MORE, at, (size_t)(code->max - n)))
                    return NO_MEMORY;
                pc++;
                continue;
            }
            if (run->memo_on && code->mode == TN__REGEX_GREEDY &&
                code->max == TN__REGEX_NO_LIMIT) {
                bool more = true, known = false;
                while (more) {
                    const size_t bit = memo_bit(regex, code, at);
                    if (memo_has(run, bit) ||
                        (in_look && memo_has(run, bit + 1))) {
                        known = true;
                        break;
                    }
                    if (!push(run, pc, MARK, at, 0) ||
                        !push(run, pc + 1, ALTERNATIVE, at, 0))
                        return NO_MEMORY;
                    more = take(run, code->set, &at);
                }
                if (known && in_look &&
                    memo_has(run, memo_bit(regex, code, at) + 1))
                    return at;
                break; /* continue with the topmost alternative */
            }
            while (n < code->max && take(run, code->set, &at))
                n++;
            if (at > least && code->mode == TN__REGEX_GREEDY &&
                !push(run, pc, BACK, at, least))
                return NO_MEMORY;
            pc++;
            continue;
        }
        case TN__REGEX_SPLIT:
            if (run->memo_on) {
                const size_t bit = memo_bit(regex, code, at);
                if (memo_has(run, bit))
                    break;
                if (in_look && memo_has(run, bit + 1))
                    return at;
                if (!push(run, pc, MARK, at, 0))
                    return NO_MEMORY;
            }
            if (!push(run, code->to, ALTERNATIVE, at, 0))
                return NO_MEMORY;
            pc++;
            continue;
        case TN__REGEX_JUMP:
            pc = code->to;
            continue;
        case TN__REGEX_LOOK:
        case TN__REGEX_ATOMIC:
            end = match_body(regex, run, pc, at);
            if (end == NO_MEMORY)
                return NO_MEMORY;
            if ((end != NO_MATCH) != code->negative) {
                if (code->op == TN__REGEX_ATOMIC)
                    at = end;
                pc = code->to;
                continue;
            }
            break;
        case TN__REGEX_ACCEPT:
            return at;
        default:
            if (holds(regex, run, code, at)) {
                pc++;
                continue;
            }
        }

        /* The attempt has failed. Continue with the topmost entry of the
         * stack. */
        if (++run->steps > run->most_steps && !run->memo_on &&
            !remember(regex, run))
            return NO_MEMORY;
        for (;;) {
            if (run->count == base)
                return NO_MATCH;
            entry *top = &run->stack[run->count - 1];
            if (top->kind != MARK)
                break;
            memo_set(run, memo_bit(regex, &regex->code[top->pc], top->at));
            run->count--;
        }
        entry *top = &run->stack[run->count - 1];
        code = &regex->code[top->pc];
        at = top->at;
        pc = top->pc;
        if (top->kind == ALTERNATIVE) {
            run->count--;
            continue;
        }
        if (top->kind == BACK) {
            at = tn__utf8_before(run->text, at);
            top->at = at;
            if (at <= top->least)
                run->count--;
            pc++;
            continue;
        }
        /* MORE: a lazy loop takes another character */
        const size_t left = top->least - 1;
        run->count--;
        if (!take(run, code->set, &at)) {
            pc = regex->count - 1; /* the instruction that always fails */
            continue;
        }
        if (code->max == TN__REGEX_NO_LIMIT) {
            if (run->memo_on) {
                const size_t bit = memo_bit(regex, code, at);
                if (memo_has(run, bit)) {
                    pc = regex->count - 1;
                    continue;
                }
                if (in_look && memo_has(run, bit + 1))
                    return at;
                if (!push(run, pc, MARK, at, 0))
                    return NO_MEMORY;
            }
            if (!push(run, pc, MORE, at, top->least))
                return NO_MEMORY;
        } else if (left && !push(run, pc, MORE, at, left)) {
            return NO_MEMORY;
        }
        pc++;
    }
}

int tn__regex_find(const tn__regex *regex, tn__regex_run *run, size_t from,
                   size_t not_empty_at, size_t *begin, size_t *end)
{
    for (size_t at = from; at <= run->bytes;) {
        if (regex->first_known) {
            const uint64_t *first = regex->first;
            while (at < run->bytes &&
                   !(first[run->text[at] >> 6] >> (run->text[at] & 63) & 1))
                at++; /* skip bytes inside a character, which are never in
                         first */
            if (at == run->bytes)
                return 0;
        }
        run->count = 0;
        const size_t found = match(regex, run, 0, at, false);
        if (found == NO_MEMORY)
            return -1;
        if (found != NO_MATCH && (found > at || at != not_empty_at)) {
            *begin = at;
            *end = found;
            return 1;
        }
        if (at == run->bytes)
            break;
        at += tn__utf8_length(run->text[at]);
    }
    return 0;
}
