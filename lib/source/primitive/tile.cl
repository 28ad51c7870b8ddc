/* tile.cl: the tiled matrix product of matmul.cl and conv.cl, for each matrix
 * of a batch, on devices whose work-groups have many work-items. A work-group
 * of TK_SIDE * TK_SIDE work-items computes a square tile of c, TK_EACH *
 * TK_EACH sums in each work-item. TK_SIDE columns of a and TK_SIDE rows of b
 * are in local memory at a time. These macros are defined before it:
 *   TK_NAME           name of the kernel
 *   TK_EXTRA_BUFFERS  its buffers besides a, b and c
 *   TK_SHARES         number of tiles whose sums are added later; 1 if none
 *   TK_TILE_BEGIN     declarations at the beginning of a tile
 *   TK_SUMS_BEGIN, TK_SUMS_END  enclose one sum over TK_DEPTH values of k
 *   TK_LOAD_A(e, i, k), TK_LOAD_B(e, k, j)  load the e-th element of a and of b
 *                     of this work-item
 *   TK_NEXT           advances k by TK_SIDE
 *   TK_SUM, TK_COLUMN_BEGIN(j), TK_STORE(i, j, sum)  store the sums */
#define TK_TILE (TK_SIDE * TK_EACH)
TK_KERNEL TK_NAME(TK_G const TK_STORED *a, TK_G const TK_STORED *b,
                  TK_G TK_STORED *c, TK_EXTRA_BUFFERS TK_WORDS)
{
    TK_SHARED(TK_VALUE, tile_a, TK_TILE * (TK_SIDE + 1));
    TK_SHARED(TK_VALUE, tile_b, TK_SIDE * (TK_TILE + 1));
    const tk_idx across = (TK_N + TK_TILE - 1) / TK_TILE;
    const tk_idx down = (TK_M + TK_TILE - 1) / TK_TILE;
    const tk_idx tiles = TK_SHARES * (tk_idx)TK_WORD(0) * across * down;
    const tk_i32 i = TK_LOCAL / TK_SIDE, j = TK_LOCAL % TK_SIDE;
    for (tk_idx tile = TK_GROUP; tile < tiles; tile += TK_GROUPS) {
        const tk_idx matrix = tile / across / down % (tk_idx)TK_WORD(0);
        TK_POINT_OFFSET(at_a, 0, matrix)
        TK_POINT_OFFSET(at_b, 1, matrix)
        TK_POINT_OFFSET(at_c, 2, matrix)
        const tk_idx row = tile / across % down * TK_TILE + i;
        const tk_idx column = tile % across * TK_TILE + j;
        TK_VALUE sum[TK_EACH][TK_EACH];
        TK_TILE_BEGIN
        TK_SUMS_BEGIN
        for (tk_i32 y = 0; y < TK_EACH; y++)
            for (tk_i32 x = 0; x < TK_EACH; x++)
                sum[y][x] = 0;
        for (tk_idx start = 0; start < TK_DEPTH; start += TK_SIDE) {
            for (tk_i32 e = 0; e < TK_EACH; e++) {
                const tk_idx from = row + e * TK_SIDE;
                const tk_idx to = column + e * TK_SIDE;
                TK_VALUE of_a = 0, of_b = 0;
                if (from < TK_M && start + j < TK_DEPTH)
                    of_a = TK_LOAD_A(e, from, start + j);
                if (to < TK_N && start + i < TK_DEPTH)
                    of_b = TK_LOAD_B(e, start + i, to);
                tile_a[(i + e * TK_SIDE) * (TK_SIDE + 1) + j] = of_a;
                tile_b[i * (TK_TILE + 1) + j + e * TK_SIDE] = of_b;
            }
            TK_NEXT
            TK_BARRIER();
            const tk_i32 most = (tk_i32)(
                TK_DEPTH - start < TK_SIDE ? TK_DEPTH - start : TK_SIDE);
            for (tk_i32 k = 0; k < most; k++)
                for (tk_i32 y = 0; y < TK_EACH; y++)
                    for (tk_i32 x = 0; x < TK_EACH; x++)
                        sum[y][x] = TK_MULTIPLY_ADD(
                            tile_a[(i + y * TK_SIDE) * (TK_SIDE + 1) + k],
                            tile_b[k * (TK_TILE + 1) + j + x * TK_SIDE],
                            sum[y][x]);
            TK_BARRIER();
        }
        TK_SUMS_END
        for (tk_i32 x = 0; x < TK_EACH; x++) {
            const tk_idx to = column + x * TK_SIDE;
            if (to < TK_N) {
                TK_COLUMN_BEGIN(to)
                for (tk_i32 y = 0; y < TK_EACH; y++)
                    if (row + y * TK_SIDE < TK_M)
                        TK_STORE(row + y * TK_SIDE, to, TK_SUM[y][x])
            }
        }
    }
}
