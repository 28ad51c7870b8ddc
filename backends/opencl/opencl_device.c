/* opencl_device.c: lists the devices of all drivers in a fixed order, and opens
 * them.
 *
 * libOpenCL returns drivers in the order of directory entries, which differs
 * between machines. Therefore devices are sorted: GPUs first and CPUs last,
 * then by the name of their platform, then in the order of their driver.
 * Listing devices creates no context and no queue. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define MAX_DEVICES 32

static tn_opencl_listed listed[MAX_DEVICES];
static void list_all(void);
static tn_device_list list = {.fill = list_all, .once = PTHREAD_ONCE_INIT};

/* ---- queries ------------------------------------------------------------- */

static void device_text(cl_device_id device, cl_device_info what, char *out,
                        size_t out_bytes)
{
    char text[1024] = "";
    if (cl.GetDeviceInfo(device, what, sizeof text, text, NULL))
        text[0] = 0;
    snprintf(out, out_bytes, "%s", text + strspn(text, " "));
}

/* Returns an integer property of a device, of up to 64 bits. Returns 0 if the
 * driver does not report it. */
static uint64_t device_number(cl_device_id device, cl_device_info what)
{
    uint64_t value = 0;
    return cl.GetDeviceInfo(device, what, sizeof value, &value, NULL) ? 0
                                                                      : value;
}

static bool has_extension(cl_device_id device, const char *name)
{
    char text[8192] = " ", with_blanks[80];
    if (cl.GetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof text - 2,
                         text + 1, NULL))
        return false;
    strcat(text, " ");
    snprintf(with_blanks, sizeof with_blanks, " %s ", name);
    return strstr(text, with_blanks) != NULL;
}

static uint32_t kind_of(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return TN_KIND_GPU;
    return type & CL_DEVICE_TYPE_CPU ? TN_KIND_CPU : TN_KIND_ACCELERATOR;
}

/* Writes the device's uid. If the driver reports them, this is the location on
 * the PCI bus or the UUID, which do not change when other devices are added or
 * removed. Otherwise it is the platform's name and the device's index there.
 * The numeric constants are those of OpenCL's extensions, whose headers may be
 * missing. */
static void uid_of(tn_opencl_listed *l, char *out, size_t out_bytes)
{
    cl_uint pci[4]; /* PCI address: domain, bus, device and function */
    unsigned char uuid[16];
    if (has_extension(l->device, "cl_khr_pci_bus_info") &&
        !cl.GetDeviceInfo(l->device, 0x410f, sizeof pci, pci, NULL)) {
        snprintf(out, out_bytes, "%04x:%02x:%02x.%x", pci[0], pci[1], pci[2],
                 pci[3]);
    } else if (has_extension(l->device, "cl_nv_device_attribute_query") &&
               !cl.GetDeviceInfo(l->device, 0x4008, 4, &pci[1], NULL) &&
               !cl.GetDeviceInfo(l->device, 0x4009, 4, &pci[2], NULL) &&
               !cl.GetDeviceInfo(l->device, 0x400a, 4, &pci[0], NULL)) {
        snprintf(out, out_bytes, "%04x:%02x:%02x.%x", pci[0], pci[1],
                 pci[2] >> 3, pci[2] & 7);
    } else if (l->info.kind != TN_KIND_CPU &&
               has_extension(l->device, "cl_khr_device_uuid") &&
               !cl.GetDeviceInfo(l->device, 0x106a, sizeof uuid, uuid, NULL)) {
        for (size_t i = 0; i < sizeof uuid && 2 * i + 2 < out_bytes; i++)
            snprintf(out + 2 * i, out_bytes - 2 * i, "%02x", uuid[i]);
    } else {
        snprintf(out, out_bytes, "%.40s #%u", l->platform_name, l->index);
    }
}

/* Sets the capabilities of a device. Sets info.note to the reason if the device
 * is unusable or not bit-exact. */
static void capabilities(tn_opencl_listed *l)
{
    tn_device_info *info = &l->info;
    static const struct {
        cl_device_fp_config bit;
        const char *lacks;
    } needs[] = {{CL_FP_DENORM, "subnormal numbers"},
                 {CL_FP_INF_NAN, "infinities and NaN"},
                 {CL_FP_ROUND_TO_NEAREST, "rounding to nearest"}};
    uint64_t single = device_number(l->device, CL_DEVICE_SINGLE_FP_CONFIG);
    unsigned major = 0, minor = 0;
    info->caps = TN_CAP_ASYNC | TN_CAP_BIT_EXACT;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (!(single & needs[i].bit)) {
            info->caps &= ~(uint32_t)TN_CAP_BIT_EXACT;
            snprintf(info->note, sizeof info->note, "float lacks %s",
                     needs[i].lacks);
        }
    if (!(uint32_t)device_number(l->device, CL_DEVICE_COMPILER_AVAILABLE))
        snprintf(info->note, sizeof info->note, "unusable: %s",
                 "its driver has no compiler");
    else if (!(uint32_t)device_number(l->device, CL_DEVICE_ENDIAN_LITTLE))
        snprintf(info->note, sizeof info->note, "unusable: %s",
                 "it is big-endian");
    else if (sscanf(l->device_version, "OpenCL %u.%u", &major, &minor) != 2 ||
             major * 10 + minor < 12)
        snprintf(info->note, sizeof info->note,
                 "unusable: %.60s; Tenon needs at least 1.2",
                 l->device_version);
    else
        l->usable = true;
}

static void describe(tn_opencl_listed *l)
{
    tn_device_info *info = &l->info;
    cl_device_id device = l->device;
    info->kind = kind_of(device_number(device, CL_DEVICE_TYPE));
    uint64_t bits = device_number(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
    info->align = bits > 8 * 64 && bits <= 8 * 65536 ? (uint32_t)(bits / 8)
                                                     : 64;
    info->register_types =
        1u << TN_F32 | 1u << TN_I32 | 1u << TN_I64 | 1u << TN_BOOL;
    info->storage_types = (1u << TN_DTYPE_END) - 2;
    if (device_number(device, CL_DEVICE_DOUBLE_FP_CONFIG) &&
        !tn__option_is("f64", "0"))
        info->register_types |= 1u << TN_F64;
    else
        info->storage_types &= ~(1u << TN_F64);
    info->memory_total = device_number(device, CL_DEVICE_GLOBAL_MEM_SIZE);
    device_text(device, CL_DEVICE_NAME, l->device_name,
                sizeof l->device_name);
    device_text(device, CL_DEVICE_VERSION, l->device_version,
                sizeof l->device_version);
    device_text(device, CL_DRIVER_VERSION, l->driver_version,
                sizeof l->driver_version);
    snprintf(info->name, sizeof info->name, "%.38s (%.22s)",
             l->device_name,
             l->platform_name);
    uid_of(l, info->uid, sizeof info->uid);
    capabilities(l);
}

/* ---- the list ------------------------------------------------------------ */

static int by_rank(const void *left, const void *right)
{
    static const int rank[] = {[TN_KIND_GPU] = 0,
                               [TN_KIND_ACCELERATOR] = 1,
                               [TN_KIND_CPU] = 2};
    const tn_opencl_listed *a = left, *b = right;
    int order = rank[a->info.kind] - rank[b->info.kind];
    if (!order)
        order = strcmp(a->platform_name, b->platform_name);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static void list_platform(cl_platform_id platform)
{
    cl_device_id devices[MAX_DEVICES];
    cl_uint count = 0;
    char name[128] = "";
    cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name,
                       NULL);
    cl_int error = cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES,
                                   devices, &count);
    if (error) {
        snprintf(list.error, sizeof list.error,
                 "platform %.100s: clGetDeviceIDs: %s", name,
                 tn__opencl_error_name(error));
        return;
    }
    for (cl_uint i = 0;
         i < count && i < MAX_DEVICES && list.count < MAX_DEVICES; i++) {
        tn_opencl_listed *l = &listed[list.count];
        if (device_number(devices[i], CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CUSTOM)
            continue;
        *l = (tn_opencl_listed){
            .platform = platform, .device = devices[i], .index = i};
        snprintf(l->platform_name, sizeof l->platform_name, "%s", name);
        describe(l);
        list.count++;
    }
}

static void list_drivers(void)
{
    const char *why = tn__opencl_driver_open();
    cl_platform_id platforms[MAX_DEVICES];
    cl_uint count = 0;
    if (why) {
        snprintf(list.error, sizeof list.error, "%s", why);
        return;
    }
    cl_int error = cl.GetPlatformIDs(MAX_DEVICES, platforms, &count);
    if (error || !count) {
        snprintf(list.error, sizeof list.error,
                 "no OpenCL driver is installed (%s)",
                 error ? tn__opencl_error_name(error) : "0 platforms");
        return;
    }
    for (cl_uint i = 0; i < count && i < MAX_DEVICES; i++)
        list_platform(platforms[i]);
}

static void list_all(void)
{
    tn_opencl_signals signals;
    tn__opencl_signals_save(&signals);
    list_drivers();
    tn__opencl_signals_restore(&signals);
    qsort(listed, list.count, sizeof *listed, by_rank);
    if (!list.count && !list.error[0])
        snprintf(list.error, sizeof list.error,
                 "the OpenCL drivers have no device");
}

tn_status tn__opencl_device_count(uint32_t *count)
{
    return tn__device_list_count(&list, count);
}

tn_status tn__opencl_device_info(uint32_t i, tn_device_info *info)
{
    if (!tn__device_list_has(&list, i))
        return TN_ERR_ARGUMENT;
    tn__device_info_copy(&listed[i].info, info);
    return TN_OK;
}

/* ---- an open device ------------------------------------------------------ */

/* Logs a message of the driver about a context. The driver calls this function
 * from one of its own threads. */
static void CL_CALLBACK context_says(const char *text, const void *more,
                                     size_t bytes, void *context)
{
    (void)more, (void)bytes, (void)context;
    tn__host->log(2, "opencl: the driver reports: %s", text);
}

/* Describes the device as a target for which the core prints kernels. The
 * options that are read here are for tests: they hide a feature of the device
 * or choose another order of work. */
static void target_fill(tn_plugin_device *device)
{
    cl_device_id id = device->listed->device;
    uint64_t single = device_number(id, CL_DEVICE_SINGLE_FP_CONFIG);
    bool divides = single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT &&
                   !tn__option_is("divide", "0");
    bool chunked = device->listed->info.kind == TN_KIND_CPU;
    if (tn__option_is("order", "grid") || tn__option_is("order", "chunked"))
        chunked = tn__option_is("order", "chunked");
    tn_target *target = &device->targets[0];
    *target = (tn_target){
        .size = sizeof *target,
        .units = (uint32_t)device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS),
        .group_limit = (uint32_t)device_number(id,
                                               CL_DEVICE_MAX_WORK_GROUP_SIZE),
        .argument_room = (uint32_t)device_number(id,
                                                 CL_DEVICE_MAX_PARAMETER_SIZE),
        .local_bytes = (uint32_t)device_number(id, CL_DEVICE_LOCAL_MEM_SIZE),
        .fault_room = TN_OPENCL_FAULTS,
    };
    if (device->listed->info.register_types & 1u << TN_F64)
        target->flags |= TN_TARGET_F64;
    if (chunked)
        target->flags |= TN_TARGET_CHUNKED;
    if (divides)
        target->flags |= TN_TARGET_EXACT_DIVIDE;
    const char *more = tn__host->option("options");
    snprintf(device->options, sizeof device->options, "-cl-std=CL1.2%s %s",
             divides ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
             more ? more : "");
    device->max_buffer_bytes =
        device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
}

tn_status tn__opencl_device_open(uint32_t i, tn_plugin_device **out)
{
    if (!tn__device_list_has(&list, i))
        return TN_ERR_ARGUMENT;
    const tn_opencl_listed *l = &listed[i];
    if (!l->usable)
        return tn__host->fail(TN_ERR_NO_DEVICE, "%s is %s", l->info.name,
                              l->info.note);
    tn_plugin_device *device = calloc(1, sizeof *device);
    if (!device)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a device");
    const cl_context_properties properties[] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)l->platform, 0};
    const char *step = "clCreateContext";
    cl_int error;
    device->listed = l;
    device->blocking = tn__option_is("blocking", "1");
    pthread_mutex_init(&device->cpu_lock, NULL);
    pthread_mutex_init(&device->lock, NULL);
    target_fill(device);
    tn__opencl_tune_init(device);
    tn__opencl_products_init(device);
    device->context = cl.CreateContext(properties, 1, &l->device, context_says,
                                       NULL, &error);
    if (!error) {
        step = "clCreateCommandQueue";
        device->queue =
            cl.CreateCommandQueue(device->context, l->device, 0, &error);
    }
    if (!error) {
        *out = device;
        return TN_OK;
    }
    tn__opencl_device_close(device);
    return tn__host->fail(TN_ERR_NO_DEVICE, "%s: %s: %s", l->info.name, step,
                          tn__opencl_error_name(error));
}

void tn__opencl_device_close(tn_plugin_device *device)
{
    tn__opencl_clblast_close(device);
    tn__opencl_kernels_release(device);
    if (device->queue)
        cl.ReleaseCommandQueue(device->queue);
    if (device->context)
        cl.ReleaseContext(device->context);
    pthread_mutex_destroy(&device->lock);
    pthread_mutex_destroy(&device->cpu_lock);
    free(device);
}
