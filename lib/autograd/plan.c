/* plan.c: finds or makes the plan that all calls of one operator with one
 * kernel share. A plan holds the argument that each port (input tensor) is
 * passed as, the kernel that computes each port's gradient, and which values a
 * node must save. Every recorded call looks up a plan, so that lookup takes no
 * lock. */
#include <base/lock.h>
#include <ops/engine/register.h>
#include <string.h>

#include <autograd/node.h>

#define BUCKETS 1024 /* a large program uses about this many combinations of
                        operators and dtypes */
static _Atomic(tn__plan *) bucket[BUCKETS];
static tn__lock making = TN__LOCK_INIT;

static uint32_t hash(const tn_op *op, const tn__kernel *kernel)
{
    uint64_t h = (uint64_t)(uintptr_t)op * 0x9e3779b97f4a7c15u;
    h ^= (uint64_t)(uintptr_t)kernel;
    h *= 0xff51afd7ed558ccdu;
    return (uint32_t)(h >> 40) % BUCKETS;
}

static tn__plan *look_up(uint32_t at, const tn_op *op,
                         const tn__kernel *kernel)
{
    tn__plan *plan = atomic_load_explicit(&bucket[at], memory_order_acquire);
    while (plan && (plan->op != op || plan->kernel != kernel))
        plan = plan->next;
    return plan;
}

static bool names_port(const tn__plan *plan, int p, const char *name)
{
    return p < plan->port_count && name &&
           strcmp(name, plan->op->arg[plan->port_arg[p]].name) == 0;
}

/* Returns the port (input tensor of the call) that an input of the kernel
 * reads, or -1 if there is none. It is the port whose argument has the name of
 * the kernel's input. The port with the index `input` is tried first, because
 * kernels of higher derivatives have several inputs called g. */
static int port_of_input(const tn__plan *plan, int input)
{
    const char *name = plan->kernel->input[input].name;
    if (names_port(plan, input, name))
        return input;
    for (int p = 0; p < plan->port_count; p++)
        if (names_port(plan, p, name))
            return p;
    return -1;
}

static tn__plan *plan_new(const tn_op *op, const tn__kernel *kernel)
{
    tn__plan *plan = tn__calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->op = op;
    plan->kernel = kernel;
    if (op->id >= 0 && op->id < tn__gradient_table_count)
        plan->gradient = tn__gradient_table[op->id].run;
    if (plan->gradient)
        plan->saves = tn__gradient_table[op->id].by;
    const tn_op_rule *rule = tn__op_rule(op);
    if (rule && rule->backward)
        plan->gradient = tn__registered_gradient;
    if (plan->saves) {
        plan->saves_layout = plan->saves[0].inputs & TN__SAVES_LAYOUT;
        plan->adds = plan->saves[0].inputs & TN__SAVES_ADDS;
    }
    uint32_t tensors = 1u << TN_VALUE_TENSOR | 1u << TN_VALUE_TENSORS;
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].kinds & tensors && plan->port_count < TN__PLAN_PORTS)
            plan->port_arg[plan->port_count++] = (uint8_t)i;
    if (kernel && !plan->gradient)
        for (int k = 0; k < kernel->input_count; k++) {
            int p = kernel->input[k].dtype ? port_of_input(plan, k) : -1;
            plan->input_port[k] = (uint8_t)(p < 0 ? UINT8_MAX : p);
        }
    return plan;
}

const tn__plan *tn__plan_find(const tn_op *op, const tn__kernel *kernel)
{
    uint32_t at = hash(op, kernel);
    tn__plan *plan = look_up(at, op, kernel);
    if (TN__LIKELY(plan))
        return plan;
    tn__lock_take(&making);
    plan = look_up(at, op, kernel);
    if (!plan) {
        plan = plan_new(op, kernel);
        if (plan) {
            plan->next = atomic_load_explicit(&bucket[at],
                                              memory_order_relaxed);
            atomic_store_explicit(&bucket[at], plan, memory_order_release);
        }
    }
    tn__lock_give(&making);
    return plan;
}

/* ---- the gradient of one port ------------------------------------------- */

/* Returns which value an input of a gradient kernel refers to by its name: one
 * of the forward kernel's inputs, an output (out, out0 ...) or the gradient of
 * an output (g, g0 ...). Inputs are numbered first, then outputs, then
 * gradients. */
static int used_by_name(const tn__kernel *kernel, const char *name)
{
    for (int k = 0; k < kernel->input_count; k++)
        if (strcmp(name, kernel->input[k].name) == 0)
            return k;
    int at = kernel->input_count;
    const char *digits = name + 1;
    if (strncmp(name, "out", 3) == 0)
        digits = name + 3;
    else
        at += kernel->output_count; /* the name begins with "g" */
    return at + (*digits ? *digits - '0' : 0);
}

static bool has_written_gradient(const tn__plan *plan, int input)
{
    int arg = plan->port_arg[plan->input_port[input]];
    return plan->op->rare->grad && plan->op->rare->grad[arg];
}

/* Returns the gradient kernel written in the `grad` line of the operator
 * table. */
static const tn__kernel *written_gradient(const tn__plan *plan, int input,
                                          int *used, bool *zero)
{
    const tn__kernel *kernel = plan->kernel;
    const char *text =
        plan->op->rare->grad[plan->port_arg[plan->input_port[input]]];
    if (strcmp(text, "none") == 0) {
        *zero = true;
        return NULL;
    }
    const tn__def *def = tn__op_def(plan->op, kernel);
    if (!def)
        return NULL;
    tn__def *gradient =
        tn__def_gradient_parse(def, input, text, plan->op->name);
    if (!gradient)
        return NULL;
    tn_dtype dtype[TN__KERNEL_MAX_INPUTS];
    int count = tn__def_input_count(gradient);
    for (int i = 0; i < count; i++) {
        int u = used_by_name(kernel, tn__def_input_name(gradient, i));
        used[i] = u;
        if (u < kernel->input_count)
            dtype[i] = kernel->input[u].dtype;
        else
            dtype[i] =
                kernel->out[(u - kernel->input_count) % kernel->output_count]
                    .dtype;
    }
    return tn__def_kernel(gradient, dtype);
}

static const tn__kernel *derive(const tn__plan *plan, int input, int *used,
                                bool *zero)
{
    if (has_written_gradient(plan, input))
        return written_gradient(plan, input, used, zero);
    return tn__kernel_gradient(plan->kernel, input, used, zero);
}

static void set_needs(const tn__plan *plan, tn__plan_port *port)
{
    const tn__kernel *kernel = plan->kernel;
    for (int i = 0; i < port->kernel->input_count; i++) {
        int u = port->used[i];
        if (u < kernel->input_count) {
            if (kernel->input[u].dtype) /* an offset operand has no tensor */
                port->inputs |= 1u << plan->input_port[u];
        } else if (u < kernel->input_count + kernel->output_count) {
            port->outputs |= 1u << (u - kernel->input_count);
        }
    }
    for (int i = 0; i < port->kernel->param_count; i++)
        for (int j = 0; j < kernel->param_count; j++)
            if (strcmp(port->kernel->param[i].name,
                       kernel->param[j].name) == 0)
                port->param[i] = j;
}

static bool copies_cotangent(const tn__plan *plan, const tn__plan_port *port)
{
    const tn__kernel *kernel = port->kernel;
    return kernel->input_count == 1 && kernel->ins_count == 1 &&
           kernel->ins[0].op == TN_K_LOAD &&
           kernel->input[0].level == TN_LEVEL_ELEM && !kernel->has_row &&
           kernel->input[0].dtype == kernel->out[0].dtype &&
           port->used[0] >=
               plan->kernel->input_count + plan->kernel->output_count;
}

/* Returns the gradient kernel fused with a sum over broadcast dimensions, or
 * NULL if they cannot be fused. For 16-bit floats the sum is computed in
 * float32, from gradients that have not been rounded to 16 bits. */
static const tn__kernel *summed(const tn__kernel *kernel)
{
    static tn__formula sum = TN__FORMULA("sum(input) = rsum(input)");
    for (int i = 0; i < kernel->input_count; i++)
        if (!kernel->input[i].dtype || kernel->input[i].index_count)
            return NULL; /* the kernel uses element indices within a row, which
                            would change in the fused kernel */
    if (kernel->has_row && !(kernel = tn__kernel_without_rows(kernel)))
        return NULL;
    tn_dtype dtype = kernel->out[0].dtype;
    if (tn_dtype_bytes(dtype) == 2 && tn_dtype_is_floating(dtype))
        dtype = TN_F32;
    const tn__kernel *over = tn__formula_kernel(&sum, &dtype);
    return over ? tn__kernel_compose(over, 0, kernel, 0, NULL) : NULL;
}

static tn__plan_port *plan_port_new(const tn__plan *plan, int p)
{
    tn__plan_port *port = tn__calloc(1, sizeof *port);
    if (!port)
        return NULL;
    port->input = -1;
    for (int k = 0; k < plan->kernel->input_count; k++)
        if (plan->input_port[k] == p)
            port->input = k;
    if (port->input < 0) {
        port->zero = true;
        return port;
    }
    /* If there is no derivative, the forward call must not fail. Backward
     * reports the error if it needs this gradient. */
    tn__error pending;
    tn__error_hide(&pending);
    port->kernel = derive(plan, port->input, port->used, &port->zero);
    port->failed = !port->kernel && !port->zero;
    if (port->kernel) {
        set_needs(plan, port);
        port->copies_cotangent = copies_cotangent(plan, port);
        port->summed = summed(port->kernel);
        port->per_row = tn__kernel_once_a_row(port->kernel);
    }
    /* After running out of memory nothing is stored, so that the next call
     * tries again. */
    const bool no_memory = tn_error_code() == TN_ERR_MEMORY;
    tn__error_restore(&pending);
    if (no_memory) {
        tn__free(port);
        tn__fail(TN_ERR_MEMORY, "%s: out of memory for its derivative",
                 plan->op->name);
        return NULL;
    }
    return port;
}

const tn__plan_port *tn__plan_port_find(const tn__plan *plan, int p)
{
    tn__plan *open = (tn__plan *)plan;
    tn__plan_port *port =
        atomic_load_explicit(&open->port[p], memory_order_acquire);
    if (TN__LIKELY(port))
        return port;
    tn__lock_take(&making);
    port = atomic_load_explicit(&open->port[p], memory_order_relaxed);
    if (!port) {
        port = plan_port_new(plan, p);
        atomic_store_explicit(&open->port[p], port, memory_order_release);
    }
    tn__lock_give(&making);
    return port;
}

tn_status tn__plan_port_fail(const tn__plan *plan, int p)
{
    int used[TN__KERNEL_MAX_INPUTS];
    bool zero = false;
    for (int k = 0; k < plan->kernel->input_count; k++)
        if (plan->input_port[k] == p)
            derive(plan, k, used, &zero);
    return tn__fail(TN_ERR_UNSUPPORTED,
                    "%s: no derivative with respect to {%s}",
                    plan->op->name, plan->op->arg[plan->port_arg[p]].name);
}

/* ---- what to save ------------------------------------------------------- */

tn_status tn__plan_saves(const tn__plan *plan, uint32_t wanted,
                         uint32_t *inputs, uint32_t *outputs)
{
    *inputs = *outputs = 0;
    if (plan->gradient) {
        const tn__saves *saves = plan->saves;
        if (!saves)
            return TN_OK;
        for (int p = 0; p < plan->port_count; p++)
            if (wanted & 1u << p) {
                *inputs |= saves[p < 2 ? p : 2].inputs;
                *outputs |= saves[p < 2 ? p : 2].outputs;
            }
        *inputs &= ~(uint32_t)(TN__SAVES_LAYOUT | TN__SAVES_ADDS);
        return TN_OK;
    }
    for (int p = 0; p < plan->port_count; p++) {
        if (!(wanted & 1u << p))
            continue;
        const tn__plan_port *port = tn__plan_port_find(plan, p);
        if (!port)
            return TN_ERR_MEMORY;
        *inputs |= port->inputs;
        *outputs |= port->outputs;
    }
    return TN_OK;
}
