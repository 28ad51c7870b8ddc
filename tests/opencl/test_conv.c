/* Convolutions by the plugins' common kernel on an OpenCL device, with the
 * launch layout for GPUs, are bit-identical to the reference plugin's. */
#include "../device/convolutions.h"

int main(void)
{
    setenv("TENON_OPENCL_ORDER", "grid", 1);
    setenv("TENON_LOG", "3", 1);
    tn_log_set(conv_listen, NULL);
    plan_later();
    tn_device *device = tn_device_open("opencl");
    if (!device) {
        skip(2, "no OpenCL device here");
        note("%s", tn_error());
        tn_error_clear();
        return done_testing();
    }
    is_int(wrong_convolutions(device, 40), 0,
           "convolutions and their gradients have the reference's bits");
    is_int(atomic_load(&convs_declined), 0, "none is declined");
    return done_testing();
}
