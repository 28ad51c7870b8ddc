/* vendor.h: counts a device's matrix products, convolutions and attentions, for
 * which plugin.h allows any order of summation. It wraps the plugin's
 * functions. One device at a time. */
#ifndef TN_TESTS_GOLDEN_VENDOR_H
#define TN_TESTS_GOLDEN_VENDOR_H

#include <tenon/device.h>

extern long vendor_sums; /* number of these calls; a test sets it to 0 */

void vendor_watch(tn_device *device);
void vendor_leave(void);

#endif
