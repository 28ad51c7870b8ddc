/* winograd_windows.c: transforms the windows of Winograd's convolution, for
 * conv_winograd.c and conv_winograd_weight.c. A tile is 2 x 2 pixels of the
 * result, or 2 pixels of a row. Its window is the pixels that it reads. */
#include <string.h>

#include "conv_winograd.h"

/* Transforms the windows of tiles [first, end), which are within one image, or
 * within one row of tiles if winograd_is_wide(). */
static void transform_image(const winograd *w, const winograd_windows *x,
                            int64_t first, int64_t end)
{
    const conv_images *from = &w->from;
    const bool wide = winograd_is_wide(w);
    int64_t row = first / w->tiles[1], rows = (end - 1) / w->tiles[1] - row + 1;
    int64_t column = wide ? first % w->tiles[1] : 0;
    int64_t half = (wide ? end - first : w->tiles[1]) + 1;
    int64_t image = row / w->tiles[0];
    row -= image * w->tiles[0];
    /* The rows and columns of the image that the tiles read, and their position
     * in the frame, which is a padded copy. */
    int64_t low = w->high * row - w->pad[0], start = low < 0 ? 0 : low;
    int64_t height = w->high * rows + 2 * (w->high - 1);
    height = tn__cpu_min(low + height, from->size[0]) - start;
    int64_t side = 2 * column - w->pad[1], left = side < 0 ? 0 : side;
    int64_t width = tn__cpu_min(side + 2 * half, from->size[1]) - left;
    float *frame = x->frame, *v = x->v + first - x->first;
    memset(frame, 0, (size_t)winograd_frame(w, rows) * sizeof *frame);
    const float *in = (const float *)from->memory + image * from->stride[0] +
                      x->channel * from->stride[1] + start * from->stride[2] +
                      left;
    float *inner = frame + (start - low) * 2 * half;
    for (int64_t c = 0; c < x->channels; c++, in += from->stride[1]) {
        if (height > 0 && width > 0)
            w->routines->split(inner, half, in, from->stride[2], height, width,
                               left - side);
        for (int64_t t = first; t < end;) {
            tile_run run = winograd_tile_run(w, t, end);
            w->routines->windows(v + c * x->step + t - first, x->plane,
                                 frame + (run.row - row) * w->high * 2 * half +
                                     run.column - column,
                                 half, run.count);
            t += run.count;
        }
    }
}

void tn__cpu_winograd_windows(const winograd *w,
                              const winograd_windows *windows)
{
    const int64_t span =
        winograd_is_wide(w) ? w->tiles[1] : w->tiles[0] * w->tiles[1];
    for (int64_t t = windows->first, next; t < windows->end; t = next) {
        next = tn__cpu_min((t / span + 1) * span, windows->end);
        transform_image(w, windows, t, next);
    }
}
