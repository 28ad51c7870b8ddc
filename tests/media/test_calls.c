/* test_calls.c: what all functions of libtenon-media have in common.
 *
 * While an error is pending, a function that returns a status returns
 * TN_ERR_STATE, and the error stays; other functions work, and leave the error
 * as it is, also if their own work fails. A function that gets an object of
 * another kind records an error, also if it only returns an attribute.
 *
 * calls.awk generates the calls from the headers, so a new function is included
 * automatically. */
#include <tap.h>

#include <tenon/curves.h>
#include <tenon/dlpack.h>
#include <tenon/events.h>
#include <tenon/image.h>
#include <tenon/npy.h>
#include <tenon/safetensors_shards.h>
#include <tenon/sound.h>
#include <tenon/tenon.h>
#include <tenon/torch_file.h>
#include <tenon/transform.h>
#include <tenon/vision.h>
#include <unistd.h>

static const char earlier[] = "earlier: the first error";

static void make_pending(void)
{
    tn_error_clear();
    tn_error_refuse_argument(TN_ERR_SHAPE, "earlier", NULL, "the first error");
}

static bool is_unchanged(void)
{
    return tn_error_code() == TN_ERR_SHAPE && tn_error() &&
           strcmp(tn_error(), earlier) == 0;
}

static void check_status(const char *name, tn_status status)
{
    is_int(status, TN_ERR_STATE, "%s returns TN_ERR_STATE", name);
    ok(is_unchanged(), "%s: the pending error stays", name);
}

static void check_kind(const char *name)
{
    const bool named = tn_error() && strncmp(name + 3, tn_error(),
                                             strcspn(tn_error(), ":")) == 0;
    ok(named, "%s refuses an object of another kind", name);
    if (!named)
        note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void check_all(void)
{
    void *wrong = tn_ones(tn_dims(2));
#define PENDING_STATUS(fn, call)                                              \
    make_pending();                                                           \
    check_status(#fn, call);
#define WRONG_KIND(fn, call)                                                  \
    tn_error_clear();                                                         \
    (void)call;                                                               \
    check_kind(#fn);
#include "tests/media/calls.inc"
    tn_error_clear();
}

/* ---- makers while an error is pending ------------------------------------ */

static tn_tensor *wave, *image, *boxes;

/* Calls that fail. Each has a part that fails with the error of another public
 * call, which is `from`. */
static void fails_spectrogram(void)
{
    tn_mel_spectrogram(tn_zeros(tn_dims(1, 5)), 8000);
}
static void fails_mfcc(void)
{
    tn_mfcc(tn_zeros(tn_dims(1, 5)), 8000);
}
static void fails_crop(void)
{
    tn_image_random_crop(image, 2, 2, .mode = "none");
}
static void fails_resized_crop(void)
{
    tn_image_random_resized_crop(image, 0, 2);
}
static void fails_affine(void)
{
    tn_image_random_affine(image, .mode = "none");
}
static void fails_mnist(void)
{
    tn_dataset_mnist("no-such-folder", true);
}
static void fails_shards(void)
{
    tn_safetensors_shards_open("no-such-folder/model.safetensors");
}
static void fails_torch(void)
{
    tn_torch_file_open_memory("x", 1);
}
static void fails_npz(void)
{
    tn_npz_open_memory("PK", 2);
}
static void works_iou(void)
{
    tn_box_iou(boxes, boxes);
}
static void works_loss(void)
{
    tn_generalized_box_iou_loss(boxes, boxes);
}
static void works_align(void)
{
    tn_roi_align(tn_zeros(tn_dims(1, 1, 4, 4)), tn_zeros(tn_dims(2, 5)), 2, 2);
}
static void works_mel(void)
{
    tn_mel_spectrogram(wave, 8000);
}
static void works_flip(void)
{
    tn_image_random_flip(image);
}

static void check_makers(void)
{
    static const struct {
        void (*run)(void);
        const char *name, *from;
    } row[] = {
        {fails_spectrogram, "mel_spectrogram", "spectrogram"},
        {fails_mfcc, "mfcc", "mel_spectrogram"},
        {fails_crop, "image_random_crop", "image_pad"},
        {fails_resized_crop, "image_random_resized_crop",
         "image_resized_crop"},
        {fails_affine, "image_random_affine", "image_affine"},
        {fails_mnist, "dataset_mnist", "idx_load"},
        {fails_shards, "safetensors_shards_open", "safetensors_open"},
        {fails_torch, "torch_file_open_memory", "torch_file_open_memory"},
        {fails_npz, "npz_open_memory", "npz_open_memory"},
        {works_iou, "box_iou", "box_iou"},
        {works_loss, "generalized_box_iou_loss", "generalized_box_iou_loss"},
        {works_align, "roi_align", "media_roi_align"},
        {works_mel, "mel_spectrogram", "spectrogram"},
        {works_flip, "image_random_flip", "image_flip"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        TN_SCOPE(scope) {
            char want[80];
            snprintf(want, sizeof want, "%s: the first error", row[i].from);
            tn_error_refuse_argument(TN_ERR_MEMORY, row[i].from, NULL,
                                     "the first error");
            row[i].run();
            is_str(tn_error(), want, "%s leaves an earlier error of %s",
                   row[i].name, row[i].from);
            is_int(tn_error_code(), TN_ERR_MEMORY, "and its code");
            tn_error_clear();
        }
    make_pending();
    ok(tn_box_iou(boxes, boxes) && tn_image_flip(image) &&
           tn_spectrogram(wave, 64) && is_unchanged(),
       "makers work while an error is pending");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    tn_scope *scope = tn_scope_open();
    wave = tn_zeros(tn_dims(1, 4000));
    image = tn_zeros(tn_dims(3, 4, 4), .dtype = TN_U8);
    boxes = tn_zeros(tn_dims(2, 4));
    check_all();
    check_makers();
    tn_scope_close(scope);
    return done_testing();
}
