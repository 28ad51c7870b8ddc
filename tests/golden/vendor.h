/* vendor.h: did a device sum in an order of its own? Counts its matrix
 * products, convolutions and attentions (plugin.h: their order of summing is the vendor's), by
 * standing between the core and the plugin. One device at a time. */
#ifndef TN_TESTS_GOLDEN_VENDOR_H
#define TN_TESTS_GOLDEN_VENDOR_H

#include <tenon/device.h>

extern long vendor_sums; /* since it was set to 0 */

void vendor_watch(tn_device *device);
void vendor_leave(void);

#endif
