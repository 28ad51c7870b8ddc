/* control.c: If, Loop and Scan. The host reads only conditions and counts.
 * Other values stay on their device. */
#include <onnx/ops/ops.h>

#include <stdlib.h>

/* Reads a condition or a count: one element. */
static bool read_one(tn__onnx_call *c, int i, int64_t *out)
{
    const int count = tn__onnx_ints(c, i, out, 1);
    if (count == 1)
        return true;
    if (!tn_error())
        tn__onnx_refuse(c, TN_ERR_SHAPE, "input %d must have one element", i);
    return false;
}

static void branch(tn__onnx_call *c)
{
    int64_t condition;
    if (read_one(c, 0, &condition))
        tn__onnx_subgraph(c, c->attr[condition ? 0 : 1], NULL, NULL, 0, c->y,
                          c->y_type, c->out_count);
    c->reads = true;
}

/* ---- lists of results ---------------------------------------------------- */

/* The results of one scan output, one for each iteration. They are owned until
 * they are concatenated. */
typedef struct list {
    tn_tensor **x;
    int64_t count, room;
    int type;
} list;

static bool list_add(list *l, tn_tensor *x)
{
    if (l->count == l->room) {
        const int64_t room = l->room ? l->room * 2 : 16;
        tn_tensor **larger = realloc(l->x, (size_t)room * sizeof *larger);
        if (!larger) {
            tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
            return false;
        }
        l->x = larger;
        l->room = room;
    }
    l->x[l->count++] = tn_keep(x);
    return true;
}

static tn_tensor *list_join(list *l, int axis, bool reversed)
{
    for (int64_t i = 0; reversed && i < l->count / 2; i++) {
        tn_tensor *x = l->x[i];
        l->x[i] = l->x[l->count - 1 - i];
        l->x[l->count - 1 - i] = x;
    }
    return tn_stack(l->x, (int)l->count, axis);
}

static void lists_free(list *l, int count)
{
    for (int i = 0; i < count && l; i++) {
        for (int64_t j = 0; j < l[i].count; j++)
            tn_drop(l[i].x[j]);
        free(l[i].x);
    }
    free(l);
}

/* Returns the result of a scan output if there are no iterations: the first
 * dimension has size 0, and the subgraph declares the other sizes. */
static tn_tensor *empty_list(const tn__onnx_port *port, tn_device *device,
                             int *type)
{
    int64_t size[TN_MAX_NDIM] = {0};
    int count = 1;
    for (int i = 0; i < port->ndim && count < TN_MAX_NDIM; i++)
        size[count++] = port->shape[i] > 0 ? port->shape[i] : 0;
    *type = port->type ? port->type : TN__ONNX_FLOAT;
    return tn_empty(tn_dims_from_array(size, count),
                    .dtype = tn__onnx_type_of(*type).dtype, .device = device);
}

/* ---- Loop ---------------------------------------------------------------- */

typedef struct loop {
    int states, lists;         /* numbers of loop-carried values and of scan
                                  outputs */
    tn_tensor **in, **out;     /* inputs and outputs of the subgraph */
    int *in_type, *out_type;
    list *list;
    void *memory;
} loop;

static bool loop_init(loop *l, int in, int out)
{
    const size_t n = (size_t)in + (size_t)out;
    l->memory = calloc(n + 1, sizeof(tn_tensor *) + sizeof(int));
    l->list = calloc((size_t)l->lists + 1, sizeof *l->list);
    if (!l->memory || !l->list) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return false;
    }
    l->in = l->memory;
    l->out = l->in + in;
    l->in_type = (int *)(void *)(l->in + n);
    l->out_type = l->in_type + in;
    return true;
}

static void loop_fini(loop *l)
{
    lists_free(l->list, l->lists);
    free(l->memory);
}

/* Runs one iteration. It drops the old loop-carried values, so memory does not
 * grow with the number of iterations. */
static bool iterate(tn__onnx_call *c, loop *l, const tn__onnx_attr *body,
                    int first, int in, int out)
{
    bool fine = tn__onnx_iterate(c) &&
                tn__onnx_subgraph(c, body, l->in, l->in_type, in, l->out,
                                  l->out_type, out);
    const int lead = out - l->states - l->lists; /* 1 if the condition of Loop
                                                    comes first, else 0 */
    for (int i = 0; i < l->lists && fine; i++) {
        l->list[i].type = l->out_type[lead + l->states + i];
        fine = list_add(&l->list[i], l->out[lead + l->states + i]);
    }
    for (int i = 0; i < l->states && fine; i++) {
        tn_tensor *old = l->in[first + i];
        l->in[first + i] = tn_keep(l->out[lead + i]);
        l->in_type[first + i] = l->out_type[lead + i];
        tn_drop(old);
    }
    return fine;
}

/* Stores the initial loop-carried values. */
static void begin(tn__onnx_call *c, loop *l, int first, int from)
{
    for (int i = 0; i < l->states; i++) {
        l->in[first + i] = tn_keep(c->x[from + i]);
        l->in_type[first + i] = c->x_type[from + i];
    }
}

/* Gives the final loop-carried values to the open scope. */
static void finish(tn__onnx_call *c, loop *l, int first, bool fine)
{
    for (int i = 0; i < l->states && l->in; i++) {
        tn_tensor *x = tn_scope_adopt(l->in[first + i]);
        c->y[i] = fine ? x : NULL;
        c->y_type[i] = l->in_type[first + i];
    }
}

static void loop_run(tn__onnx_call *c)
{
    const tn__onnx_attr *body = c->attr[0];
    loop l = {.states = c->in_count > 2 ? c->in_count - 2 : 0};
    const int in = 2 + l.states, out = 1 + c->out_count;
    l.lists = c->out_count - l.states;
    int64_t most = INT64_MAX, go = 1;
    c->reads = true;
    if (l.lists < 0 || body->graph->output_count != out) {
        tn__onnx_refuse(c, TN_ERR_FORMAT,
                        "the node has %d loop-carried values; the %d outputs "
                        "of the subgraph do not match them",
                        l.states, body->graph->output_count);
        return;
    }
    if ((tn__onnx_has(c, 0) && !read_one(c, 0, &most)) ||
        (tn__onnx_has(c, 1) && !read_one(c, 1, &go)))
        return;
    bool fine = loop_init(&l, in, out);
    if (fine)
        begin(c, &l, 2, 2);
    tn_device *host = tn__onnx_host(c);
    for (int64_t n = 0; n < most && go && fine; n++) {
        tn_scope *scope = tn_scope_open();
        l.in[0] = tn_full(TN_SCALAR, n, .dtype = TN_I64, .device = host);
        l.in[1] = tn_full(TN_SCALAR, true, .dtype = TN_BOOL, .device = host);
        l.in_type[0] = TN__ONNX_INT64;
        l.in_type[1] = TN__ONNX_BOOL;
        fine = scope && iterate(c, &l, body, 2, in, out);
        if (fine) {
            const double condition = tn_item(l.out[0]);
            fine = !tn_error();
            go = condition != 0;
        }
        tn_scope_close(scope);
    }
    finish(c, &l, 2, fine);
    for (int i = 0; i < l.lists && fine; i++) {
        const int at = l.states + i;
        c->y_type[at] = l.list[i].type;
        c->y[at] = l.list[i].count
                       ? list_join(&l.list[i], 0, false)
                       : empty_list(&body->graph->output[1 + at], c->device,
                                    &c->y_type[at]);
    }
    loop_fini(&l);
}

/* ---- Scan ---------------------------------------------------------------- */

static int64_t listed(const tn__onnx_attr *a, int i)
{
    return a && i < a->count ? a->ints[i] : 0;
}

static void scan(tn__onnx_call *c)
{
    enum { BODY, INPUTS, IN_AXES, IN_DIRECTIONS, OUT_AXES, OUT_DIRECTIONS };
    const tn__onnx_attr *body = c->attr[BODY];
    const int64_t scanned = tn__onnx_int(c, INPUTS);
    if (scanned < 1 || scanned > c->in_count) {
        tn__onnx_refuse(c, TN_ERR_FORMAT,
                        "num_scan_inputs is %lld; expected at least 1 and at "
                        "most the number of inputs",
                        (long long)scanned);
        return;
    }
    loop l = {.states = c->in_count - (int)scanned};
    l.lists = c->out_count - l.states;
    if (l.lists < 0) {
        tn__onnx_refuse(c, TN_ERR_FORMAT,
                        "the node has %d loop-carried values, but only %d "
                        "outputs",
                        l.states, c->out_count);
        return;
    }
    int axis[64];
    int64_t length = -1;
    for (int i = 0; i < scanned; i++) {
        const tn_tensor *x = c->x[l.states + i];
        if (i == 64 ||
            (axis[i] = tn__onnx_axis(c, listed(c->attr[IN_AXES], i),
                                     tn_tensor_ndim(x))) < 0)
            return;
        const int64_t size = tn_tensor_size(x, axis[i]);
        if (length >= 0 && size != length) {
            tn__onnx_refuse(c, TN_ERR_SHAPE,
                            "scan inputs have %lld and %lld elements along "
                            "their scan axes; these must be equal",
                            (long long)length, (long long)size);
            return;
        }
        length = size;
    }
    bool fine = loop_init(&l, c->in_count, c->out_count);
    if (fine)
        begin(c, &l, 0, 0);
    for (int i = 0; i < scanned && fine; i++)
        l.in_type[l.states + i] = c->x_type[l.states + i];
    for (int64_t t = 0; t < length && fine; t++) {
        tn_scope *scope = tn_scope_open();
        for (int i = 0; i < scanned; i++)
            l.in[l.states + i] =
                tn_select(c->x[l.states + i], axis[i],
                          listed(c->attr[IN_DIRECTIONS], i) ? length - 1 - t
                                                            : t);
        fine = scope && iterate(c, &l, body, 0, c->in_count, c->out_count);
        tn_scope_close(scope);
    }
    finish(c, &l, 0, fine);
    for (int i = 0; i < l.lists && fine; i++) {
        const int at = l.states + i;
        c->y_type[at] = l.list[i].type;
        if (!l.list[i].count) {
            c->y[at] = empty_list(&body->graph->output[at], c->device,
                                  &c->y_type[at]);
            continue;
        }
        const int out_axis =
            tn__onnx_axis(c, listed(c->attr[OUT_AXES], i),
                          tn_tensor_ndim(l.list[i].x[0]) + 1);
        if (out_axis < 0)
            break;
        c->y[at] = list_join(&l.list[i], out_axis,
                             listed(c->attr[OUT_DIRECTIONS], i) != 0);
    }
    loop_fini(&l);
}

/* ---- rows ---------------------------------------------------------------- */

static const tn__onnx_op rows[] = {
    {.name = "If", .since = 1, .min_in = 1, .max_in = 1, .max_out = -1,
     .attributes = "then_branch:graph! else_branch:graph!", .run = branch,
     .host = 1, .by_data = true},
    {.name = "Loop", .since = 1, .min_in = 0, .max_in = -1, .max_out = -1,
     .attributes = "body:graph!", .run = loop_run, .host = 3,
     .by_data = true},
    {.name = "Scan", .since = 9, .min_in = 1, .max_in = -1, .max_out = -1,
     .attributes = "body:graph! num_scan_inputs:int! scan_input_axes:ints "
                   "scan_input_directions:ints scan_output_axes:ints "
                   "scan_output_directions:ints",
     .run = scan, .by_data = true},
};
const tn__onnx_family tn__onnx_control = TN__ONNX_FAMILY(rows);
