/* rows.cl: reductions in the order that <tenon/plugin_program.h> fixes. Element
 * k of a row is in chunk k / 1024 and lane k % 16. The elements of a lane are
 * combined in rising order. The 16 lanes of a chunk are combined by halves:
 * lane i with lane i + 8, then with i + 4, and so on. The chunks are combined
 * pairwise in their order. A missing element is replaced by a value that leaves
 * the result unchanged (-0.0 for sums).
 *
 * The chunks are combined as a binary counter carries: if bit j of the number
 * of finished chunks is set, tree[j] is the result of 2^j chunks. */
#define TK_CHUNK 1024
#define TK_LANES 16

/* A row belongs to a team of TK_SLOTS * TK_WIDTH work-items. A team reduces
 * TK_SLOTS chunks at once, with TK_WIDTH work-items for each. A work-group has
 * TK_TEAMS teams. TK_ITEM is a work-item's index within its team. TK_SELF is
 * the work-item's index in arrays in local memory, where a team's elements are
 * contiguous. TK_LEAD is the index of the team's first work-item. With
 * TK_COLUMNS, neighbouring work-items belong to neighbouring rows. */
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
/* Index in local memory of element k of a team's row, which is in the given
 * chunk. It is padded so that elements with the same index in neighbouring
 * chunks are in different banks. */
#define TK_CACHED(k, chunk)                                                   \
    ((tk_i32)(k) + (tk_i32)(chunk) * TK_LANES +                               \
     TK_ROW * (TK_CHUNK + TK_LANES) * TK_SLOTS)
#endif
#ifdef TK_WIDE
#define TK_LEVELS 54
#else
#define TK_LEVELS 21 /* enough for rows of fewer than 2^30 elements */
#endif

/* Combines the `count` partial results (lanes) of a chunk that one work-item
 * has: all 16, or every fourth. */
#define TK_COMBINE_LANES(op, lane, count)                                     \
    for (tk_i32 step = (count) / 2; step > 0; step /= 2)                      \
        for (tk_i32 l = 0; l < step; l++)                                     \
            lane[l] = op(lane[l], lane[l + step]);

/* Combines the partial results (lanes and chunks) that the work-items of a team
 * have in `value`. All of them get the result. `shared` has an element for each
 * work-item of the work-group. */
#define TK_COMBINE_TEAM(op, value, shared)                                    \
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

/* At the end, combines the partial results in the tree. tree[level] has the
 * earlier elements, so it is the left operand. */
#define TK_TREE_TOP(op, tree, count, value)                                   \
    {                                                                         \
        tk_bool any = 0;                                                      \
        for (tk_i32 level = 0; count >> level != 0; level++)                  \
            if ((count >> level & 1) != 0) {                                  \
                value = any ? op(tree[level], value) : tree[level];           \
                any = 1;                                                      \
            }                                                                 \
    }

/* Combines the partial results of a row that several work-groups shared,
 * pairwise in the order of their parts of the row (shares). The whole team gets
 * the result. There are at most TK_RUN * TK_TEAM shares. */
#define TK_RUN 8
#define TK_COMBINE_SHARES(T, op, none, part, shares, shared, value)           \
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

/* ---- ARGMAX and ARGMIN: a value x and its index k, -1 if there is none
 * ---- */

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
