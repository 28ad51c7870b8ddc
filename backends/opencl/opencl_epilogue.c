/* opencl_epilogue.c: the extension "epilogue": the kernels of a product or a
 * convolution, then those of the launch that reads its result. */
#include "opencl.h"

static const tn_epilogue_calls calls = {
    .matmul = tn__opencl_matmul, .conv = tn__opencl_conv,
    .quantised_product = tn__opencl_quantised_product,
    .launch = tn__opencl_launch};

tn_status tn__opencl_epilogue_takes(tn_plugin_device *device, uint32_t kind)
{
    (void)device;
    return tn__epilogue_takes(&calls, kind);
}

tn_status tn__opencl_epilogue(tn_queue *queue, const tn_epilogue_args *args)
{
    return tn__epilogue_run(queue, args, &calls);
}
