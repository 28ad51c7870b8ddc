#!/bin/sh
# test_tensorboard.sh: the package tensorboard reads what tn_events writes.
# TENON_TENSORBOARD_PYTHON is a Python with that package (default: python3).
. "${top_srcdir:?run me by make check}/tests/tap.sh"
python=${TENON_TENSORBOARD_PYTHON:-python3}

if ! "$python" -c 'import tensorboard' 2>/dev/null; then
    skip "TensorBoard reads event files" "$python has no package tensorboard"
    done_testing
    exit
fi

cat >"$scratch/write.c" <<'END'
#include <tenon/events.h>
#include <tenon/tenon.h>
int main(int count, char **argument)
{
    (void)count;
    tn_events *e = tn_events_open(argument[1]);
    for (int64_t step = 0; step < 3; step++)
        tn_events_scalar(e, "loss/train", 1.5 * (double)step, step);
    tn_events_histogram(
        e, "weights",
        tn_tensor_from_array((float[]){-1, 0, 0.5f, 2e-13f, 1e25f}, TN_F32,
                             tn_dims(5)), 4);
    tn_events_text(e, "note", "some *text*", 5);
    tn_events_image(e, "picture", tn_rand(tn_dims(3, 4, 6)), 6);
    tn_hyperparameter h[] = {{"lr", 0.25, NULL}, {"optim", 0, "sgd"}};
    tn_events_hyperparameters(e, h, 2, (const char *[]){"loss/train"}, 1);
    if (tn_error())
        fprintf(stderr, "%s\n", tn_error());
    return tn_error() != NULL;
}
END
# shellcheck disable=SC2086 # CC may hold options
succeeds "a program is built" "$top_builddir/libtool" --quiet --tag=CC --mode=link \
    ${CC:-cc} -std=c11 -I"$top_srcdir/include" -I"$top_builddir/include" \
    -o "$scratch/write" "$scratch/write.c" "$top_builddir/libtenon-media.la" \
    "$top_builddir/libtenon.la"
succeeds "it writes events" "$scratch/write" "$scratch/run"
"$python" "$top_srcdir/tests/media/run/read_back.py" "$scratch/run" \
    >"$scratch/read" 2>"$scratch/errors" || note <"$scratch/errors"
is_str "$(cat "$scratch/read")" "$(cat <<'END'
scalar loss/train 0 0
scalar loss/train 1 1.5
scalar loss/train 2 3
histogram weights 4 -1 1e+25 5 1e+25 1e+50 True True True
image picture 6 6 4
text note/text_summary 5 some *text*
hparams [('lr', 3), ('optim', 1)] ['loss/train']
status 1
hparam lr 0.25
hparam optim sgd
END
)" "TensorBoard reads scalars, histograms, images, texts and hyperparameters"
done_testing
