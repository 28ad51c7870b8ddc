/* golden.c: compares models with the outputs of transformers.
 *
 *   golden DIR ...      one line of TAP for each folder and check
 *
 * A folder holds config.json, weights and golden.safetensors: ids (1, T);
 * hidden_0 ... ; loss; grad.NAME of that loss; for decoders logits and greedy
 * with margin (the difference of the two largest logits of each step); for
 * encoders embedding. If there is finetune.safetensors, ten steps of AdamW are
 * compared with it, of the whole model and of low-rank adapters.
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
