/* device_rules.c: every tensor is on one device, and is moved explicitly. */
#include <stdio.h>
#include <tenon/tenon.h>

int main(void)
{
    tn_device *cpu = tn_device_open("cpu");
    tn_device *other = tn_device_open("reference");
    if (!cpu || !other)
        return fprintf(stderr, "%s\n", tn_error()), 1;

    tn_device_set(cpu);
    tn_tensor *x = tn_ones(tn_dims(2, 2));
    tn_device_set(other);
    tn_tensor *y = tn_full(tn_dims(2, 2), 3);

    /* Inputs on two devices are an error. Its message names both devices and
     * the call that moves a tensor. */
    if (!tn_add(x, y))
        printf("refused: %s\n", tn_error());
    tn_error_clear();

    /* tn_to() moves x or y, so that both are on one device. */
    tn_print(tn_add(x, tn_to(y, cpu)));

    /* A device that cannot be opened is an error that says why. No other device
     * is used instead. */
    if (!tn_device_open("nosuch"))
        printf("refused: %s\n", tn_error());
    tn_error_clear();
    return 0;
}
