/* dtypes.c: checks that a device can store or compute in a dtype. This happens
 * when a device is opened, a tensor is allocated or a program is compiled,
 * never when work is submitted. */
#include <device/registry.h>

#include <base/error.h>
#include <base/location.h>

#include <stdio.h>

/* KNOWN_DTYPES has a bit for each dtype of this version. register_of maps a
 * dtype to the type of the registers in which kernels compute with it. */
#define BIT(name, code, text, bytes, kind, reg) | 1u << code
enum { KNOWN_DTYPES = 0 TN_DTYPE_MAP(BIT) };
static const uint8_t register_of[TN_DTYPE_END] = {
#define REGISTER(name, code, text, bytes, kind, reg) [code] = TN_##reg,
    TN_DTYPE_MAP(REGISTER)
#undef REGISTER
};

bool tn__dtypes_check(tn_device_info *info, char *reason, size_t room)
{
    info->storage_types &= KNOWN_DTYPES;
    info->register_types &= KNOWN_DTYPES;
    if (!(info->storage_types & info->register_types & 1u << TN_F32)) {
        snprintf(reason, room, "it does not store float32 and compute in it, "
                               "as every device has to");
        return false;
    }
    for (tn_dtype d = TN_F32; d < TN_DTYPE_END; d++) {
        const tn_dtype reg = register_of[d];
        if (!(info->storage_types >> d & 1) || info->register_types >> reg & 1)
            continue;
        snprintf(reason, room, "it stores %s, but does not compute in %s",
                 tn_dtype_name(d), tn_dtype_name(reg));
        return false;
    }
    return true;
}

/* Records that a device does not support a dtype. The message names the
 * outermost running operator, or `what` if none is running. */
static tn_status refuse(const tn_device *device, const char *what,
                        const char *does_not, tn_dtype dtype)
{
    const char *called = tn__outermost_op();
    return tn__fail(TN_ERR_UNSUPPORTED,
                    "%s: %s does not %s %s; use another dtype, or a device "
                    "that does (tn_to)",
                    called ? called : what, device->name, does_not,
                    tn_dtype_name(dtype));
}

tn_status tn__device_refuse_storage(const tn_device *device, tn_dtype dtype,
                                    const char *what)
{
    return refuse(device, what, "store", dtype);
}

static tn_status check_list(const tn_device *device, const tn_kernel_ins *ins,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ins[i].dtype < TN_DTYPE_END && ins[i].dtype != TN_DTYPE_NONE &&
            !(device->info.register_types >> ins[i].dtype & 1))
            return refuse(device, "program_build", "compute in", ins[i].dtype);
    return TN_OK;
}

tn_status tn__device_check_program(const tn_device *device,
                                   const tn_program *program)
{
    tn_status status = TN_OK;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *o = &program->operand[k];
        if (o->access != TN_OPERAND_OFFSET &&
            !(device->storage_types >> o->dtype & 1))
            return tn__device_refuse_storage(device, o->dtype,
                                             "program_build");
    }
    for (uint32_t f = 0; f < program->fn_count && !status; f++)
        status = check_list(device, program->fn[f].ins,
                            program->fn[f].ins_count);
    return status ? status
                  : check_list(device, program->ins, program->ins_count);
}
