/* <tenon/tenon.h>: includes all public headers of libtenon except the plugin
 * ABI.
 *
 * In reading order: error.h, base.h (scopes), device.h, tensor.h, ops.h (the
 * operators), options.h, random.h, op.h (operators by name), op_register.h
 * (operators of your own), autograd.h, hook.h, recompute.h, autocast.h,
 * relaxed.h, nn.h, optim.h, schedule.h, grad_scaler.h, average.h,
 * distributions.h, graph.h, data.h, io.h, checkpoint.h, trace.h.
 *
 * Some phrases have a fixed meaning in all headers. "Lent": the pointer belongs
 * to the library; do not free it. "The open scope owns the result", or "owned
 * by the open scope": the object is freed when the calling thread's innermost
 * scope closes (base.h). "NULL: TN_ERR_SHAPE": the call returns NULL and
 * records an error with that code (error.h). "Cannot fail": the call records no
 * error.
 *
 * Threads: Each header says which objects threads may share. In short: errors,
 * scopes, modes and random numbers are per thread. Devices, operators and
 * objects that no thread changes are shared. An object that is changed belongs
 * to one thread at a time.
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/autocast.h>
#include <tenon/autograd.h>
#include <tenon/average.h>
#include <tenon/base.h>
#include <tenon/checkpoint.h>
#include <tenon/data.h>
#include <tenon/device.h>
#include <tenon/distributions.h>
#include <tenon/error.h>
#include <tenon/grad_scaler.h>
#include <tenon/compile.h>
#include <tenon/graph.h>
#include <tenon/hook.h>
#include <tenon/io.h>
#include <tenon/metric.h>
#include <tenon/nn.h>
#include <tenon/op.h>
#include <tenon/op_register.h>
#include <tenon/ops.h>
#include <tenon/options.h>
#include <tenon/optim.h>
#include <tenon/random.h>
#include <tenon/recompute.h>
#include <tenon/relaxed.h>
#include <tenon/schedule.h>
#include <tenon/sequence.h>
#include <tenon/tensor.h>
#include <tenon/trace.h>
#include <tenon/train.h>

#endif
