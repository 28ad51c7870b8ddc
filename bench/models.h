/* models.h: the networks that several benchmarks train or run. */
#ifndef BENCH_MODELS_H
#define BENCH_MODELS_H

#include <tenon/tenon.h>

/* 784 features, 128 hidden ones, 10 classes. */
tn_module *bench_mlp(void);
/* For images (N, 1, 8, 8), as in examples/digits.c. */
tn_module *bench_cnn(void);
/* For images (N, 1, 28, 28), as in PyTorch's MNIST example. */
tn_module *bench_cnn28(void);
/* ResNet-20 for images (N, 3, 32, 32), arXiv:1512.03385 section 4.2. Where the
 * size changes, the shortcut is a 1 x 1 convolution. */
tn_module *bench_resnet20(void);
/* ResNet-50 for images (N, 3, 224, 224), the same paper, table 1. A block's
 * stride is in its 3 x 3 convolution, as in torchvision. */
tn_module *bench_resnet50(void);
/* Ids (N, T) to scores (N, T, vocabulary): 4 layers of 128 features with 4
 * heads, as examples/char_gpt.c has it, contexts of at most 128. */
tn_module *bench_gpt(int64_t vocabulary);
/* GPT-2; with 12 layers OpenAI's model of 124 million parameters. As many heads
 * of 64 features as layers, 50,257 tokens, tied input and output embeddings.
 * Ids (N, T) to scores (N, T, tokens), T at most length. */
enum { BENCH_GPT2_WORDS = 50257, BENCH_GPT2_HEAD = 64 };
tn_module *bench_gpt2(int64_t layers, int64_t length);

#endif
