/* Tests the JIT compiler of the cpu plugin: random kernel bodies compared with
 * the precompiled routines, instruction by instruction and bit by bit; sums,
 * minimum and maximum; exp; and a system that rejects executable memory. */
#include <math.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/simd/math_table.h"
#include "../../backends/cpu/jit/native_body.h"
#include "isa_here.h"

/* Not NULL under a sanitizer, which makes the precompiled routines slow. */
extern void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

enum { LINES = 7, MOST = 80, NODES = 160, ROOM = LINES * MOST };

static uint64_t random_state = 20261123;

static uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(random_bits() >> 33) % n;
}

static const uint8_t type_bytes[] = {4, 8, 4, 8, 1};

/* Writes a special value of this type, such as infinity. */
static void fill_value(void *at, unsigned type)
{
    static const double odd[] = {
        0,        -0.0,         1,    -1,   INFINITY, -INFINITY, NAN,
        0x1p-140, 2147483648.0, -3e9, 88.5, -104.5,   0.5,       2.5,
        1e-310,   3e38};
    double real =
        below(3) ? ((double)below(20001) - 10000) / 512 : odd[below(16)];
    float f32 = (float)real;
    int32_t i32 = (int32_t)(below(3) ? below(64) : random_bits());
    int64_t i64 = (int64_t)(below(3) ? below(64) : random_bits());
    uint8_t boolean = below(2) != 0;
    memcpy(at,
           type == CPU_F32   ? (void *)&f32
           : type == CPU_F64 ? (void *)&real
           : type == CPU_I32 ? (void *)&i32
           : type == CPU_I64 ? (void *)&i64
                             : (void *)&boolean,
           type_bytes[type]);
}

static bool same(const char *a, const char *b, unsigned type)
{
    float x, y;
    double u, v;
    if (memcmp(a, b, type_bytes[type]) == 0)
        return true;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (type == CPU_F32)
        return isnan(x) && isnan(y);
    if (type != CPU_F64)
        return false;
    memcpy(&u, a, sizeof u);
    memcpy(&v, b, sizeof v);
    return isnan(u) && isnan(v);
}

/* ---- random bodies ----------------------------------------------------- */

/* A random body, and each node's value as the precompiled routines compute
 * it. */
typedef struct body {
    cpu_native native;
    cpu_node node[NODES];
    char value[NODES][ROOM * 8];
    uint32_t single; /* bit mask of operands that have one value for each row */
} body;

static tn_cpu_routines plain;
static uint8_t native_set; /* the instruction set of the machine code */
static uint8_t arity[TN_K_END];

/* Returns a random node of that type; TN_NONE if there is none. */
static uint32_t pick(const body *b, unsigned type)
{
    uint32_t start = below(b->native.node_count);
    for (uint32_t i = 0; i < b->native.node_count; i++) {
        uint32_t n = (start + i) % b->native.node_count;
        if (b->node[n].type == type)
            return n;
    }
    return TN_NONE;
}

static void add_operand(body *b, unsigned type)
{
    uint32_t i = b->native.node_count, number = b->native.operand_count++;
    b->node[b->native.node_count++] = (cpu_node){.op = TN_K_LOAD,
                                                 .type = (uint8_t)type,
                                                 .a = TN_NONE,
                                                 .b = TN_NONE,
                                                 .c = TN_NONE,
                                                 .number = number};
    for (int k = 0; k < ROOM; k++) {
        char *at = b->value[i] + k * type_bytes[type];
        if ((b->single >> number & 1) && k % MOST > 0)
            memcpy(at, at - type_bytes[type], type_bytes[type]);
        else
            fill_value(at, type);
    }
}

static void add_constant(body *b, unsigned type)
{
    cpu_node *node = &b->node[b->native.node_count];
    char *value = b->value[b->native.node_count++];
    *node = (cpu_node){.op = TN_K_CONST,
                       .type = (uint8_t)type,
                       .a = TN_NONE,
                       .b = TN_NONE,
                       .c = TN_NONE};
    fill_value(&node->bits, type);
    for (int k = 0; k < ROOM; k++)
        memcpy(value + k * type_bytes[type], &node->bits, type_bytes[type]);
}

/* Appends a random instruction that the JIT compiler supports. Returns false if
 * none was found. */
static bool add_instruction(body *b)
{
    unsigned real = b->native.wide ? CPU_F64 : CPU_F32;
    unsigned whole = b->native.wide ? CPU_I64 : CPU_I32;
    const unsigned types[] = {real, real, whole, CPU_BOOL};
    unsigned op = below(TN_K_END), type = types[below(4)], from = type;
    bool compares =
        op == TN_K_EQ || op == TN_K_NE || op == TN_K_LT || op == TN_K_LE;
    if (op == TN_K_CAST || compares)
        from = types[below(4)];
    if (op == TN_K_BITCAST)
        from = type == real ? whole : real;
    if (compares)
        type = CPU_BOOL;
    if (!tn__cpu_native_supports(op, type, from))
        return false;
    tn_cpu_run *run = op == TN_K_CAST                  ? plain.cast[from][type]
                      : compares || op == TN_K_BITCAST ? plain.op[op][from]
                                                       : plain.op[op][type];
    uint32_t in[3] = {TN_NONE, TN_NONE, TN_NONE};
    for (uint32_t i = 0; i < arity[op]; i++) {
        in[i] = pick(b, op == TN_K_SELECT && i == 0 ? CPU_BOOL
                        : op == TN_K_SELECT         ? type
                                                    : from);
        if (in[i] == TN_NONE)
            return false;
    }
    if (!run)
        return false;
    if (op == TN_K_SELECT)
        from = CPU_BOOL;
    uint32_t n = b->native.node_count++;
    b->node[n] = (cpu_node){.op = (uint8_t)op,
                            .type = (uint8_t)type,
                            .from = (uint8_t)from,
                            .a = in[0],
                            .b = in[1],
                            .c = in[2]};
    const char *value[3];
    for (int i = 0; i < 3; i++)
        value[i] = b->value[in[i] == TN_NONE ? in[0] : in[i]];
    if ((op == TN_K_MIN || op == TN_K_MAX) && type == real && below(2)) {
        static char first[ROOM];
        bool most = op == TN_K_MAX;
        b->node[n].sub = CPU_SECOND;
        plain.op[TN_K_LT][real](first, value[most], value[!most], NULL, ROOM,
                                0);
        plain.op[TN_K_SELECT][real](b->value[n], first, value[0], value[1],
                                    ROOM, 0);
        return true;
    }
    run(b->value[n], value[0], value[1], value[2], ROOM, 0);
    return true;
}

static void make_body(body *b)
{
    memset(b, 0, sizeof *b);
    b->native.set = native_set;
    b->native.wide = below(2);
    b->native.node = b->node;
    b->single = (uint32_t)random_bits() & 0x5b;
    unsigned real = b->native.wide ? CPU_F64 : CPU_F32;
    unsigned whole = b->native.wide ? CPU_I64 : CPU_I32;
    for (int i = 0; i < 3; i++) {
        add_operand(b, real);
        add_operand(b, whole);
        add_operand(b, CPU_BOOL);
        add_constant(b, real);
        add_constant(b, whole);
    }
    add_constant(b, CPU_BOOL);
    for (uint32_t want = below(2) ? 30 : NODES; b->native.node_count < want;)
        add_instruction(b);
    /* Many results that are computed early occupy many registers. With few
     * results, the compiler interleaves two vectors. */
    for (uint32_t i = 0, results = below(2) ? 16 : 1 + below(4); i < results; i++)
        b->native.result[b->native.result_count++] =
            below(b->native.node_count);
    const uint32_t folds = 1 + below(TN_CPU_NATIVE_FOLDS);
    while (!b->native.wide && b->native.fold_count < folds) {
        b->native.fold_kind[b->native.fold_count] =
            (uint8_t)b->native.fold_count;
        b->native.fold[b->native.fold_count++] = pick(b, CPU_F32);
    }
}

/* ---- running a body ------------------------------------------------------ */

static _Alignas(64) char got[TN_CPU_NATIVE_RESULTS][ROOM * 8];
static float folded[TN_CPU_NATIVE_FOLDS][LINES];

static uint32_t points(const body *b, uint32_t p, char **base, int64_t *bytes)
{
    const cpu_native *n = &b->native;
    uint32_t node = TN_NONE;
    for (uint32_t i = 0; i < n->node_count; i++)
        if (b->node[i].op == TN_K_LOAD && b->node[i].number == p)
            node = i;
    *base = node == TN_NONE ? NULL : (char *)b->value[node];
    if (p >= n->operand_count && p < n->operand_count + n->result_count) {
        node = n->result[p - n->operand_count];
        *base = got[p - n->operand_count];
    } else if (node == TN_NONE) {
        *base = (char *)folded[p - n->operand_count - n->result_count];
        *bytes = sizeof(float);
        return TN_NONE;
    }
    *bytes = MOST * type_bytes[b->node[node].type];
    return node;
}

/* Runs the compiled body on LINES - 1 rows of n elements, options.copies rows
 * at a time. */
static bool run_body(body *b, int64_t n, cpu_native_options options)
{
    uint32_t copies = options.copies;
    cpu_native_run *run = tn__cpu_native_get(&b->native, options);
    cpu_native_call call = {
        .n = n, .lines = (LINES - 1) / copies, .prefetch = got[0]};
    uint32_t each =
        b->native.operand_count + b->native.result_count + b->native.fold_count;
    for (uint32_t p = 0; p < each; p++) {
        char *base;
        int64_t bytes;
        points(b, p, &base, &bytes);
        call.next[p] = copies * bytes;
        for (uint32_t j = 0; j < copies; j++)
            call.at[j * each + p] = base + j * bytes;
    }
    if (run)
        run(&call);
    return run != NULL;
}

/* Runs the compiled body on options.copies rows of n elements, each divided
 * into three parts. */
static bool run_parts(body *b, int64_t n, cpu_native_options options)
{
    enum { PARTS = 3 };
    static const int64_t cut[PARTS] = {0, 16, 48};
    uint32_t each =
        b->native.operand_count + b->native.result_count + b->native.fold_count;
    cpu_native_run *run = tn__cpu_native_get(&b->native, options);
    cpu_native_call part[PARTS];
    for (int k = 0; k < PARTS; k++) {
        part[k].n = (k + 1 < PARTS ? cut[k + 1] : n) - cut[k];
        part[k].lines = PARTS - k;
        part[k].prefetch = got[0];
        for (uint32_t i = 0; i < options.copies * each; i++) {
            char *base;
            int64_t bytes;
            uint32_t node = points(b, i % each, &base, &bytes);
            bool one = node == TN_NONE || (b->node[node].op == TN_K_LOAD &&
                                           i % each < b->native.operand_count &&
                                           (options.single >> i % each & 1));
            part[k].at[i] = base + i / each * bytes +
                            (one ? 0 : cut[k] * (bytes / MOST));
        }
    }
    if (run)
        run(part);
    return run != NULL;
}

/* Returns the first node whose result is wrong or was written outside the row;
 * TN_NONE if all are right. */
static uint32_t find_wrong(const body *b, int64_t n, int64_t lines)
{
    for (uint32_t r = 0; r < b->native.result_count; r++) {
        uint32_t node = b->native.result[r];
        unsigned type = b->node[node].type;
        for (int64_t k = 0; k < ROOM; k++) {
            const char *is = got[r] + k * type_bytes[type];
            bool inside = k / MOST < lines && k % MOST < n;
            static const char untouched[8] = {0x55, 0x55, 0x55, 0x55,
                                              0x55, 0x55, 0x55, 0x55};
            if (inside ? !same(is, b->value[node] + k * type_bytes[type], type)
                       : memcmp(is, untouched, type_bytes[type]) != 0)
                return node;
        }
    }
    return TN_NONE;
}

static bool folds_right(const body *b, int64_t n, int64_t lines)
{
    for (uint32_t i = 0; i < b->native.fold_count; i++)
        for (int64_t line = 0; line < lines; line++) {
            float want;
            plain.fold[b->native.fold_kind[i]][CPU_F32](
                &want, b->value[b->native.fold[i]] + line * MOST * 4, n, 1, n,
                0);
            if (!same((char *)&want, (char *)&folded[i][line], CPU_F32))
                return false;
        }
    return true;
}

static void test_bodies(const char *isa)
{
    static body b;
    static const int64_t sizes[] = {1,  7,  8,  15, 16, 17,
                                    31, 32, 33, 64, 70, 67};
    int wrong = 0, folds_wrong = 0, parts_wrong = 0, without = 0;
    const int bodies = __sanitizer_set_death_callback ? 600 : 6000;
    for (int i = 0; i < bodies && wrong + folds_wrong < 5; i++) {
        make_body(&b);
        for (int s = 0; s < 12; s++) {
            bool folds = !b.native.wide && s % 2;
            uint32_t copies = s % 3 != 2 ? 1
                              : folds    ? tn__cpu_native_copies(&b.native)
                                         : TN_CPU_NATIVE_COPIES;
            int64_t lines = (LINES - 1) / copies * copies;
            memset(got, 0x55, sizeof got);
            cpu_native_options options = {
                .single = b.single,
                .streamed = below(2) ? (uint32_t)random_bits() : 0,
                .copies = (uint8_t)copies,
                .folds = folds,
                .prefetch_operands = below(2) ? random_bits() : 0,
                .ahead = below(2) ? 64 : 16384,
                .prefetch = below(2)};
            if (!run_body(&b, sizes[s], options)) {
                without++;
                continue;
            }
            uint32_t node = find_wrong(&b, sizes[s], lines);
            if (node != TN_NONE)
                note("body %d, %d elements: node %u of kind %u", i,
                     (int)sizes[s], (unsigned)node, (unsigned)b.node[node].op);
            wrong += node != TN_NONE;
            folds_wrong += folds && !folds_right(&b, sizes[s], lines);
            if (!folds || copies == 1 || sizes[s] <= 48)
                continue;
            memset(got, 0x55, sizeof got);
            options.parts = true;
            parts_wrong += !run_parts(&b, sizes[s], options) ||
                           find_wrong(&b, sizes[s], copies) != TN_NONE ||
                           !folds_right(&b, sizes[s], copies);
        }
        b.native.node = NULL; /* the nodes are on the stack and must not be
                               * freed */
        tn__cpu_native_release(&b.native);
    }
    is_int(without, 0, "%s: each of %d bodies has code", isa, bodies);
    is_int(wrong, 0, "%s: random bodies give the routines' bits", isa);
    is_int(folds_wrong, 0, "%s: so do sums, products, minima and maxima of rows",
           isa);
    is_int(parts_wrong, 0, "%s: and of lines in parts", isa);
}

/* ---- exp --------------------------------------------------------------- */

static void test_exp(const char *isa)
{
    enum { COUNT = 1 << 12, STEPS = 1 << 8 };
    static float x[COUNT], want[COUNT], is[COUNT];
    cpu_node node[2] = {{.op = TN_K_LOAD,
                         .type = CPU_F32,
                         .a = TN_NONE,
                         .b = TN_NONE,
                         .c = TN_NONE},
                        {.op = TN_K_CALL,
                         .type = CPU_F32,
                         .from = CPU_F32,
                         .b = TN_NONE,
                         .c = TN_NONE}};
    cpu_native native = {.node = node,
                         .node_count = 2,
                         .operand_count = 1,
                         .result_count = 1,
                         .result = {1},
                         .set = native_set};
    tn_cpu_math *reference = NULL;
    for (uint32_t i = 0; i < tn__cpu_math_count__generic; i++)
        if (!strcmp(tn__cpu_math__generic[i].name, "exp_f32"))
            reference = tn__cpu_math__generic[i].run;
    cpu_native_run *run =
        tn__cpu_native_get(&native, (cpu_native_options){.copies = 1});
    int64_t wrong = 0;
    for (uint32_t step = 0; run && step < STEPS; step++) {
        for (uint32_t i = 0; i < COUNT; i++) { /* tests a sample of all floats */
            uint32_t bits = (step * COUNT + i) * 4099u;
            memcpy(&x[i], &bits, sizeof bits);
        }
        reference(want, x, x, x, COUNT);
        cpu_native_call call = {
            .n = COUNT, .lines = 1, .at = {(char *)x, (char *)is}};
        run(&call);
        for (uint32_t i = 0; i < COUNT; i++)
            wrong += !same((char *)&want[i], (char *)&is[i], CPU_F32);
    }
    ok(run != NULL, "%s: exp has code", isa);
    is_int(wrong, 0, "%s: exp of floats of all sizes has its bits", isa);
    native.node = NULL;
    tn__cpu_native_release(&native);
}

/* ---- a system without executable memory ---------------------------------- */

static void test_refused(void)
{
#if defined(PR_SET_MDWE) && defined(PR_MDWE_REFUSE_EXEC_GAIN)
    enum { SET = PR_SET_MDWE, REFUSE = PR_MDWE_REFUSE_EXEC_GAIN };
#else
    enum { SET = 65, REFUSE = 1 }; /* prctl's PR_SET_MDWE and
                                    * PR_MDWE_REFUSE_EXEC_GAIN of Linux 6.3 */
#endif
    enum { FINE, THERE, NO_SUCH_CALL };
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(prctl(SET, REFUSE, 0, 0, 0) != 0 ? NO_SUCH_CALL
              : tn__cpu_native_available()     ? THERE
                                               : FINE);
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SUCH_CALL)
        skip(1, "this system cannot refuse memory that is to be run");
    else
        ok(WIFEXITED(status) && WEXITSTATUS(status) == FINE,
           "where memory cannot be run there is no machine code");
}

int main(void)
{
    plan_later();
    test_refused();
#define COUNT_OF(name, operands, text) arity[TN_K_##name] = operands;
    TN_KERNEL_MAP(COUNT_OF)
#undef COUNT_OF
    plain.family = tn__cpu_family_here();
    tn__cpu_arith__generic(&plain);
    tn__cpu_convert__generic(&plain);
    tn__cpu_reduce__generic(&plain);
    static const struct {
        const char *isa;
        uint8_t set;
    } sets[] = {{"v3", CPU_NATIVE_AVX2}, {"v4", CPU_NATIVE_AVX512}};
    for (int i = 0; i < 2; i++) {
        if (!is_here(sets[i].isa) || !tn__cpu_native_available()) {
            skip(1, "no machine code is made for this machine");
            continue;
        }
        native_set = sets[i].set;
        test_bodies(sets[i].isa);
        test_exp(sets[i].isa);
    }
    return done_testing();
}
