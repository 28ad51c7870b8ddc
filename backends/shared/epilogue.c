/* epilogue.c: the extension "epilogue" of a device whose queue runs kernels one
 * after the other: the kernels of the work, then those of the launch. */
#include "shared.h"

tn_status tn__epilogue_takes(const tn_epilogue_calls *calls, uint32_t kind)
{
    const bool has[TN_EPILOGUE_END] = {
        [TN_EPILOGUE_MATMUL] = calls->matmul,
        [TN_EPILOGUE_CONV] = calls->conv,
        [TN_EPILOGUE_PRODUCT] = calls->product,
        [TN_EPILOGUE_ATTENTION] = calls->attention,
        [TN_EPILOGUE_QUANTISED_PRODUCT] = calls->quantised_product};
    return kind < TN_EPILOGUE_END && has[kind]
               ? TN_OK
               : tn__refuse_unknown("epilogue");
}

tn_status tn__epilogue_run(tn_queue *queue, const tn_epilogue_args *args,
                           const tn_epilogue_calls *calls)
{
    tn_status status = tn__epilogue_takes(calls, args->kind);
    if (status)
        return status;
    switch (args->kind) {
    case TN_EPILOGUE_MATMUL:
        status = calls->matmul(queue, args->work);
        break;
    case TN_EPILOGUE_CONV:
        status = calls->conv(queue, args->work);
        break;
    case TN_EPILOGUE_PRODUCT:
        status = calls->product(queue, args->work);
        break;
    case TN_EPILOGUE_ATTENTION:
        status = calls->attention(queue, args->work);
        break;
    default:
        status = calls->quantised_product(queue, args->work);
    }
    return status ? status : calls->launch(queue, args->built, args->launch);
}
