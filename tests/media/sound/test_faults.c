/* test_faults.c: makes each allocation fail in turn, in the functions of
 * <tenon/sound.h> and <tenon/vision.h>. The call must report TN_ERR_MEMORY and
 * leak nothing, and the next call must work. */
#include "../../fault_sweep.h"

#include "../vision/stored.h"

#include <tenon/sound.h>
#include <tenon/vision.h>
#include <unistd.h>

static tn_tensor *x, *boxes, *scores, *classes, *image, *rois;
static char folder[] = "/tmp/tenon-media-faults-XXXXXX", path[64];

static bool try_save(void)
{
    return tn_wav_save(path, x, 8000, .format = "pcm16") == TN_OK;
}

static bool try_load(void)
{
    return tn_wav_load(path, NULL);
}

static bool try_resample(void)
{
    return tn_resample(x, 3, 2);
}

static bool try_mfcc(void)
{
    tn_mel_spectrogram_options o = TN_MEL_SPECTROGRAM_OPTIONS;
    o.n_fft = 64;
    o.n_mels = 8;
    return tn_mfcc(x, 8000, .n_mfcc = 4, .mel = &o);
}

static bool try_inverse(void)
{
    return tn_inverse_spectrogram(
        tn_spectrogram(x, 32, .hop_length = 8, .power = 0), 32,
        .hop_length = 8);
}

static bool try_mu_law(void)
{
    return tn_mu_law_decoding(tn_mu_law_encoding(x, 256), 256);
}

static bool try_nms(void)
{
    return tn_batched_nms(boxes, scores, classes, 0.5) &&
           tn_remove_small_boxes(boxes, 1) &&
           tn_clip_boxes_to_image(boxes, 5, 5);
}

static bool try_iou(void)
{
    return tn_complete_box_iou(boxes, boxes) &&
           tn_generalized_box_iou_loss(boxes, boxes, .reduction = "sum") &&
           tn_box_convert(boxes, "xyxy", "cxcywh") && tn_box_area(boxes) &&
           tn_sigmoid_focal_loss(scores, scores);
}

static bool try_align(void)
{
    tn_tensor *leaf = tn_requires_grad(tn_clone(image));
    tn_tensor *y = tn_roi_align(leaf, rois, 2, 2, .spatial_scale = 0.5);
    return y && tn_backward(tn_sum(y)) == TN_OK;
}

static bool try_pool(void)
{
    tn_tensor *leaf = tn_requires_grad(tn_clone(image));
    tn_tensor *y = tn_roi_pool(leaf, rois, 2, 2);
    return y && tn_backward(tn_sum(y)) == TN_OK;
}

static bool try_anchors(void)
{
    const double sizes[] = {8, 16};
    tn_tensor *a = tn_anchors(2, 3, sizes, 2);
    return a && tn_box_decode(tn_box_encode(a, a, NULL), a, NULL);
}

static bool try_mean_ap(void)
{
    tn_mean_ap *m = tn_mean_ap_new();
    tn_mean_ap_result r = {.size = sizeof r};
    return tn_mean_ap_update(m, boxes, scores, classes, boxes, classes) ==
               TN_OK &&
           tn_mean_ap_compute(m, &r) == TN_OK && tn_mean_ap_classes(m);
}

int main(void)
{
    if (!MALLOC_FAULTS)
        return printf("1..0 # SKIP malloc cannot be made to fail here\n") < 0;
    plan_later();
    tn_set_num_threads(1);
    if (!mkdtemp(folder))
        bail_out("no scratch folder");
    snprintf(path, sizeof path, "%s/x.wav", folder);
    x = noise(tn_dims(2, 300), 1, -1, 1, TN_F32);
    boxes = noise(tn_dims(9, 4), 2, 0, 9, TN_F32);
    scores = noise(tn_dims(9), 3, 0, 1, TN_F32);
    classes = tn_zeros(tn_dims(9), .dtype = TN_I64);
    image = noise(tn_dims(1, 2, 9, 9), 4, -1, 1, TN_F32);
    rois = tn_cat((tn_tensor *[]){tn_zeros(tn_dims(9, 1)), boxes}, 2, 1);
    fails_in_turn(try_save, "wav_save");
    fails_in_turn(try_load, "wav_load");
    fails_in_turn(try_resample, "resample");
    fails_in_turn(try_mfcc, "mfcc");
    fails_in_turn(try_inverse, "spectrogram and its inverse");
    fails_in_turn(try_mu_law, "mu_law");
    fails_in_turn(try_nms, "nms");
    fails_in_turn(try_iou, "box_iou and losses");
    fails_in_turn(try_align, "roi_align");
    fails_in_turn(try_pool, "roi_pool");
    fails_in_turn(try_anchors, "anchors and codes");
    fails_in_turn(try_mean_ap, "mean_ap");
    unlink(path);
    is_int(rmdir(folder), 0, "no other file is left");
    return done_testing();
}
