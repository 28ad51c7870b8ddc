/* cuda_device.c: lists the devices in the driver's order and opens them.
 * Listing devices calls cuInit but creates no context. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define MAX_DEVICES 64

static tn_cuda_listed listed[MAX_DEVICES];
static void list_all(void);
static tn_device_list list = {.fill = list_all, .once = PTHREAD_ONCE_INIT};

/* ---- the list ------------------------------------------------------------ */

static int attribute(tn_cu_device device, int which)
{
    int value = 0;
    return tn__cu.device_attribute(&value, which, device) ? 0 : value;
}

/* Writes the device's uid: "GPU-1b2c...", or "MIG-1b2c..." for a MIG instance.
 * These are NVIDIA's forms, which CUDA_VISIBLE_DEVICES accepts. */
static void uid_of(tn_cu_device device, char *out, size_t out_bytes)
{
    tn_cu_uuid uuid, gpu;
    if (tn__cu.device_uuid(&uuid, device)) {
        snprintf(out, out_bytes, "%04x:%02x:%02x.0",
                 (unsigned)attribute(device, TN_CU_PCI_DOMAIN),
                 (unsigned)attribute(device, TN_CU_PCI_BUS),
                 (unsigned)attribute(device, TN_CU_PCI_DEVICE));
        return;
    }
    bool is_part =
        !tn__cu.gpu_uuid(&gpu, device) && memcmp(&gpu, &uuid, sizeof gpu) != 0;
    int at = snprintf(out, out_bytes, is_part ? "MIG-" : "GPU-");
    for (int i = 0; i < 16; i++)
        at += snprintf(out + at, out_bytes - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       (unsigned)(unsigned char)uuid.bytes[i]);
}

static void describe(tn_cuda_listed *l)
{
    char name[64] = "";
    size_t bytes = 0;
    tn_device_info *info = &l->info;
    l->major = attribute(l->device, TN_CU_MAJOR);
    l->minor = attribute(l->device, TN_CU_MINOR);
    tn__cu.device_name(name, sizeof name, l->device);
    tn__cu.device_memory(&bytes, l->device);
    info->kind = TN_KIND_GPU;
    info->caps = TN_CAP_ASYNC | TN_CAP_BIT_EXACT | TN_CAP_PEER;
    info->align = 256; /* alignment in bytes that cuMemAlloc guarantees */
    info->register_types = 1u << TN_F32 | 1u << TN_F64 | 1u << TN_I32 |
                           1u << TN_I64 | 1u << TN_BOOL;
    info->storage_types = (1u << TN_DTYPE_END) - 2;
    info->memory_total = bytes;
    snprintf(info->name, sizeof info->name, "%.48s (sm_%d%d)", name, l->major,
             l->minor);
    uid_of(l->device, info->uid, sizeof info->uid);
    /* 7.5 is the oldest compute capability for which the oldest tested NVRTC
     * can compile. */
    if (l->major * 10 + l->minor < 75)
        snprintf(info->note, sizeof info->note,
                 "unusable: compute capability %d.%d; Tenon needs at least 7.5",
                 l->major, l->minor);
    else if (attribute(l->device, TN_CU_COMPUTE_MODE) == 2)
        snprintf(info->note, sizeof info->note, "unusable: %s",
                 "its compute mode is \"prohibited\"; nvidia-smi -c 0 "
                 "resets it");
    else
        l->usable = true;
}

static void list_all(void)
{
    int count = 0;
    const char *why = tn__cuda_open(TN_CUDA_DRIVER);
    if (why) {
        snprintf(list.error, sizeof list.error, "%s", why);
        return;
    }
    tn_cu_result error = tn__cu.device_count(&count);
    if (error || count <= 0)
        snprintf(list.error, sizeof list.error,
                 "the CUDA driver has no device%s%s",
                 error ? ": cuDeviceGetCount: " : "",
                 error ? tn__cuda_error_name(error) : "");
    for (int i = 0; i < count && list.count < MAX_DEVICES && !error; i++) {
        tn_cuda_listed *l = &listed[list.count];
        if (tn__cu.device_get(&l->device, i))
            continue;
        describe(l);
        list.count++;
    }
}

tn_status tn__cuda_device_count(uint32_t *count)
{
    return tn__device_list_count(&list, count);
}

tn_status tn__cuda_device_info(uint32_t i, tn_device_info *info)
{
    if (!tn__device_list_has(&list, i))
        return TN_ERR_ARGUMENT;
    tn_device_info full = listed[i].info;
    const char *why = tn__cuda_cublaslt_error();
    if (why && !full.note[0])
        snprintf(full.note, sizeof full.note, "%s", why);
    tn__device_info_copy(&full, info);
    return TN_OK;
}

/* ---- an open device ------------------------------------------------------ */

static void target_fill(tn_plugin_device *device)
{
    tn_cu_device id = device->listed->device;
    device->target = (tn_target){
        .size = sizeof device->target,
        .flags = TN_TARGET_F64 | TN_TARGET_EXACT_DIVIDE |
                 (device->listed->major >= 8 ? TN_TARGET_MMA : 0),
        .units = (uint32_t)attribute(id, TN_CU_MULTIPROCESSORS),
        .group_limit = (uint32_t)attribute(id, TN_CU_MAX_THREADS_PER_BLOCK),
        .argument_room = 4096,
        .local_bytes = (uint32_t)attribute(id, TN_CU_SHARED_PER_BLOCK),
        .fault_room = TN_CUDA_FAULTS,
    };
}

tn_status tn__cuda_device_open(uint32_t i, tn_plugin_device **out)
{
    if (!tn__device_list_has(&list, i))
        return TN_ERR_ARGUMENT;
    const tn_cuda_listed *l = &listed[i];
    if (!l->usable)
        return tn__host->fail(TN_ERR_NO_DEVICE, "%s is %s", l->info.name,
                              l->info.note);
    if (tn__cuda_forked)
        return tn__host->fail(TN_ERR_NO_DEVICE, TN_CUDA_FORKED);
    /* Without NVRTC no kernel can be compiled. After this error code,
     * TENON_DEVICE=auto chooses another device. */
    const char *why = tn__cuda_open(TN_CUDA_NVRTC);
    if (why)
        return tn__host->fail(TN_ERR_NO_DEVICE, "%s", why);
    tn_plugin_device *device = calloc(1, sizeof *device);
    if (!device)
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a device");
    device->listed = l;
    device->blocking = tn__option_is("blocking", "1");
    device->wants_ptx = tn__option_is("code", "ptx");
    const bool deterministic = tn__option_is("deterministic", "1");
    device->own_products = deterministic || tn__option_is("matmul", "own");
    device->lt_wanted = tn__option_is("matmul", "cublaslt");
    device->tf32 = tn__option_is("tf32", "1");
    device->own_attention = deterministic || tn__option_is("attention", "own");
    device->dnn_attention = tn__option_is("attention", "cudnn");
    target_fill(device);
    tn__cu.version(&device->driver_version);
    tn_status status = tn__cuda_arch_choose(device);
    tn_cu_result error =
        status ? 0 : tn__cu.context_retain(&device->context, l->device);
    if (error)
        status =
            tn__host->fail(TN_ERR_NO_DEVICE, "%s: cuDevicePrimaryCtxRetain: %s",
                           l->info.name, tn__cuda_error_name(error));
    if (status) {
        free(device);
        return status;
    }
    pthread_mutex_init(&device->build_lock, NULL);
    pthread_cond_init(&device->compiled, NULL);
    *out = device;
    return TN_OK;
}

void tn__cuda_device_close(tn_plugin_device *device)
{
    /* In a forked child the driver cannot be used, and the parent process still
     * owns these objects. */
    if (!tn__cuda_forked) {
        TN_CUDA_ENTER(device);
        tn__cuda_cublaslt_close(device);
        tn__cuda_factor_close(device);
        tn__cuda_kernels_unload(device);
    }
    tn__cuda_kernels_free(device);
    if (!tn__cuda_forked)
        tn__cu.context_release(device->listed->device);
    pthread_cond_destroy(&device->compiled);
    pthread_mutex_destroy(&device->build_lock);
    free(device);
}
