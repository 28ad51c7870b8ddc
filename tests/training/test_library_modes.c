/* test_library_modes.c: tests that process-wide settings do not change what
 * libtenon-media, libtenon-onnx and libtenon-lm compute on the host, read and
 * write (modes.h). */
#include <tenon/curves.h>
#include <tenon/image.h>
#include <tenon/lm.h>
#include <tenon/npy.h>
#include <tenon/onnx.h>
#include <tenon/sound.h>
#include <tenon/transform.h>
#include <tenon/vision.h>

#include "../modes.h"
#include "../onnx/writer.h"

/* ---- media --------------------------------------------------------------- */

static void images(void)
{
    const double mean[] = {0.485, 0.456, 0.406}, wide[] = {0.229, 0.224, 0.225};
    /* Transforms of images need memory that the CPU can use. */
    tn_device *device = tn_device_current();
    tn_device_set(tn_device_open("cpu"));
    tn_tensor *u8 = tn_randint(0, 256, tn_dims(3, 21, 29), .dtype = TN_U8);
    tn_tensor *f32 = tn_rand(tn_dims(3, 21, 29));
    record_tensor("resize of uint8", tn_image_resize(u8, 13, 37));
    record_tensor("resize", tn_image_resize(f32, 13, 37, .mode = "bicubic"));
    record_tensor("rotate", tn_image_rotate(u8, 33, .mode = "bilinear"));
    record_tensor("affine", tn_image_affine(f32, .degrees = 20, .scale = 1.3,
                                            .mode = "bilinear"));
    record_tensor("brightness", tn_image_adjust_brightness(u8, 1.3));
    record_tensor("contrast", tn_image_adjust_contrast(u8, 0.7));
    record_tensor("saturation", tn_image_adjust_saturation(f32, 1.7));
    record_tensor("hue", tn_image_adjust_hue(u8, 0.1));
    record_tensor("greys", tn_image_grayscale(f32, 1));
    record_tensor("bytes as floats", tn_image_to_float(u8));
    record_tensor("normalize", tn_image_normalize(f32, mean, wide, 3));
    record_tensor("a random crop", tn_image_random_resized_crop(u8, 16, 16));
    record_tensor("jitter", tn_image_color_jitter(u8, .brightness = 0.4,
                                                  .contrast = 0.4, .hue = 0.2));
    record_tensor("erasing", tn_image_random_erasing(u8));
    record_tensor("a random affine", tn_image_random_affine(
                                         f32, .degrees = 30, .scale_max = 1.2));
    record_tensor("a picture for a classifier",
                  tn_image_prepare(u8, .resize = 18, .crop = 16));
    tn_device_set(device);
    const double sizes[] = {31.5}, ratios[] = {0.5, 1.1};
    record_tensor("anchors", tn_anchors(2, 2, sizes, 1, .ratios = ratios,
                                        .ratio_count = 2));
    tn_tensor *boxes = tn_rand(tn_dims(40, 4));
    boxes = tn_cat((tn_tensor *[]){tn_narrow(boxes, 1, 0, 2),
                                   tn_add_scalar(tn_narrow(boxes, 1, 2, 2), 1)},
                   2, 1);
    record_tensor("boxes", tn_nms(boxes, tn_rand(tn_dims(40)), 0.45));
}

static void sounds(void)
{
    tn_tensor *wave = tn_mul_scalar(tn_randn(tn_dims(1, 700)), 0.2);
    record_tensor("resample", tn_resample(wave, 8000, 5512));
    record_tensor("a spectrogram", tn_spectrogram(wave, 100));
    record_tensor("filters", tn_melscale_fbanks(65, 20, 8000));
    record_tensor("coefficients", tn_mfcc(wave, 8000, .n_mfcc = 13));
    tn_wav_save(scratch_file, wave, 8000);
    record_file("a WAV file");
    record_tensor("its samples", tn_wav_load(scratch_file, NULL));
}

static void curves(void)
{
    write_file("step,loss\n1,0.25\n2,1.5e-3\n3,1234.5678\n");
    tn_curves *all = tn_curves_new();
    tn_curves_add(all, scratch_file, "run");
    char picture[80];
    snprintf(picture, sizeof picture, "%s.svg", scratch_file);
    tn_curves_plot(all, picture, .smooth = 0.6);
    rename(picture, scratch_file);
    record_file("a drawing of curves");
    tn_npy_save(scratch_file, tn_rand(tn_dims(3, 5)));
    record_file("an array");
}

/* ---- models -------------------------------------------------------------- */

/* The operators have attributes that the file leaves out. */
static void onnx(void)
{
    message model = {0}, graph = {0};
    add_node(&graph, "LeakyRelu", "x", "a");
    add_node(&graph, "HardSigmoid", "a", "b");
    add_node(&graph, "Selu", "b", "c");
    add_node(&graph, "Shrink", "c", "y");
    add_value(&graph, GRAPH_INPUT, "x", 1, 1, (int64_t[]){50});
    add_value(&graph, GRAPH_OUTPUT, "y", 1, 1, (int64_t[]){50});
    finish_model(&model, &graph, 17);
    save(&model, scratch_file);
    record_tensor("an ONNX model", tn_forward(tn_onnx_open(scratch_file),
                                              tn_linspace(-3, 3, 50)));
}

static void language(const char *name)
{
    enum { PROMPT = 20, TOKENS = 12 };
    const char *source = getenv("top_srcdir");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/tests/lm/data/%s", source ? source : ".",
             name);
    tn_lm *lm = tn_lm_open(folder);
    int64_t prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 2 + i * 7 % 60;
    tn_lm_result *text =
        tn_lm_generate(lm, prompt, PROMPT, .max_tokens = TOKENS,
                       .temperature = 0.9, .top_p = 0.95, .ignore_eos = true);
    if (!text)
        return;
    record_bytes("tokens", tn_lm_result_ids(text, 0),
                 TOKENS * sizeof(int64_t));
    record_bytes("their probabilities", tn_lm_result_logprobs(text, 0),
                 TOKENS * sizeof(double));
}

static void compute(void)
{
    images();
    sounds();
    curves();
    onnx();
    language("llama");
    language("rope_yarn");
}

int main(void)
{
    plan_later();
    test_modes(compute);
    return done_testing();
}
