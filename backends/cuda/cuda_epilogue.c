/* cuda_epilogue.c: the extension "epilogue": the kernels of a product, a
 * convolution or an attention, then those of the launch that reads its result.
 */
#include "cuda.h"

static tn_epilogue_calls calls(void)
{
    return (tn_epilogue_calls){
        .matmul = tn__cuda_matmul, .conv = tn__cuda_conv.run,
        .product = tn__cuda_product_extension.run,
        .attention = tn__cuda_attention.run,
        .quantised_product = tn__cuda_quantised.run,
        .launch = tn__cuda_launch};
}

static tn_status epilogue_takes(tn_plugin_device *device, uint32_t kind)
{
    const tn_epilogue_calls own = calls();
    (void)device;
    return tn__epilogue_takes(&own, kind);
}

static tn_status epilogue_run(tn_queue *queue, const tn_epilogue_args *args)
{
    const tn_epilogue_calls own = calls();
    return tn__epilogue_run(queue, args, &own);
}

const tn_epilogue_extension tn__cuda_epilogue = {
    .size = sizeof tn__cuda_epilogue,
    .takes = epilogue_takes,
    .run = epilogue_run};
