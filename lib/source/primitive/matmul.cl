/* matmul.cl: the matrix product c = alpha * a * b + beta * c, for each matrix
 * of a batch. The sum over k is in rising order, of type TK_VALUE, and adds by
 * TK_MULTIPLY_ADD(x, y, sum).
 *
 * Its own argument words TK_OWN(i) are: m, n and k; the row and column strides
 * of a, b and c; alpha; beta; whether beta is not 0; with TK_PACKED, the number
 * of rows and columns of a block. With TK_B_UNIT, the rows of b are
 * contiguous. */
#define TK_M ((tk_idx)TK_OWN(0))
#define TK_N ((tk_idx)TK_OWN(1))
#define TK_K ((tk_idx)TK_OWN(2))
#define TK_A(i, k) a[at_a + (i) * (tk_idx)TK_OWN(3) + (k) * (tk_idx)TK_OWN(4)]
#ifdef TK_B_UNIT
#define TK_B(k, j) b[at_b + (k) * (tk_idx)TK_OWN(5) + (j)]
#else
#define TK_B(k, j) b[at_b + (k) * (tk_idx)TK_OWN(5) + (j) * (tk_idx)TK_OWN(6)]
#endif
#define TK_C(i, j) c[at_c + (i) * (tk_idx)TK_OWN(7) + (j) * (tk_idx)TK_OWN(8)]

/* Stores element (i, j) of c from its sum. If beta is 0, the old c is not
 * read. */
#define TK_STORE_SUM(i, j, sum)                                               \
    {                                                                         \
        TK_VALUE value = TK_SCALE(TK_SCALAR(9), sum);                         \
        if (TK_OWN(11) != 0)                                                  \
            value = TK_PLUS(value,                                            \
                            TK_SCALE(TK_SCALAR(10), TK_FROM(TK_C(i, j))));    \
        TK_C(i, j) = TK_TO(value);                                            \
    }

#if defined TK_PACKED

/* A work-item computes blocks of c. It copies TK_DEPTH rows of b into its part
 * of the scratch memory, in strips of TK_COLUMNS columns (packing). Then it
 * multiplies TK_ROWS rows of a at a time with each strip. The sums of the block
 * are stored after the strips, until the next TK_DEPTH rows. */
TK_KERNEL tn_matmul(TK_G const TK_STORED *a, TK_G const TK_STORED *b,
                    TK_G TK_STORED *c, TK_G TK_VALUE *scratch, TK_WORDS)
{
    const tk_idx height = (tk_idx)TK_OWN(12), width = (tk_idx)TK_OWN(13);
    const tk_idx across = (TK_N + width - 1) / width;
    const tk_idx down = (TK_M + height - 1) / height;
    const tk_idx blocks = (tk_idx)TK_WORD(0) * across * down;
    TK_G TK_VALUE *pack =
        scratch + (tk_i64)TK_FIRST * ((TK_DEPTH + height) * width);
    TK_G TK_VALUE *sums = pack + TK_DEPTH * width;
    TK_VALUE a_rows[TK_DEPTH][TK_ROWS];
    for (tk_idx block = TK_FIRST; block < blocks; block += TK_ITEMS) {
        const tk_idx matrix = block / across / down;
        TK_POINT_OFFSET(at_a, 0, matrix)
        TK_POINT_OFFSET(at_b, 1, matrix)
        TK_POINT_OFFSET(at_c, 2, matrix)
        const tk_idx top = block % down * height;
        const tk_idx end = TK_M - top < height ? TK_M : top + height;
        const tk_idx left = block / down % across * width;
        const tk_idx right = TK_N - left < width ? TK_N : left + width;
        tk_idx start = 0;
        do {
            const tk_i32 depth =
                (tk_i32)(TK_K - start < TK_DEPTH ? TK_K - start : TK_DEPTH);
            for (tk_i32 k = 0; k < depth; k++)
                for (tk_idx column = left; column < right;
                     column += TK_COLUMNS) {
                    TK_G TK_VALUE *to = pack + (column - left) * TK_DEPTH +
                                        k * TK_COLUMNS;
                    const tk_idx next = start + k;
                    if (right - column >= TK_COLUMNS)
                        for (tk_i32 j = 0; j < TK_COLUMNS; j++)
                            to[j] = TK_FROM(TK_B(next, column + j));
                    else
                        for (tk_i32 j = 0; j < TK_COLUMNS; j++)
                            to[j] = column + j < right
                                        ? TK_FROM(TK_B(next, column + j))
                                        : (TK_VALUE)0;
                }
            for (tk_idx row = top; row < end; row += TK_ROWS) {
                const tk_i32 rows =
                    (tk_i32)(end - row < TK_ROWS ? end - row : TK_ROWS);
                /* If there are fewer than TK_ROWS rows, the first is used in
                 * place of the missing ones. */
                for (tk_i32 i = 0; i < TK_ROWS; i++) {
                    const tk_idx from = row + (i < rows ? i : 0);
                    for (tk_i32 k = 0; k < depth; k++)
                        a_rows[k][i] = TK_FROM(TK_A(from, start + k));
                }
                for (tk_idx column = left; column < right;
                     column += TK_COLUMNS) {
                    TK_G const TK_VALUE *strip =
                        pack + (column - left) * TK_DEPTH;
                    TK_G TK_VALUE *saved =
                        sums + (row - top) * width + (column - left) * TK_ROWS;
                    const tk_i32 columns = (tk_i32)(
                        right - column < TK_COLUMNS ? right - column
                                                    : TK_COLUMNS);
                    TK_VALUE sum[TK_ROWS][TK_COLUMNS];
                    for (tk_i32 i = 0; i < TK_ROWS; i++)
                        for (tk_i32 j = 0; j < TK_COLUMNS; j++)
                            sum[i][j] = start == 0 ? (TK_VALUE)0
                                                   : saved[i * TK_COLUMNS + j];
                    for (tk_i32 k = 0; k < depth; k++)
                        for (tk_i32 i = 0; i < TK_ROWS; i++)
                            for (tk_i32 j = 0; j < TK_COLUMNS; j++)
                                sum[i][j] = TK_MULTIPLY_ADD(
                                    a_rows[k][i], strip[k * TK_COLUMNS + j],
                                    sum[i][j]);
                    if (TK_K - start > TK_DEPTH)
                        for (tk_i32 i = 0; i < TK_ROWS; i++)
                            for (tk_i32 j = 0; j < TK_COLUMNS; j++)
                                saved[i * TK_COLUMNS + j] = sum[i][j];
                    else
                        for (tk_i32 i = 0; i < rows; i++)
                            for (tk_i32 j = 0; j < columns; j++)
                                TK_STORE_SUM(row + i, column + j, sum[i][j])
                }
            }
            start += TK_DEPTH;
        } while (start < TK_K);
    }
}

#elif defined TK_CHUNKED

/* A work-item computes tiles of 4 x 16 sums. 16 columns are one or two
 * vectors. */
#define TK_COLUMNS 16
#define TK_SUM(rows, columns)                                                 \
    for (tk_idx k = 0; k < TK_K; k++)                                         \
        for (tk_i32 i = 0; i < rows; i++) {                                   \
            const TK_VALUE x = TK_FROM(TK_A(row + i, k));                     \
            for (tk_i32 j = 0; j < columns; j++)                              \
                sum[i][j] = TK_MULTIPLY_ADD(                                  \
                    x, TK_FROM(TK_B(k, column + j)), sum[i][j]);              \
        }

TK_KERNEL tn_matmul(TK_G const TK_STORED *a, TK_G const TK_STORED *b,
                    TK_G TK_STORED *c, TK_WORDS)
{
    const tk_idx across = (TK_N + TK_COLUMNS - 1) / TK_COLUMNS;
    const tk_idx down = (TK_M + TK_ROWS - 1) / TK_ROWS;
    const tk_idx tiles = (tk_idx)TK_WORD(0) * across * down;
    const tk_idx share = (tiles + TK_ITEMS - 1) / TK_ITEMS;
    const tk_idx first = TK_FIRST * share;
    for (tk_idx tile = first; tile < first + share && tile < tiles; tile++) {
        const tk_idx matrix = tile / across / down;
        TK_POINT_OFFSET(at_a, 0, matrix)
        TK_POINT_OFFSET(at_b, 1, matrix)
        TK_POINT_OFFSET(at_c, 2, matrix)
        const tk_idx row = tile % down * TK_ROWS;
        const tk_idx column = tile / down % across * TK_COLUMNS;
        const tk_i32 rows =
            (tk_i32)(TK_M - row < TK_ROWS ? TK_M - row : TK_ROWS);
        const tk_i32 columns = (tk_i32)(
            TK_N - column < TK_COLUMNS ? TK_N - column : TK_COLUMNS);
        TK_VALUE sum[TK_ROWS][TK_COLUMNS];
        for (tk_i32 i = 0; i < TK_ROWS; i++)
            for (tk_i32 j = 0; j < TK_COLUMNS; j++)
                sum[i][j] = 0;
        if (rows == TK_ROWS && columns == TK_COLUMNS) {
            TK_SUM(TK_ROWS, TK_COLUMNS)
        } else {
            TK_SUM(rows, columns)
        }
        for (tk_i32 i = 0; i < rows; i++)
            for (tk_i32 j = 0; j < columns; j++)
                TK_STORE_SUM(row + i, column + j, sum[i][j])
    }
}

#else

/* The file that follows, tile.cl, uses the macros below. */
#define TK_NAME tn_matmul
#define TK_EXTRA_BUFFERS
#define TK_SHARES 1
#define TK_TILE_BEGIN
#define TK_SUMS_BEGIN
#define TK_DEPTH TK_K
#define TK_LOAD_A(e, i, k) TK_FROM(TK_A(i, k))
#define TK_LOAD_B(e, k, j) TK_FROM(TK_B(k, j))
#define TK_NEXT
#define TK_SUMS_END
#define TK_SUM sum
#define TK_COLUMN_BEGIN(j)
#define TK_STORE(i, j, sum) TK_STORE_SUM(i, j, sum)

#endif
