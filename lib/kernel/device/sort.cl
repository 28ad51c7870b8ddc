/* sort.cl: a stable merge sort along the last dimension; only positions move,
 * between two halves of the group's scratch memory. A group takes a line.
 * TK_COMES_FIRST(x, y): must x stand before y? With TK_OUT and TK_OUT_INDEX
 * the sorted values and their positions are wanted.
 *
 * In a group each element finds its place in a merged run by itself: as many
 * places behind its own as elements of the other run stand before it. Equal
 * elements of the left run do, of the right run do not: that is stable.
 *
 * Own words: length, how many of the order to write, then the strides along
 * the line of in, out and index. */
#define TK_KEY(i) TK_FROM(in[line_in + (i) * (tk_idx)TK_OWN(2)])

#ifdef TK_CHUNKED
#define TK_TOGETHER()
#define TK_MERGE(source, target)                                              \
    for (tk_idx start = 0; start < length; start += 2 * width) {              \
        const tk_idx middle = start + width < length ? start + width : length; \
        const tk_idx end = middle + width < length ? middle + width : length; \
        tk_idx left = start, right = middle;                                  \
        for (tk_idx to = start; to < end; to++) {                             \
            tk_bool takes_right = left == middle;                             \
            if (left < middle && right < end)                                 \
                takes_right = TK_COMES_FIRST(TK_KEY(source[right]),           \
                                             TK_KEY(source[left]));           \
            target[to] = takes_right ? source[right] : source[left];          \
            right += takes_right ? 1 : 0;                                     \
            left += takes_right ? 0 : 1;                                      \
        }                                                                     \
    }
#else
#define TK_TOGETHER() TK_BARRIER()
#define TK_MERGE(source, target)                                              \
    for (tk_idx i = TK_LOCAL; i < length; i += TK_GROUP_SIZE) {               \
        const tk_idx start = i / (2 * width) * (2 * width);                   \
        const tk_idx middle = start + width < length ? start + width : length; \
        const tk_idx end = middle + width < length ? middle + width : length; \
        const tk_bool is_left = i < middle;                                   \
        const tk_idx self = source[i];                                        \
        const TK_VALUE x = TK_KEY(self);                                      \
        tk_idx low = is_left ? middle : start;                                \
        tk_idx high = is_left ? end : middle;                                 \
        const tk_idx other = low;                                             \
        while (low < high) {                                                  \
            const tk_idx probe = low + (high - low) / 2;                      \
            const TK_VALUE y = TK_KEY(source[probe]);                         \
            const tk_bool before = is_left ? TK_COMES_FIRST(y, x)             \
                                           : !TK_COMES_FIRST(x, y);           \
            low = before ? probe + 1 : low;                                   \
            high = before ? high : probe;                                     \
        }                                                                     \
        target[start + (i - (is_left ? start : middle)) + (low - other)] =    \
            self;                                                             \
    }
#endif

TK_KERNEL tn_sort(TK_G const TK_STORED *in,
#ifdef TK_OUT
                  TK_G TK_STORED *out,
#endif
#ifdef TK_OUT_INDEX
                  TK_G tk_i64 *index,
#endif
                  TK_G tk_idx *scratch, TK_WORDS)
{
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    TK_G tk_idx *sorted = scratch + TK_GROUP * 2 * length;
    TK_G tk_idx *merged = sorted + length;
    for (tk_idx line = TK_GROUP; line < lines; line += TK_GROUPS) {
        TK_PLACE(line_in, 0, line)
        for (tk_idx i = TK_LOCAL; i < length; i += TK_GROUP_SIZE)
            sorted[i] = i;
        TK_TOGETHER();
        for (tk_idx width = 1; width < length; width *= 2) {
            TK_MERGE(sorted, merged)
            TK_TOGETHER();
            TK_G tk_idx *const kept = sorted;
            sorted = merged;
            merged = kept;
        }
        TK_PLACE(to, 1, line)
        TK_PLACE(at, 2, line)
        for (tk_idx i = TK_LOCAL; i < (tk_idx)TK_OWN(1); i += TK_GROUP_SIZE) {
            const tk_idx self = sorted[i];
#ifdef TK_OUT
            out[to + i * (tk_idx)TK_OWN(3)] =
                in[line_in + self * (tk_idx)TK_OWN(2)];
#endif
#ifdef TK_OUT_INDEX
            index[at + i * (tk_idx)TK_OWN(4)] = self;
#endif
        }
#ifndef TK_OUT
        (void)to;
#endif
#ifndef TK_OUT_INDEX
        (void)at;
#endif
        TK_TOGETHER();
    }
}
