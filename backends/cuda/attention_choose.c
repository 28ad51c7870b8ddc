/* attention_choose.c: the extension "attention". Uses cuDNN if cuDNN supports
 * the attention and is accurate, otherwise Tenon's own kernels. */
#include "cuda.h"

static tn_status attention_fits(tn_plugin_device *device,
                                const tn_attention_args *args)
{
    tn_plan plan;
    plan.size = sizeof plan;
    plan.step = 0;
    return tn__next_attention(&device->target, NULL, args, &plan);
}

static tn_status attention_run(tn_queue *queue, const tn_attention_args *args)
{
    if (!tn_attention_is_known(args))
        return tn__refuse_unknown("attention");
    tn_status status =
        tn__cuda_attention_cudnn(queue, args, tn__cuda_attention_is_accurate);
    return status == TN_ERR_UNSUPPORTED ? tn__cuda_attention_own(queue, args)
                                        : status;
}

const tn_attention_extension tn__cuda_attention = {
    .size = sizeof tn__cuda_attention,
    .fits = attention_fits,
    .run = attention_run,
};
