/* onnx_classify: classifies an image with an ONNX model, and prints the most
 * likely classes. Without an image, classifies random numbers.
 *
 *     onnx_classify MODEL.onnx [IMAGE.ppm [LABELS.txt]]
 *
 * The model must have one input (batch, 3, height, width) with numbers from 0
 * to 1. The image is a binary PPM file (P6), which most image programs can
 * write. */
#include <stdio.h>
#include <string.h>
#include <tenon/onnx.h>
#include <tenon/tenon.h>

/* Reads a P6 file as a tensor (1, 3, height, width). */
static tn_tensor *read_image(const char *path)
{
    static unsigned char pixels[4096 * 4096 * 3];
    int width, height;
    FILE *file = fopen(path, "rb");
    const bool fine =
        file && fscanf(file, "P6 %4d %4d 255", &width, &height) == 2 &&
        width > 0 && width <= 4096 && height > 0 && height <= 4096 &&
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
    if (argc < 2 || argc > 4)
        return fprintf(stderr, "usage: onnx_classify MODEL.onnx [IMAGE.ppm "
                               "[LABELS.txt]]\n"), 2;
    tn_module *net = tn_onnx_open(argv[1]);
    tn_onnx_value_info info = {.size = sizeof info};
    if (!net || tn_onnx_input(net, 0, &info) < 0 || info.ndim != 4)
        return fprintf(stderr, "%s\n", tn_error() ? tn_error()
                                                  : "the model's input is not an image"), 1;
    const int64_t height = info.shape[2] > 0 ? info.shape[2] : 224,
                  width = info.shape[3] > 0 ? info.shape[3] : 224;
    tn_tensor *image = argc > 2 ? read_image(argv[2])
                                : tn_rand(tn_dims(1, 3, height, width));
    image = tn_interpolate(image, tn_dims(height, width), .mode = "bilinear");
    tn_tensor *score = tn_flatten(tn_forward(net, image)), *index = NULL;
    const int64_t classes = tn_tensor_numel(score), k = classes < 5 ? classes : 5;
    tn_tensor *best = tn_topk(score, k, 0, true, true, &index);
    for (int64_t i = 0; i < k && best; i++) {
        print_label(argc > 3 ? argv[3] : NULL, tn_item_int(tn_select(index, 0, i)));
        printf(": %.4f\n", tn_item(tn_select(best, 0, i)));
    }
    if (tn_error())
        fprintf(stderr, "%s\n", tn_error());
    return tn_error() != NULL;
}
