/* sort.cl: what the kernels for sorting share. They sort lines along the last
 * dimension; elements with equal keys keep their order. A key is an unsigned
 * number of TK_BITS bits, and the order of keys is the requested order. All
 * NaNs have the same key, the largest, and -0 has the key of +0. For a
 * descending order, keys are inverted. The kernels move keys and positions, and
 * load the elements only at the end. These macros are defined before it:
 *   tk_keys, TK_ORDER(s)  the type of a key; the key of a stored element
 *   TK_EACH               number of elements that a work-item processes at once
 *   TK_SIZE               number of work-items of a work-group
 *   TK_STAGED             type of a key or of a position in the line
 *
 * Offsets in scratch memory are in units of 8 bytes; -1 means the tensor
 * itself. */
#define TK_LENGTH ((tk_idx)TK_OWN(0))
#define TK_IN_STRIDE ((tk_idx)TK_OWN(1))
#define TK_OUT_STRIDE ((tk_idx)TK_OWN(2))
#define TK_INDEX_STRIDE ((tk_idx)TK_OWN(3))
#define TK_FLIP ((tk_keys)TK_OWN(4))
#define TK_WANTS_OUT ((TK_OWN(5) & 1) != 0)
#define TK_WANTS_INDEX ((TK_OWN(5) & 2) != 0)
#define TK_FIRST_LINE ((tk_idx)TK_OWN(6)) /* first line of the batch */
#define TK_LINES ((tk_idx)TK_OWN(7))      /* lines of the batch */
#define TK_COUNT ((tk_idx)TK_OWN(8))      /* elements of a line */
/* index of the first wanted element in the sorted line */
#define TK_FIRST_RANK ((tk_idx)TK_OWN(9))
/* index after the last wanted element in the sorted line */
#define TK_END_RANK ((tk_idx)TK_OWN(10))
#define TK_BLOCKS ((tk_idx)TK_OWN(11))    /* blocks of a line */
#define TK_BLOCK ((tk_idx)TK_OWN(12))     /* elements of a block */
#define TK_FROM_KEYS TK_OWN(13)
#define TK_FROM_POSITIONS TK_OWN(14)
#define TK_TO_KEYS TK_OWN(15)
#define TK_TO_POSITIONS TK_OWN(16)
#define TK_TABLE ((TK_G tk_idx *)(scratch + TK_OWN(17)))
#define TK_TOTALS ((TK_G tk_idx *)(scratch + TK_OWN(18)))
#define TK_SHIFT ((tk_i32)TK_OWN(19))
#define TK_MODE ((tk_i32)TK_OWN(20)) /* which digit of the key is meant, see
                                      * TK_DIGIT */
#define TK_KNOWN ((tk_i32)TK_OWN(21)) /* number of digits known so far of the
                                       * last selected key */

#define TK_SORT_ARGUMENTS                                                     \
    TK_G const TK_STORED *in, TK_G TK_STORED *out, TK_G tk_i64 *index,        \
        TK_G tk_u64 *scratch, TK_WORDS

/* Declares the offsets of line `line` of the batch in each tensor. */
#define TK_SORT_LINE(line)                                                    \
    TK_POINT_OFFSET(line_in, 0, TK_FIRST_LINE + (line))                       \
    TK_POINT_OFFSET(line_out, 1, TK_FIRST_LINE + (line))                      \
    TK_POINT_OFFSET(line_index, 2, TK_FIRST_LINE + (line))

#define TK_KEY(i) (TK_ORDER(in[line_in + (i) * TK_IN_STRIDE]) ^ TK_FLIP)

/* The key of element i of the line, and the element's position in the
 * tensor. */
#define TK_SOURCE_KEY(line, i)                                                \
    (TK_FROM_KEYS < 0 ? TK_KEY(i)                                             \
                      : ((TK_G const tk_keys *)(scratch + TK_FROM_KEYS))      \
                            [(line) * TK_COUNT + (i)])
#define TK_SOURCE_POSITION(line, i)                                           \
    (TK_FROM_KEYS < 0 ? (i)                                                   \
                      : ((TK_G const tk_idx *)(scratch + TK_FROM_POSITIONS))  \
                            [(line) * TK_COUNT + (i)])

/* Stores the element at position `self` of the line as the element of rank
 * `at`. */
#define TK_STORE_RANK(at, self)                                               \
    if (TK_WANTS_OUT)                                                         \
        out[line_out + (at) * TK_OUT_STRIDE] =                                \
            in[line_in + (self) * TK_IN_STRIDE];                              \
    if (TK_WANTS_INDEX)                                                       \
        index[line_index + (at) * TK_INDEX_STRIDE] = (self);

/* ---- sorting within a work-group ----------------------------------------- */

/* Index with padding, for 32 banks: elements at distances of 1, 2, 4, 8 and 16
 * are in different banks. */
#define TK_PAD(i) ((i) + ((i) >> 5))
#define TK_UNPADDED(i) (i)

/* An exclusive prefix sum: replaces each of the TK_SIZE * per numbers of
 * `array` by the sum of the numbers before it, plus `first`. Sets `total` to
 * the sum of all. Each work-item first adds its own `per` numbers. `sums` has 2
 * * TK_SIZE elements. */
#define TK_PREFIX_SUMS(array, type, pad, per, first)                          \
    {                                                                         \
        tk_idx own = 0;                                                       \
        tk_i32 turn = 0;                                                      \
        for (tk_i32 k = 0; k < (per); k++)                                    \
            own += (tk_idx)array[pad(TK_LOCAL * (per) + k)];                  \
        sums[TK_LOCAL] = own;                                                 \
        TK_BARRIER();                                                         \
        for (tk_i32 step = 1; step < TK_SIZE; step *= 4) {                    \
            tk_idx sum = sums[turn + TK_LOCAL];                               \
            for (tk_i32 k = step; k < 4 * step; k += step)                    \
                sum += TK_LOCAL >= k ? sums[turn + TK_LOCAL - k] : 0;         \
            turn = TK_SIZE - turn;                                            \
            sums[turn + TK_LOCAL] = sum;                                      \
            TK_BARRIER();                                                     \
        }                                                                     \
        total = sums[turn + TK_SIZE - 1];                                     \
        own = sums[turn + TK_LOCAL] - own + (first);                          \
        for (tk_i32 k = 0; k < (per); k++) {                                  \
            const tk_idx next =                                               \
                own + (tk_idx)array[pad(TK_LOCAL * (per) + k)];               \
            array[pad(TK_LOCAL * (per) + k)] = (type)own;                     \
            own = next;                                                       \
        }                                                                     \
        TK_BARRIER();                                                         \
    }

/* A step of a radix sort in local memory. Sorts the TK_SIZE * each numbers in
 * `order` by the four bits NIBBLE(number). Each work-item has `each`
 * neighbouring numbers and counts how often each of the 16 values occurs. Its
 * counts are a column of `counter`, two in each word. The new index of a number
 * is the count of lower values plus the count of equal values before it. */
#define TK_HALF(word) ((word) >> 12 & 8u ? 16 : 0)
#define TK_COLUMN(word) TK_PAD((tk_i32)((word) >> 12 & 7u) * TK_SIZE + TK_LOCAL)
#define TK_RADIX_ROUND(each, NIBBLE)                                          \
    for (tk_i32 k = 0; k < 8; k++)                                            \
        counter[TK_PAD(k * TK_SIZE + TK_LOCAL)] = 0;                          \
    for (tk_i32 j = 0; j < TK_EACH; j++)                                      \
        if (j < (each)) {                                                     \
            tk_u32 word = order[TK_PAD(TK_LOCAL * (each) + j)];               \
            word |= (tk_u32)(NIBBLE(word)) << 12;                             \
            const tk_u32 count = counter[TK_COLUMN(word)];                    \
            counter[TK_COLUMN(word)] = count + (1u << TK_HALF(word));         \
            mine[j] = word | (count >> TK_HALF(word) & 0xffffu) << 16;        \
        }                                                                     \
    TK_BARRIER();                                                             \
    TK_PREFIX_SUMS(counter, tk_u32, TK_PAD, 8, (tk_idx)((tk_u32)total << 16)) \
    for (tk_i32 j = 0; j < TK_EACH; j++)                                      \
        if (j < (each)) {                                                     \
            const tk_u32 word = mine[j];                                      \
            const tk_u32 before =                                             \
                counter[TK_COLUMN(word)] >> TK_HALF(word) & 0xffffu;          \
            order[TK_PAD((tk_i32)(before + (word >> 16)))] =                  \
                (tk_u16)(word & 0xfffu);                                      \
        }                                                                     \
    TK_BARRIER();

#define TK_SORT_SHARED                                                        \
    TK_SHARED(TK_STAGED, staged, TK_EACH * TK_SIZE);                          \
    TK_SHARED(tk_u16, order, TK_PAD(TK_EACH * TK_SIZE));                      \
    TK_SHARED(tk_u32, counter, TK_PAD(8 * TK_SIZE));                          \
    TK_SHARED(tk_idx, sums, 2 * TK_SIZE);                                     \
    tk_u32 mine[TK_EACH];                                                     \
    tk_idx total;

/* ---- sorting by several work-groups -------------------------------------- */

/* The digit of a key that a launch counts or sorts by. `last` is the key of the
 * last selected element, as far as it is known. With TK_WITH_PREFIX, only keys
 * that begin with the known digits of `last` are counted. With TK_COMPARED, the
 * digit is 0, 1 or 2 if the key is less than, equal to or greater than
 * `last`. */
#define TK_WITH_PREFIX 1
#define TK_COMPARED 2
#define TK_DIGIT(key)                                                         \
    (TK_MODE == TK_COMPARED ? ((key) < last ? 0 : (key) == last ? 1 : 2)      \
                          : (tk_i32)((key) >> TK_SHIFT & 255u))

/* Finds the known digits of `last` from the counts
 * totals[digit][line][value]. */
#define TK_FIND_LAST(line)                                                    \
    tk_keys last = 0;                                                         \
    tk_idx rank = TK_END_RANK - 1;                                            \
    for (tk_i32 q = 0; q < TK_KNOWN; q++) {                                   \
        for (tk_i32 d = TK_LOCAL; d < 256; d += TK_SIZE)                      \
            rank_of[d] = TK_TOTALS[(q * TK_LINES + (line)) * 256 + d];        \
        TK_BARRIER();                                                         \
        TK_PREFIX_SUMS(rank_of, tk_idx, TK_UNPADDED, 256 / TK_SIZE, 0)        \
        for (tk_i32 d = TK_LOCAL; d < 256; d += TK_SIZE)                      \
            if (rank_of[d] <= rank &&                                         \
                rank < (d < 255 ? rank_of[d + 1] : total)) {                  \
                found[0] = d;                                                 \
                found[1] = rank_of[d];                                        \
            }                                                                 \
        TK_BARRIER();                                                         \
        last = last << 8 | (tk_keys)found[0];                                 \
        rank -= found[1];                                                     \
    }
