/* device_rules.c: every tensor lives on one device; moving it is explicit. */
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

    /* Two devices in one operator: an error that names both, and the mend. */
    if (!tn_add(x, y))
        printf("refused: %s\n", tn_error());
    tn_error_clear();

    /* The mend. */
    tn_print(tn_add(x, tn_to(y, cpu)));

    /* A device that cannot be had says why; nothing else is taken instead. */
    if (!tn_device_open("nosuch"))
        printf("refused: %s\n", tn_error());
    tn_error_clear();
    return 0;
}
