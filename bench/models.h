/* models.h: the networks that several benchmarks train or run. */
#ifndef BENCH_MODELS_H
#define BENCH_MODELS_H

#include <tenon/tenon.h>

/* Creates a network with 784 features, 128 hidden features and 10 classes. */
tn_module *bench_mlp(void);
/* Creates a convolutional network for images (N, 1, 8, 8), as in
 * examples/digits.c. */
tn_module *bench_cnn(void);
/* Creates a convolutional network for images (N, 1, 28, 28), as in PyTorch's
 * MNIST example. */
tn_module *bench_cnn28(void);
/* Creates ResNet-20 for images (N, 3, 32, 32) (arXiv:1512.03385, section 4.2).
 * Where the image size changes, the shortcut is a 1 x 1 convolution. */
tn_module *bench_resnet20(void);
/* Creates ResNet-50 for images (N, 3, 224, 224) (the same paper, table 1). A
 * block's stride is in its 3 x 3 convolution, as in torchvision. */
tn_module *bench_resnet50(void);
/* Creates a GPT like that of examples/char_gpt.c: 4 layers with 128 features
 * and 4 heads, and contexts of at most 128 ids. Maps ids (N, T) to scores (N,
 * T, vocabulary). */
tn_module *bench_gpt(int64_t vocabulary);
/* GPT-2. With 12 layers it is OpenAI's model of 124 million parameters. The
 * number of heads equals the number of layers. A head has 64 features. Input
 * and output embeddings of 50,257 tokens are the same tensor. Maps ids (N, T)
 * to scores (N, T, tokens), where T is at most `length`. */
enum { BENCH_GPT2_WORDS = 50257, BENCH_GPT2_HEAD = 64 };
tn_module *bench_gpt2(int64_t layers, int64_t length);

#endif
