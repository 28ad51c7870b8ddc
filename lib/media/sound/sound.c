/* sound.c: checks that the files of this folder share. */
#include <media/sound/sound.h>

#include <stdio.h>
#include <string.h>

bool tn__sound_check(const char *call, const char *argument, tn_tensor *x,
                     int ndim)
{
    if (!tn_object_check_kind(x, "tensor", call, argument))
        return false;
    const tn_given given = {argument, x};
    const tn_dtype dtype = tn_tensor_dtype(x);
    if (dtype != TN_F32 && dtype != TN_F64 && dtype != TN_F16 &&
        dtype != TN_BF16) {
        tn_error_refuse(TN_ERR_DTYPE, call, &given, 1,
                        "%s has dtype %s; expected float32, float64, float16 "
                        "or bfloat16",
                        argument, tn_dtype_name(dtype));
        return false;
    }
    if (tn_tensor_ndim(x) >= ndim)
        return true;
    tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                    "%s has %d dimensions; expected at least %d", argument,
                    tn_tensor_ndim(x), ndim);
    return false;
}

bool tn__sound_check_like(const char *call, const char *argument,
                          tn_tensor *other, tn_tensor *x)
{
    const tn_given given = {argument, other};
    if (tn_tensor_device(other) != tn_tensor_device(x)) {
        tn_error_refuse(TN_ERR_DEVICE, call, &given, 1,
                        "%s is on %s, but the waveform is on %s; move one with "
                        "tn_to",
                        argument, tn_device_name(tn_tensor_device(other)),
                        tn_device_name(tn_tensor_device(x)));
        return false;
    }
    if (tn_tensor_dtype(other) != tn_tensor_dtype(x)) {
        tn_error_refuse(TN_ERR_DTYPE, call, &given, 1,
                        "%s has dtype %s, but the waveform has %s; convert one "
                        "with tn_to_dtype",
                        argument, tn_dtype_name(tn_tensor_dtype(other)),
                        tn_dtype_name(tn_tensor_dtype(x)));
        return false;
    }
    return true;
}

bool tn__sound_check_int(const char *call, const char *argument, int64_t value,
                         int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                             "%s is %lld; expected %lld to %lld", argument,
                             (long long)value, (long long)low,
                             (long long)high);
    return false;
}

int tn__sound_choice(const char *call, const char *argument, const char *text,
                     const char *const *list, bool optional)
{
    char all[256] = "";
    int n = 0;
    for (; list[n]; n++) {
        if (text && strcmp(text, list[n]) == 0)
            return n;
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s\"%s\"", n ? ", " : "",
                 list[n]);
    }
    if (!text && optional)
        return n;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                             "%s is \"%s\"; expected one of %s%s", argument,
                             text ? text : "(null)", all,
                             optional ? ", or NULL" : "");
    return -1;
}

tn_tensor *tn__sound_tensor(const double *x, tn_dims_list shape, tn_dtype dtype,
                            tn_device *device)
{
    tn_tensor *out = tn_to_dtype(tn_tensor_from_array(x, TN_F64, shape), dtype);
    return out && tn_tensor_device(out) != device ? tn_to(out, device) : out;
}

tn_tensor *tn__sound_unpack(tn_tensor *x, int from, tn_tensor *like, int drop)
{
    if (!x)
        return NULL;
    tn_dims_list shape = {0, {0}};
    for (int d = 0; d < tn_tensor_ndim(like) - drop; d++)
        shape.dim[shape.count++] = tn_tensor_size(like, d);
    for (int d = from; d < tn_tensor_ndim(x); d++)
        shape.dim[shape.count++] = tn_tensor_size(x, d);
    return tn_reshape(x, shape);
}
