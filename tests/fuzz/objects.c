/* objects.c: fuzzes sequences of calls on tensors, modules, optimizers, data
 * sets and scopes, in any order, with the results of earlier calls. Four bytes
 * select a call and its arguments. A rejected call must set an error message.
 * At the end all scopes are closed and no object is left. */
#include <tenon/tenon.h>

#include "fuzz.h"

const char fuzz_target[] = "objects";

enum { SLOTS = 12, DEPTH = 7, STEPS = 200 };

/* An object of one of the kinds below, and the depth of the scope that owns
 * it. */
typedef struct slot {
    void *object;
    int depth;
    bool kept; /* the target called tn_keep, so the object lives until
                * tn_drop */
} slot;

enum { TENSOR, MODULE, OPTIM, DATASET, LOADER, KINDS };

static slot slots[KINDS][SLOTS];
static tn_scope *scopes[DEPTH];
static int depth; /* number of open scopes */

/* ---- ownership ----------------------------------------------------------- */

static void let_go(slot *s)
{
    if (s->kept)
        tn_drop(s->object);
    *s = (slot){.object = NULL};
}

/* Stores an object in slot i, unless it is in a slot already. */
static void put(int kind, int i, void *object)
{
    slot new = {.object = object, .depth = depth};
    for (int k = 0; k < SLOTS && object; k++)
        if (slots[kind][k].object == object)
            return; /* an object is in one slot only */
    if (!object)
        return;
    let_go(&slots[kind][i]);
    slots[kind][i] = new;
}

static void close_to(int least)
{
    if (least >= depth)
        return;
    tn_scope_close(scopes[least]); /* closes the scopes within it, too */
    depth = least;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < SLOTS; i++)
            if (slots[kind][i].depth > depth && !slots[kind][i].kept)
                slots[kind][i].object = NULL;
}

static void keep(slot *s)
{
    if (s->object && !s->kept)
        s->kept = tn_keep(s->object) != NULL;
}

static void drop(slot *s)
{
    if (!s->kept)
        return;
    s->kept = false;
    tn_drop(s->object);
    if (s->depth >
        depth) /* its scope is closed, so this was the last reference */
        s->object = NULL;
}

/* ---- calls --------------------------------------------------------------- */

static tn_tensor *tensor(int i)
{
    return slots[TENSOR][i % SLOTS].object;
}

static tn_module *module(int i)
{
    return slots[MODULE][i % SLOTS].object;
}

/* Returns a new tensor computed from x and y; NULL if the call fails. */
static tn_tensor *make(int how, tn_tensor *x, tn_tensor *y, int n)
{
    tn_tensor *out = NULL;
    switch (how % 16) {
    case 0:
        return tn_randn(tn_dims(n % 4, n / 4 % 4 + 1));
    case 1:
        return tn_randn(tn_dims(4, 4));
    case 2:
        return tn_requires_grad(tn_randn(tn_dims(4, 4)));
    case 3:
        return tn_add(x, y);
    case 4:
        return tn_mul(x, y);
    case 5:
        return tn_matmul(x, y);
    case 6:
        return tn_t(x);
    case 7:
        return tn_select(x, n % 3 - 1, n / 3 % 4);
    case 8:
        return tn_narrow(x, 0, n % 3, n / 3 % 3);
    case 9:
        return tn_reshape(x, tn_dims(-1));
    case 10:
        return tn_detach(x);
    case 11:
        return tn_clone(tn_tensor_grad(x));
    case 12:
        return tn_softmax(x, -1);
    case 13:
        return tn_as_strided(x, tn_dims(n % 5, n / 5 % 5),
                             tn_dims(n % 7 - 2, n / 7 % 5),
                             .storage_offset = n % 9 - 2);
    case 14:
        if (x && y && tn_grad(y, &x, 1, &out) < 0)
            return NULL;
        return out;
    default:
        return tn_sum(x);
    }
}

static void change(int how, tn_tensor *x, tn_tensor *y, int n)
{
    switch (how % 10) {
    case 0:
        tn_add_(x, y);
        break;
    case 1:
        tn_mul_scalar_(x, 0.5);
        break;
    case 2:
        tn_copy_(x, y);
        break;
    case 3:
        tn_backward(x);
        break;
    case 4:
        tn_backward(tn_sum(x));
        break;
    case 5:
        tn_backward(tn_sum(x), .retain_graph = true);
        break;
    case 6:
        tn_tensor_set_data(x, y);
        break;
    case 7:
        tn_tensor_set_grad(x, y);
        break;
    case 8:
        tn_tensor_set_requires_grad(x, n & 1);
        break;
    default:
        free(tn_tensor_text(x));
    }
}

static void use_module(int how, int i, int j, int n)
{
    switch (how % 7) {
    case 0:
        put(MODULE, i, tn_nn_linear(n % 5, 4));
        break;
    case 1:
        put(MODULE, i,
            tn_nn_sequential(tn_nn_linear(4, 4), tn_nn_relu(),
                             tn_nn_dropout(0.5), tn_nn_linear(4, 4)));
        break;
    case 2:
        if (module(i) && module(j))
            tn_module_add(module(i), n & 1 ? "x" : "y", module(j));
        break;
    case 3:
        put(TENSOR, i, tn_forward(module(j), tensor(n)));
        break;
    case 4:
        tn_module_train(module(i), n & 1);
        break;
    case 5:
        tn_clip_grad_norm(tn_parameters(module(i)), 1);
        break;
    default:
        put(OPTIM, i,
            n & 1 ? tn_optim_adam(tn_parameters(module(j)))
                  : tn_optim_sgd(tn_parameters(module(j)), .lr = 0.01,
                                 .momentum = 0.9));
    }
}

static void use_other(int how, int i, int j, int n)
{
    tn_loader *loader = slots[LOADER][i].object;
    switch (how % 9) {
    case 0:
        tn_optim_step(slots[OPTIM][i].object);
        break;
    case 1:
        tn_optim_zero_grad(slots[OPTIM][i].object);
        break;
    case 2:
        put(DATASET, i, tn_dataset_from_tensors(tensor(j), tensor(n)));
        break;
    case 3:
        put(LOADER, i,
            tn_loader_new(slots[DATASET][j].object, .batch_size = n % 4,
                          .shuffle = n & 4));
        break;
    case 4:
        if (loader)
            TN_EACH_BATCH(batch, loader)
                if (!tn_sum(batch.x) || batch.index > 1)
                    break;
        break;
    case 5:
        if (depth < DEPTH && (scopes[depth] = tn_scope_open()))
            depth++;
        break;
    case 6:
        close_to(depth ? n % depth : 0);
        break;
    case 7:
        keep(&slots[n % KINDS][i]);
        break;
    default:
        drop(&slots[n % KINDS][i]);
    }
}

static void step(const uint8_t *data)
{
    const int i = data[1] % SLOTS, j = data[2] % SLOTS, n = data[3];
    const int how = data[0] / 4;
    if (data[0] % 4 == 0)
        put(TENSOR, i, make(how, tensor(j), tensor(n), n));
    else if (data[0] % 4 == 1)
        change(how, tensor(i), tensor(j), n);
    else if (data[0] % 4 == 2)
        use_module(how, i, j, n);
    else
        use_other(how, i, j, n);
    if (tn_error())
        fuzz_refused();
}

static void run(const uint8_t *data, size_t size)
{
    tn_scope *root = tn_scope_open();
    tn_manual_seed(1);
    for (size_t k = 0; k + 4 <= size && k < 4 * STEPS; k += 4)
        step(data + k);
    close_to(0);
    tn_scope_close(root);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < SLOTS; i++)
            let_go(&slots[kind][i]);
    if (tn_error())
        fuzz_refused();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_flat(run, data, size);
    return 0;
}
