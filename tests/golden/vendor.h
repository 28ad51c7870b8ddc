/* vendor.h: counts a device's matrix products, convolutions and attentions,
 * whose order of summation plugin.h leaves to the vendor. It wraps the plugin.
 * One device at a time. */
#ifndef TN_TESTS_GOLDEN_VENDOR_H
#define TN_TESTS_GOLDEN_VENDOR_H

#include <tenon/device.h>

extern long vendor_sums; /* since it was set to 0 */

void vendor_watch(tn_device *device);
void vendor_leave(void);

#endif
