/* scan_team.cl: the scan of lines that are long or contiguous. (A line is the
 * elements that are scanned together.) A work-group of 64 work-items has a
 * chunk of 1024 elements, and each work-item a block of 16. There are three
 * launches, distinguished by TK_STEP:
 *   1  writes the last element of each chunk's scan to scratch memory;
 *   2  scans these last elements, with one work-group for each line;
 *   3  writes all elements of each chunk, combined with what comes before.
 * A line of one chunk needs only the third. TK_COMBINE, TK_INDEX, TK_REPLACES
 * and the argument words are those of scan.cl. TK_SCAN_BLOCK scans x[16] and,
 * with TK_INDEX, position[16]. */
#define TK_TEAM 64
#define TK_AT(i) ((i) + (i) / 16) /* padded, so that blocks begin in different
                                   * banks */
#ifdef TK_INDEX
#define TK_IF_INDEX(statement) statement
#else
#define TK_IF_INDEX(statement)
#endif
/* Combines x with b, which comes before it, and also their indices x_at and
 * b_at. */
#define TK_PREPEND(b, b_at, x, x_at)                                          \
    {                                                                         \
        TK_IF_INDEX(x_at = TK_REPLACES(x, b) ? x_at : b_at;)                  \
        x = TK_COMBINE(b, x);                                                 \
    }

TK_KERNEL tn_scan(TK_G const TK_STORED *in, TK_G TK_STORED *out,
#ifdef TK_INDEX
                  TK_G tk_i64 *index,
#endif
                  TK_G tk_i64 *scratch, TK_WORDS)
{
    TK_SHARED(TK_VALUE, element, TK_AT(1024));
    /* element [0] is the last element of the chunk before */
    TK_SHARED(TK_VALUE, final, TK_TEAM + 1);
#ifdef TK_INDEX
    TK_SHARED(tk_idx, element_at, TK_AT(1024));
    TK_SHARED(tk_idx, final_at, TK_TEAM + 1);
#endif
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    const tk_idx chunks = (length + 1023) / 1024;
    TK_IF_INDEX(TK_G tk_i64 *total_at = scratch;)
    TK_G TK_VALUE *total =
        (TK_G TK_VALUE *)(scratch TK_IF_INDEX(+lines * chunks));
#if TK_STEP == 2
    const tk_idx jobs = lines;
#else
    const tk_idx jobs = lines * chunks;
#endif
    for (tk_idx job = TK_GROUP; job < jobs; job += TK_GROUPS) {
#if TK_STEP == 2
        const tk_idx begin = 0, end = chunks;
#else
        const tk_idx line = job / chunks, begin = job % chunks * 1024;
        const tk_idx end = length - begin < 1024 ? length : begin + 1024;
        TK_POINT_OFFSET(from, 0, line)
#endif
#if TK_STEP == 3
        TK_POINT_OFFSET(to, 1, line)
        TK_IF_INDEX(TK_POINT_OFFSET(to_at, 2, line))
#endif
        for (tk_idx start = begin; start < end; start += 1024) {
            const tk_i32 n = (tk_i32)(end - start < 1024 ? end - start : 1024);
            for (tk_i32 i = TK_LOCAL; i < n; i += TK_TEAM) {
#if TK_STEP == 2
                const tk_idx k = job * chunks + start + i;
                element[TK_AT(i)] = total[k];
                TK_IF_INDEX(element_at[TK_AT(i)] = (tk_idx)total_at[k];)
#else
                const tk_idx k = start + i;
                element[TK_AT(i)] = TK_FROM(in[from + k * (tk_idx)TK_OWN(1)]);
                TK_IF_INDEX(element_at[TK_AT(i)] = k;)
#endif
            }
            TK_BARRIER();
            const tk_i32 left = n - TK_LOCAL * 16, size = left < 16 ? left : 16;
            if (size > 0) {
                const tk_i32 block = TK_AT(TK_LOCAL * 16);
                TK_VALUE x[16];
                TK_IF_INDEX(tk_idx position[16];)
                for (tk_i32 j = 0; j < 16; j++) {
                    const tk_i32 k = block + (j < size ? j : 0);
                    x[j] = element[k];
                    TK_IF_INDEX(position[j] = element_at[k];)
                }
                TK_SCAN_BLOCK
                for (tk_i32 j = 0; j < 16; j++)
                    if (j < size) {
                        element[block + j] = x[j];
                        TK_IF_INDEX(element_at[block + j] = position[j];)
                    }
                final[TK_LOCAL + 1] = element[block + size - 1];
                TK_IF_INDEX(final_at[TK_LOCAL + 1] =
                                element_at[block + size - 1];)
            }
            TK_BARRIER();
            if (TK_LOCAL == 0)
                for (tk_i32 b = start > begin ? 0 : 1; b * 16 < n; b++)
                    TK_PREPEND(final[b], final_at[b], final[b + 1],
                              final_at[b + 1])
            TK_BARRIER();
#if TK_STEP == 1
            if (TK_LOCAL == 0) {
                total[job] = final[(n + 15) / 16];
                TK_IF_INDEX(total_at[job] = final_at[(n + 15) / 16];)
            }
#else
            for (tk_i32 i = TK_LOCAL; i < n; i += TK_TEAM) {
                TK_VALUE x = element[TK_AT(i)];
                TK_IF_INDEX(tk_idx position = element_at[TK_AT(i)];)
                if (i >= 16 || start > begin)
                    TK_PREPEND(final[i / 16], final_at[i / 16], x, position)
#if TK_STEP == 2
                total[job * chunks + start + i] = x;
                TK_IF_INDEX(total_at[job * chunks + start + i] = position;)
#else
                const tk_idx k = start + i;
                if (begin > 0)
                    TK_PREPEND(total[job - 1], (tk_idx)total_at[job - 1], x,
                              position)
                out[to + k * (tk_idx)TK_OWN(2)] = TK_TO(x);
                TK_IF_INDEX(index[to_at + k * (tk_idx)TK_OWN(3)] = position;)
#endif
            }
#endif
            TK_BARRIER();
            if (TK_LOCAL == 0 && start + 1024 < end) {
                final[0] = final[TK_TEAM];
                TK_IF_INDEX(final_at[0] = final_at[TK_TEAM];)
            }
        }
    }
}
