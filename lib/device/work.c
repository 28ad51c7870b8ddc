/* work.c: the table of the kinds of device work (work.h), with the plugin's
 * function for each kind. */
#include <device/work.h>

#include <device/tally.h>

#include <stddef.h>
#include <string.h>

/* Returns the plugin's main function table, which contains the primitives. */
static const void *find_primitive(const tn_device *device)
{
    return device->plugin;
}

static tn_status run_matmul(tn_device *device, const void *plugin, void *args)
{
    return ((const tn_plugin *)plugin)->matmul(device->queue, args);
}

static tn_status run_scatter(tn_device *device, const void *plugin, void *args)
{
    return ((const tn_plugin *)plugin)->scatter(device->queue, args);
}

static tn_status run_scan(tn_device *device, const void *plugin, void *args)
{
    return ((const tn_plugin *)plugin)->scan(device->queue, args);
}

static tn_status run_sort(tn_device *device, const void *plugin, void *args)
{
    return ((const tn_plugin *)plugin)->sort(device->queue, args);
}

static const void *find_conv(const tn_device *device)
{
    return atomic_load_explicit(&device->conv, memory_order_acquire);
}

static tn_status run_conv(tn_device *device, const void *found, void *args)
{
    const tn_conv_extension *extension = found;
    return extension->run(device->queue, args);
}

static const void *find_pool(const tn_device *device)
{
    return atomic_load_explicit(&device->pool, memory_order_acquire);
}

static tn_status run_pool(tn_device *device, const void *found, void *args)
{
    const tn_pool_extension *extension = found;
    return extension->run(device->queue, args);
}

static const void *find_product(const tn_device *device)
{
    return atomic_load_explicit(&device->product, memory_order_acquire);
}

static tn_status run_product(tn_device *device, const void *found, void *args)
{
    const tn_product_extension *extension = found;
    return extension->run(device->queue, args);
}

static const void *find_attention(const tn_device *device)
{
    return atomic_load_explicit(&device->attention, memory_order_acquire);
}

static tn_status run_attention(tn_device *device, const void *found, void *args)
{
    const tn_attention_extension *extension = found;
    return extension->run(device->queue, args);
}

static const void *find_lapack(const tn_device *device)
{
    return atomic_load_explicit(&device->lapack, memory_order_acquire);
}

static tn_status run_lapack(tn_device *device, const void *found, void *args)
{
    const tn_lapack_extension *extension = found;
    return extension->run(device->queue, args);
}

static const void *find_quantised_product(const tn_device *device)
{
    return atomic_load_explicit(&device->quantised_product,
                                memory_order_acquire);
}

static tn_status run_quantised_product(tn_device *device, const void *found,
                                       void *args)
{
    const tn_quantised_product_extension *extension = found;
    const tn_quantised_product_args *product = args;
    tn_status status = extension->takes(device->handle, product->format);
    return status ? status : extension->run(device->queue, args);
}

static const void *find_epilogue(const tn_device *device)
{
    return atomic_load_explicit(&device->epilogue, memory_order_acquire);
}

static tn_status run_epilogue(tn_device *device, const void *found, void *args)
{
    const tn_epilogue_extension *extension = found;
    const tn_epilogue_args *epilogue = args;
    const size_t tag = tn__work_kinds[tn__epilogue_work[epilogue->kind]].tag;
    /* work and launch are parts of a command (epilogue.c), which can be
     * written. */
    memcpy((char *)(uintptr_t)epilogue->work + tag, &epilogue->tag,
           sizeof epilogue->tag);
    ((tn_launch *)(uintptr_t)epilogue->launch)->tag = epilogue->tag;
    return extension->run(device->queue, args);
}

static void tally_epilogue(tn_device *device, const void *args)
{
    const tn_epilogue_args *epilogue = args;
    tn__work_kinds[tn__epilogue_work[epilogue->kind]].tally(device,
                                                            epilogue->work);
    tn__tally_launch(device, epilogue->program, epilogue->launch);
}

const uint8_t tn__epilogue_work[TN_EPILOGUE_END] = {
    [TN_EPILOGUE_MATMUL] = TN__WORK_MATMUL,
    [TN_EPILOGUE_CONV] = TN__WORK_CONV,
    [TN_EPILOGUE_PRODUCT] = TN__WORK_PRODUCT,
    [TN_EPILOGUE_ATTENTION] = TN__WORK_ATTENTION,
    [TN_EPILOGUE_QUANTISED_PRODUCT] = TN__WORK_QUANTISED_PRODUCT,
};

#define ARGS(type) sizeof(type), offsetof(type, tag)

const tn__work_kind tn__work_kinds[TN__WORK_KINDS] = {
    [TN__WORK_MATMUL] = {NULL, ARGS(tn_matmul_args), find_primitive,
        run_matmul, tn__tally_matmul, false, true},
    [TN__WORK_SCATTER] = {NULL, ARGS(tn_scatter_args), find_primitive,
        run_scatter, tn__tally_scatter, false, true},
    [TN__WORK_SCAN] = {NULL, ARGS(tn_scan_args), find_primitive,
        run_scan, tn__tally_scan, false, true},
    [TN__WORK_SORT] = {NULL, ARGS(tn_sort_args), find_primitive,
        run_sort, tn__tally_sort, false, true},
    [TN__WORK_CONV] = {"conv", ARGS(tn_conv_args), find_conv,
        run_conv, tn__tally_conv, true, true},
    [TN__WORK_POOL] = {"pool", ARGS(tn_pool_args), find_pool,
        run_pool, tn__tally_pool, true, false},
    [TN__WORK_PRODUCT] = {"product", ARGS(tn_product_args), find_product,
        run_product, tn__tally_product, true, true},
    [TN__WORK_ATTENTION] = {"attention",
        ARGS(tn_attention_args), find_attention,
        run_attention, tn__tally_attention, false, true},
    [TN__WORK_LAPACK] = {"lapack", ARGS(tn_lapack_args), find_lapack,
        run_lapack, tn__tally_lapack, false, false},
    [TN__WORK_QUANTISED_PRODUCT] = {"quantised-product",
        ARGS(tn_quantised_product_args), find_quantised_product,
        run_quantised_product, tn__tally_quantised_product, true, true},
    [TN__WORK_EPILOGUE] = {"epilogue", ARGS(tn_epilogue_args), find_epilogue,
        run_epilogue, tally_epilogue, true, true},
};
