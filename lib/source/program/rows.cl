/* rows.cl: reductions in the fixed order of <tenon/plugin.h>: element k of a
 * row is in chunk k / 1024 and lane k % 16; a lane folds in rising k, lanes by
 * halves, chunks pairwise by index. What is absent is folded in as a value
 * that changes no bit (-0.0 for sums).
 *
 * Chunks meet as in a binary counter: tree[j] holds the fold of 2^j of them
 * while bit j of their number is set. */
#define TK_CHUNK 1024
#define TK_LANES 16

/* Where a row belongs to a team of TK_SLOTS * TK_WIDTH work-items (a chunk to
 * TK_WIDTH of them), a group has TK_TEAMS teams. Its work-items are numbered
 * within a team (TK_ITEM) and, for local memory, team by team (TK_SELF; TK_LEAD
 * is the team's first). TK_COLUMNS: neighbours belong to neighbouring rows. */
#ifdef TK_TEAMS
#define TK_TEAM (TK_SLOTS * TK_WIDTH)
#ifdef TK_COLUMNS
#define TK_ROW (TK_LOCAL % TK_TEAMS)
#define TK_ITEM (TK_LOCAL / TK_TEAMS)
#else
#define TK_ROW (TK_LOCAL / TK_TEAM)
#define TK_ITEM (TK_LOCAL % TK_TEAM)
#endif
#define TK_LEAD (TK_ROW * TK_TEAM)
#define TK_SELF (TK_LEAD + TK_ITEM)
#define TK_LANE (TK_ITEM % TK_WIDTH)
#define TK_SLOT (TK_ITEM / TK_WIDTH)
/* Where element k of a team's row, in that chunk, is in local memory: lanes of
 * one number of neighbouring chunks are in different banks. */
#define TK_CACHED(k, chunk)                                                   \
    ((tk_i32)(k) + (tk_i32)(chunk) * TK_LANES +                               \
     TK_ROW * (TK_CHUNK + TK_LANES) * TK_SLOTS)
#endif
#ifdef TK_WIDE
#define TK_LEVELS 54
#else
#define TK_LEVELS 21 /* rows are shorter than 2^30 here */
#endif

/* One work-item has `count` lanes of a chunk, all of them or every 4th. */
#define TK_FOLD_LANES(op, lane, count)                                        \
    for (tk_i32 step = (count) / 2; step > 0; step /= 2)                      \
        for (tk_i32 l = 0; l < step; l++)                                     \
            lane[l] = op(lane[l], lane[l + step]);

/* The lanes and chunks that a team has, folded: all of it get that. shared has
 * room for the group. */
#define TK_FOLD_TEAM(op, value, shared)                                       \
    shared[TK_SELF] = value;                                                  \
    TK_BARRIER();                                                             \
    for (tk_i32 step = TK_WIDTH / 2; step > 0; step /= 2) {                   \
        if (TK_LANE < step)                                                   \
            shared[TK_SELF] = op(shared[TK_SELF], shared[TK_SELF + step]);    \
        TK_BARRIER();                                                         \
    }                                                                         \
    for (tk_i32 step = 1; step < TK_SLOTS; step *= 2) {                       \
        if (TK_LANE == 0 && TK_SLOT % (2 * step) == 0)                        \
            shared[TK_SELF] =                                                 \
                op(shared[TK_SELF], shared[TK_SELF + step * TK_WIDTH]);       \
        TK_BARRIER();                                                         \
    }                                                                         \
    value = shared[TK_LEAD];                                                  \
    TK_BARRIER();

#define TK_TREE_PUSH(op, tree, count, value)                                  \
    {                                                                         \
        tk_i32 level = 0;                                                     \
        for (; (count >> level & 1) != 0; level++)                            \
            value = op(tree[level], value);                                   \
        tree[level] = value;                                                  \
    }

/* What stands further right is always the smaller tree. */
#define TK_TREE_TOP(op, tree, count, value)                                   \
    {                                                                         \
        tk_bool any = 0;                                                      \
        for (tk_i32 level = 0; count >> level != 0; level++)                  \
            if ((count >> level & 1) != 0) {                                  \
                value = any ? op(tree[level], value) : tree[level];           \
                any = 1;                                                      \
            }                                                                 \
    }

/* A row's shares, of a group each: what they come to folded pairwise by index,
 * by a team, for all of it. There are TK_RUN * TK_TEAM at most. */
#define TK_RUN 8
#define TK_FOLD_SHARES(T, op, none, part, shares, shared, value)              \
    {                                                                         \
        T run[TK_RUN];                                                        \
        for (tk_i32 j = 0; j < TK_RUN; j++) {                                 \
            const tk_idx at = (tk_idx)TK_ITEM * TK_RUN + j;                   \
            run[j] = none;                                                    \
            if (at < shares)                                                  \
                run[j] = part[at];                                            \
        }                                                                     \
        for (tk_i32 step = 1; step < TK_RUN; step *= 2)                       \
            for (tk_i32 j = 0; j < TK_RUN; j += 2 * step)                     \
                run[j] = op(run[j], run[j + step]);                           \
        shared[TK_SELF] = run[0];                                             \
        TK_BARRIER();                                                         \
        for (tk_i32 step = 1; step < TK_TEAM; step *= 2) {                    \
            if (TK_ITEM % (2 * step) == 0)                                    \
                shared[TK_SELF] = op(shared[TK_SELF], shared[TK_SELF + step]); \
            TK_BARRIER();                                                     \
        }                                                                     \
        value = shared[TK_LEAD];                                              \
        TK_BARRIER();                                                         \
    }

/* ---- ARGMAX and ARGMIN: a value and where it stands (-1: nowhere) -------- */

#define TK_ARG(T, ISNAN)                                                      \
    typedef struct {                                                          \
        tk_##T x;                                                             \
        tk_idx k;                                                             \
    } tk_arg_##T;                                                             \
    TK_FN tk_arg_##T tk_arg_at_##T(tk_##T x, tk_idx k)                        \
    {                                                                         \
        tk_arg_##T a;                                                         \
        a.x = x;                                                              \
        a.k = k;                                                              \
        return a;                                                             \
    }                                                                         \
    TK_FN tk_arg_##T tk_arg_least_##T(tk_arg_##T a, tk_arg_##T b,             \
                                      tk_bool a_wins, tk_bool b_wins)         \
    {                                                                         \
        tk_bool takes_b = b_wins || (!a_wins && b.k < a.k);                   \
        takes_b = a.k < 0 || (b.k >= 0 && takes_b);                           \
        return takes_b ? b : a;                                               \
    }                                                                         \
    TK_FN tk_arg_##T tk_argmax_##T(tk_arg_##T a, tk_arg_##T b)                \
    {                                                                         \
        return tk_arg_least_##T(a, b,                                         \
                                !ISNAN(b.x) && (ISNAN(a.x) || a.x > b.x),     \
                                !ISNAN(a.x) && (ISNAN(b.x) || b.x > a.x));    \
    }                                                                         \
    TK_FN tk_arg_##T tk_argmin_##T(tk_arg_##T a, tk_arg_##T b)                \
    {                                                                         \
        return tk_arg_least_##T(a, b,                                         \
                                !ISNAN(b.x) && (ISNAN(a.x) || a.x < b.x),     \
                                !ISNAN(a.x) && (ISNAN(b.x) || b.x < a.x));    \
    }
#define TK_NEVER(x) 0
TK_ARG(f32, tk_isnan_f32)
#ifdef TK_F64
TK_ARG(f64, tk_isnan_f64)
#endif
TK_ARG(i32, TK_NEVER)
TK_ARG(i64, TK_NEVER)
TK_ARG(bool, TK_NEVER)
