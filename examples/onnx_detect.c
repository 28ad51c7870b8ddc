/* onnx_detect: prints the objects that an ONNX model finds in an image.
 *
 *     onnx_detect MODEL.onnx IMAGE.ppm [LABELS.txt]
 *
 * The model has one input (1, 3, height, width) with numbers from 0 to 1, and
 * the outputs of torchvision's detectors, which select boxes by
 * NonMaxSuppression: boxes (n, 4) as left, top, right, bottom; labels (n);
 * scores (n). The image is a binary PPM file (P6), which most image programs
 * can write. */
#include <stdio.h>
#include <string.h>
#include <tenon/onnx.h>
#include <tenon/tenon.h>

enum { SIDE = 4096 };

/* Reads a P6 file as a tensor (1, 3, height, width). */
static tn_tensor *read_image(const char *path)
{
    static unsigned char pixels[SIDE * SIDE * 3];
    int width, height;
    FILE *file = fopen(path, "rb");
    const bool fine =
        file && fscanf(file, "P6 %4d %4d 255", &width, &height) == 2 &&
        width > 0 && width <= SIDE && height > 0 && height <= SIDE &&
        fgetc(file) != EOF &&
        fread(pixels, 3, (size_t)(width * height), file) ==
            (size_t)(width * height);
    if (file)
        fclose(file);
    if (!fine)
        return tn_error_set(TN_ERR_IO, "%s: no P6 image", path), NULL;
    tn_tensor *x = tn_tensor_from_array(pixels, TN_U8, tn_dims(height, width, 3));
    x = tn_permute(tn_div_scalar(x, 255.0), tn_dims(2, 0, 1));
    return tn_unsqueeze(x, 0);
}

/* Prints the label of class i: line i of the file, or the index i if there is
 * no such line. */
static void print_label(const char *path, int64_t i)
{
    char line[256] = "";
    FILE *file = path ? fopen(path, "r") : NULL;
    for (int64_t n = 0; file && n <= i && fgets(line, sizeof line, file); n++)
        continue;
    if (file)
        fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    printf("class %lld %s", (long long)i, line);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4)
        return fprintf(stderr, "usage: onnx_detect MODEL.onnx IMAGE.ppm "
                               "[LABELS.txt]\n"), 2;
    enum { BOXES, LABELS, SCORES, OUTPUTS };
    tn_tensor *out[OUTPUTS] = {NULL}, *image = read_image(argv[2]);
    tn_module *net = image ? tn_onnx_open(argv[1]) : NULL;
    if (net && tn_onnx_run(net, &image, 1, out, OUTPUTS) == TN_OK) {
        const int64_t n = tn_tensor_numel(out[SCORES]);
        tn_tensor *box = tn_reshape(out[BOXES], tn_dims(n, 4));
        for (int64_t i = 0; i < n && !tn_error(); i++) {
            float at[4];
            tn_tensor_to_array(tn_select(box, 0, i), at, sizeof at);
            print_label(argc > 3 ? argv[3] : NULL,
                        tn_item_int(tn_select(out[LABELS], 0, i)));
            printf(": %.4f, left %.0f, top %.0f, right %.0f, bottom %.0f\n",
                   tn_item(tn_select(out[SCORES], 0, i)), (double)at[0],
                   (double)at[1], (double)at[2], (double)at[3]);
        }
    }
    if (tn_error())
        fprintf(stderr, "%s\n", tn_error());
    return tn_error() != NULL;
}
