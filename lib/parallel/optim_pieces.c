/* optim_pieces.c: the state of a divided optimizer in a checkpoint of many
 * processes: pieces of <tenon/optim.h> as pieces of <tenon/sharded.h>. */
#include <parallel/parallel.h>

#include <inttypes.h>
#include <stdio.h>
#include <tenon/sharded.h>

static const char prefix[] = "optim.";
enum { NAME = 512 };

/* Calls `pass` with the piece as a checkpoint has it. A whole tensor is a block,
 * a part neighbouring elements. */
static tn_status convert(const tn_optim_piece *from,
                         tn_status (*pass)(const tn_piece *, void *),
                         void *context)
{
    char name[NAME];
    if (snprintf(name, sizeof name, "%s%s", prefix, from->name) >= NAME)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_sharded_state",
                                        "optim", "the name \"%.60s...\" of a state "
                                        "is longer than %d bytes", from->name,
                                        (int)NAME - (int)sizeof prefix);
    int64_t numel = 1, offset[TN_MAX_NDIM] = {from->offset};
    for (int i = 0; i < from->shape.count; i++)
        numel *= from->shape.dim[i];
    const tn_piece piece = {.name = name,
                            .ndim = from->shape.count,
                            .shape = from->shape.dim,
                            .offset = offset,
                            .flat = tn_tensor_numel(from->tensor) != numel,
                            .tensor = from->tensor};
    return pass(&piece, context);
}

/* ---- saving --------------------------------------------------------------- */

typedef struct saving {
    tn_piece_visit visit;
    void *context;
} saving;

static tn_status give(const tn_piece *piece, void *context)
{
    const saving *s = context;
    s->visit(piece, s->context);
    return TN_OK;
}

static tn_status save_piece(const tn_optim_piece *piece, void *context)
{
    return convert(piece, give, context);
}

static char *pieces(void *object, tn_piece_visit visit, void *context)
{
    return tn_optim_state_pieces(object, save_piece, &(saving){visit, context});
}

/* ---- loading -------------------------------------------------------------- */

static tn_status read(const tn_piece *piece, void *context)
{
    return tn_sharded_read(context, piece);
}

static tn_status load_piece(const tn_optim_piece *piece, void *context)
{
    return convert(piece, read, context);
}

static tn_status load(void *object, const char *text, tn_sharded *saved)
{
    return tn_optim_load_pieces(object, text, tn_sharded_path(saved), load_piece,
                                saved);
}

tn_sharded_state tn_optim_sharded_state(tn_optim *optim)
{
    return (tn_sharded_state){.size = sizeof(tn_sharded_state),
                              .prefix = prefix,
                              .pieces = pieces,
                              .load = load,
                              .object = optim};
}
