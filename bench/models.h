/* models.h: the networks that several benchmarks train or run. */
#ifndef BENCH_MODELS_H
#define BENCH_MODELS_H

#include <tenon/tenon.h>

/* 784 features, 128 hidden ones, 10 classes. */
tn_module *bench_mlp(void);
/* Of images (N, 1, 8, 8), as examples/digits.c has it. */
tn_module *bench_cnn(void);
/* Of images (N, 1, 28, 28), as PyTorch's first example has it. */
tn_module *bench_cnn28(void);
/* Twenty layers for images (N, 3, 32, 32), arXiv:1512.03385 section 4.2; where
 * the size changes the shortcut is a 1x1 convolution. */
tn_module *bench_resnet20(void);
/* Fifty layers for images (N, 3, 224, 224), the same, table 1; the stride of a
 * block is that of its 3 x 3 convolution, as in torchvision. */
tn_module *bench_resnet50(void);
/* Ids (N, T) to scores (N, T, vocabulary): 4 layers of 128 features with 4
 * heads, as examples/char_gpt.c has it, contexts of at most 128. */
tn_module *bench_gpt(int64_t vocabulary);
/* GPT-2, as OpenAI's model of 124 million parameters with 12 layers: as many
 * heads of 64 features, 50,257 words, which are read and told by the same
 * numbers. Ids (N, T) to scores (N, T, words), T at most length. */
enum { BENCH_GPT2_WORDS = 50257, BENCH_GPT2_HEAD = 64 };
tn_module *bench_gpt2(int64_t layers, int64_t length);

#endif
