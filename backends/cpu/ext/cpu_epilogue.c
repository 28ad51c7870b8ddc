/* cpu_epilogue.c: the extension "epilogue": runs a product, a convolution or an
 * attention, and a launch over its result. Products and convolutions launch for
 * each part of the result (epilogue.h); the launch of others follows. */
#include "../cpu_device.h"
#include "../epilogue.h"

static tn_status takes(tn_plugin_device *device, uint32_t kind)
{
    (void)device;
    return kind < TN_EPILOGUE_END && kind != TN_EPILOGUE_PRODUCT
               ? TN_OK
               : tn__cpu_unknown("epilogue");
}

static tn_status run(tn_queue *queue, const tn_epilogue_args *args)
{
    tn_cpu_epilogue e;
    tn_status status = takes(NULL, args->kind);
    if (status)
        return status;
    tn__cpu_epilogue_open(&e, queue, args);
    if (args->kind == TN_EPILOGUE_MATMUL)
        status = tn__cpu_matmul_then(queue, args->work, &e);
    else if (args->kind == TN_EPILOGUE_CONV)
        status = tn__cpu_conv_then(queue, args->work, &e);
    else if (args->kind == TN_EPILOGUE_ATTENTION)
        status = tn__cpu_attention_extension.run(queue, args->work);
    else
        status = tn__cpu_quantised_extension.run(queue, args->work);
    return tn__cpu_epilogue_close(&e, status);
}

const tn_epilogue_extension tn__cpu_epilogue_extension = {
    .size = sizeof(tn_epilogue_extension), .takes = takes, .run = run};
