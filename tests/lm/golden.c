/* golden.c: compares models with the outputs of transformers.
 *
 *   golden DIR ...      one line of TAP for each folder and check
 *
 * A folder holds config.json, weights and golden.safetensors, which has these
 * tensors: ids (1, T); hidden_0 and so on, the hidden states; loss, and
 * grad.NAME, its gradients. For decoders it also has logits, greedy (the most
 * likely tokens) and margin (the difference of the two largest logits in each
 * step), for encoders embedding. If there is a file finetune.safetensors, ten
 * steps of AdamW are compared with it, for the whole model and for low-rank
 * adapters.
 *
 * Tolerances: float32 sums in another order differ by about 1e-6 relative to
 * the largest element. 1e-4 (1e-3 for gradients) leaves room for models with
 * more layers, and any mistake in a formula is far above it. */
#include <lm/golden.h>

int main(int argc, char **argv)
{
    plan_later();
    for (int i = 1; i < argc; i++)
        check_folder(argv[i]);
    return done_testing();
}
