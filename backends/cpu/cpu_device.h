/* cpu_device.h: declares the functions of the plugin's table, grouped by the
 * file that defines them. */
#ifndef TN_CPU_DEVICE_H
#define TN_CPU_DEVICE_H

#include "cpu.h"

/* cpu_device.c */
tn_status tn__cpu_device_count(uint32_t *count);
tn_status tn__cpu_device_info(uint32_t i, tn_device_info *info);
tn_status tn__cpu_device_open(uint32_t i, tn_plugin_device **device);
void tn__cpu_device_close(tn_plugin_device *device);
tn_status tn__cpu_buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                               tn_buffer **buffer);
void tn__cpu_buffer_free(tn_plugin_device *device, tn_buffer *buffer);
tn_status tn__cpu_buffer_map(tn_plugin_device *device, tn_buffer *buffer,
                             void **pointer);
tn_status tn__cpu_buffer_wrap(tn_plugin_device *device, void *host,
                              uint64_t bytes, tn_buffer **buffer);
tn_status tn__cpu_queue_open(tn_plugin_device *device, tn_queue **queue);
void tn__cpu_queue_close(tn_queue *queue);
tn_status tn__cpu_queue_sync(tn_queue *queue, tn_fault *fault);
tn_status tn__cpu_copy(tn_queue *queue, const tn_copy_args *copy);

/* cpu_matmul.c, cpu_scatter.c, cpu_scan.c, cpu_sort.c */
tn_status tn__cpu_matmul(tn_queue *queue, const tn_matmul_args *matmul);
/* The same, with a launch over the result (epilogue.h), which may be NULL. */
struct tn_cpu_epilogue;
tn_status tn__cpu_matmul_then(tn_queue *queue, const tn_matmul_args *matmul,
                              struct tn_cpu_epilogue *epilogue);
tn_status tn__cpu_scatter(tn_queue *queue, const tn_scatter_args *scatter);
tn_status tn__cpu_scan(tn_queue *queue, const tn_scan_args *scan);
tn_status tn__cpu_sort(tn_queue *queue, const tn_sort_args *sort);

/* ext/: the extensions */
tn_status tn__cpu_conv_then(tn_queue *queue, const tn_conv_args *conv,
                            struct tn_cpu_epilogue *epilogue);
extern const tn_conv_extension tn__cpu_conv_extension;
extern const tn_epilogue_extension tn__cpu_epilogue_extension;
extern const tn_pool_extension tn__cpu_pool_extension;
extern const tn_attention_extension tn__cpu_attention_extension;
extern const tn_lapack_extension tn__cpu_lapack_extension;
extern const tn_quantised_product_extension tn__cpu_quantised_extension;
/* cpu_list.c */
extern const tn_launch_list_extension tn__cpu_list_extension;

#endif
