/* checkpoint_save.c: tn_sharded_save.
 *
 * The ranks agree three times: that all save the same parts, into the folder
 * that rank 0 has made; that all files are on disk; that COMPLETE is. Until then
 * a rank that fails tells the others instead of leaving them alone, and nothing
 * of an older checkpoint is touched. */
#include <parallel/agree.h>
#include <parallel/parallel.h>
#include <parallel/checkpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

static const char call[] = "sharded_save";
enum { HASH_BYTES = 1 << 22 }; /* so much of a tensor is hashed at a time */

/* A piece that this rank writes. */
typedef struct own_piece {
    tn_tensor *tensor;  /* kept */
    tn__record record;  /* name and entry are in `name` */
    char *name, *entry; /* owned */
} own_piece;

typedef struct saving {
    const char *folder;
    const tn_checkpoint *checkpoint;
    tn_group *group;
    tn_sharded_save_options options;
    int rank, ranks;
    tn__report own, *all;  /* all: owned, of each rank */
    own_piece *piece;      /* owned */
    int pieces, room;
    char *state_text;      /* owned; of options.state, or NULL */
    char state_key[64], ddp_text[64];
    bool begun;            /* the ranks have agreed about something */
} saving;

static tn_status no_memory(void)
{
    return tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
}

/* ---- which pieces --------------------------------------------------------- */

static own_piece *new_piece(saving *s, const char *name, tn_tensor *x)
{
    if (s->pieces == s->room) {
        const int room = s->room ? 2 * s->room : 64;
        own_piece *more = realloc(s->piece, (size_t)room * sizeof *more);
        if (!more)
            return no_memory(), NULL;
        s->piece = more;
        s->room = room;
    }
    own_piece *p = &s->piece[s->pieces];
    *p = (own_piece){.name = strdup(name)};
    if (!p->name)
        return no_memory(), NULL;
    s->pieces++;
    p->tensor = tn_keep(x);
    return p;
}

/* Takes this rank's part of a tensor that all ranks have. The bytes of all
 * tensors are divided equally; a row belongs to the rank in whose part it
 * begins. `at` is where the tensor begins among all bytes. */
static tn_status share(saving *s, const char *name, tn_tensor *x, int64_t at,
                       int64_t total)
{
    const int ndim = tn_tensor_ndim(x);
    const int64_t *shape = tn_tensor_shape(x);
    const int64_t rows = ndim ? shape[0] : 1;
    const int64_t bytes = tn_tensor_numel(x) *
                          (int64_t)tn_dtype_bytes(tn_tensor_dtype(x));
    int64_t first = 0, end = rows;
    if (!bytes)
        end = s->rank == 0 ? rows : -1;
    else {
        const int64_t row = bytes / rows, size = total / s->ranks;
        const int64_t low = s->rank * size - at;
        const int64_t high = s->rank == s->ranks - 1 ? total - at : low + size;
        first = low <= 0 ? 0 : (low + row - 1) / row;
        end = high <= 0 ? 0 : (high + row - 1) / row;
        end = end < rows ? end : rows;
        if (first >= end)
            end = -1;
    }
    if (end < 0)
        return TN_OK;
    const bool all = end - first == rows;
    own_piece *p = new_piece(s, name, all ? x : tn_narrow(x, 0, first,
                                                          end - first));
    if (!p)
        return tn_error_code();
    p->record.whole = all;
    p->record.ndim = ndim;
    p->record.offset[0] = first;
    memcpy(p->record.shape, shape, (size_t)ndim * sizeof *shape);
    return tn_error() ? tn_error_code() : TN_OK;
}

static void add_state_piece(const tn_piece *piece, void *context)
{
    saving *s = context;
    tn__region region;
    if (tn_error())
        return;
    if (!piece->name || !piece->tensor ||
        strncmp(piece->name, s->options.state->prefix,
                strlen(s->options.state->prefix)) != 0 ||
        tn_tensor_ndim(piece->tensor) != (piece->flat ? 1 : piece->ndim) ||
        !tn__region_make(&region, piece->ndim, piece->shape, piece->offset,
                         tn_tensor_shape(piece->tensor), piece->flat)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "state",
                                 "the piece \"%s\" of the state is not within "
                                 "its whole", piece->name ? piece->name : "");
        return;
    }
    own_piece *p = new_piece(s, piece->name, piece->tensor);
    if (!p)
        return;
    p->record.flat = piece->flat;
    p->record.ndim = piece->ndim;
    for (int i = 0; i < piece->ndim; i++)
        p->record.shape[i] = piece->shape[i];
    for (int i = 0; i < region.ndim; i++)
        p->record.offset[i] = region.offset[i];
    p->record.whole = !piece->flat && tn__region_numel(&region) ==
                                          tn__sizes_numel(piece->ndim,
                                                          piece->shape);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const own_piece *)a)->name, ((const own_piece *)b)->name);
}

/* Gives each piece a name in the file: that of its whole, with a number if the
 * rank has more than one piece of it. */
static tn_status name_entries(saving *s)
{
    if (s->pieces)
        qsort(s->piece, (size_t)s->pieces, sizeof *s->piece, by_name);
    for (int i = 0; i < s->pieces; i++) {
        own_piece *p = &s->piece[i];
        const size_t room = strlen(p->name) + 16;
        p->entry = malloc(room);
        if (!p->entry)
            return no_memory();
        if (i && strcmp(s->piece[i - 1].name, p->name) == 0)
            snprintf(p->entry, room, "%s@%d", p->name, i);
        else
            snprintf(p->entry, room, "%s", p->name);
        p->record.entry = p->entry;
        p->record.name = p->name;
    }
    return TN_OK;
}

/* ---- texts ---------------------------------------------------------------- */

typedef const char *const (*text_list)[2];

/* Whether a text may differ between the ranks of a job, or is written in another
 * form. */
static bool is_common(const char *key)
{
    return strcmp(key, "random") != 0 && strcmp(key, "loader") != 0;
}

static void hash_text(tn__xxh64 *h, const char *text)
{
    tn__xxh64_add(h, text, strlen(text) + 1);
}

static uint64_t hash_parts(const saving *s, const char *const *names,
                           tn_tensor *const *tensors, int count, text_list text,
                           int texts)
{
    tn__xxh64 h;
    tn__xxh64_begin(&h);
    for (int i = 0; i < count; i++) {
        hash_text(&h, names[i]);
        hash_text(&h, tn_dtype_name(tn_tensor_dtype(tensors[i])));
        tn__xxh64_add(&h, tn_tensor_shape(tensors[i]),
                      (size_t)tn_tensor_ndim(tensors[i]) * sizeof(int64_t));
    }
    for (int i = 0; i < texts; i++)
        if (is_common(text[i][0])) {
            hash_text(&h, text[i][0]);
            hash_text(&h, text[i][1]);
        }
    hash_text(&h, s->state_text ? s->state_text : "");
    hash_text(&h, s->ddp_text);
    hash_text(&h, s->folder);
    tn__xxh64_add(&h, &s->options.keep, sizeof s->options.keep);
    return tn__xxh64_end(&h);
}

/* ---- the file of a rank --------------------------------------------------- */

static bool path_of(const saving *s, const char *name, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/%s%s%s", s->folder, s->all[0].name,
                 name ? "/" : "", name ? name : "") < PATH_MAX)
        return true;
    tn_error_set(TN_ERR_IO, "%s: %s: the path is too long", call, s->folder);
    return false;
}

static void file_name(const saving *s, int rank, char out[64])
{
    snprintf(out, 64, "rank-%05d-of-%05d.safetensors", rank, s->ranks);
}

/* Hashes the elements of a tensor, in rows of about HASH_BYTES. */
static tn_status hash_tensor(tn_tensor *x, uint64_t *out)
{
    tn__xxh64 h;
    tn__xxh64_begin(&h);
    const int64_t rows = tn_tensor_ndim(x) ? tn_tensor_shape(x)[0] : 1;
    const int64_t bytes = tn_tensor_numel(x) *
                          (int64_t)tn_dtype_bytes(tn_tensor_dtype(x));
    const int64_t row = rows ? bytes / rows : 0;
    int64_t step = row ? HASH_BYTES / row : rows;
    step = step < 1 ? 1 : step > rows ? rows : step;
    char *data = malloc(bytes ? (size_t)(step * row) : 1);
    tn_status status = data ? TN_OK : no_memory();
    for (int64_t i = 0; i < rows && bytes && status == TN_OK; i += step)
        TN_SCOPE(scope) {
            const int64_t n = rows - i < step ? rows - i : step;
            tn_tensor *part = n == rows ? x : tn_narrow(x, 0, i, n);
            status = tn_tensor_to_array(part, data, (size_t)(n * row));
            if (status == TN_OK)
                tn__xxh64_add(&h, data, (size_t)(n * row));
        }
    free(data);
    *out = tn__xxh64_end(&h);
    return status;
}

/* Returns the metadata "sharded.pieces", which the caller frees, or NULL. */
static char *describe(saving *s)
{
    tn__json_writer json = {.grow = realloc};
    tn__json_add(&json, "{");
    for (int i = 0; i < s->pieces; i++) {
        own_piece *p = &s->piece[i];
        if (hash_tensor(p->tensor, &p->record.hash) < 0)
            break;
        tn__json_add(&json, i ? "," : "");
        tn__record_write(&json, &p->record);
    }
    tn__json_add(&json, "}");
    if (json.failed)
        no_memory();
    if (!tn_error())
        return json.text;
    free(json.text);
    return NULL;
}

static tn_status save_file(const saving *s, const char *path, text_list text,
                           int texts)
{
    const char **name = calloc((size_t)s->pieces + 1, sizeof *name);
    tn_tensor **tensor = calloc((size_t)s->pieces + 1, sizeof *tensor);
    for (int i = 0; name && tensor && i < s->pieces; i++) {
        name[i] = s->piece[i].entry;
        tensor[i] = s->piece[i].tensor;
    }
    tn_status status = name && tensor
                           ? tn_safetensors_save(path, name, tensor, s->pieces,
                                                 text, texts)
                           : no_memory();
    tn_error_rename("safetensors_save", call, "folder");
    free(name);
    free(tensor);
    return status;
}

/* Writes this rank's file, and sets its size and the hash of its header in the
 * report. */
static tn_status write_file(saving *s, text_list common, int count)
{
    char name[64], path[PATH_MAX], rank[32];
    char *pieces = describe(s);
    const char *(*text)[2] = calloc((size_t)count + 6, sizeof *text);
    file_name(s, s->rank, name);
    if (pieces && !text)
        no_memory();
    if (!pieces || !text || !path_of(s, name, path)) {
        free(pieces);
        free(text);
        return tn_error_code();
    }
    int texts = 0;
    for (int i = 0; i < count; i++)
        if (strcmp(common[i][0], "random") == 0 ||
            (s->rank == 0 && is_common(common[i][0])))
            memcpy(text[texts++], common[i], sizeof *text);
    snprintf(rank, sizeof rank, "%d of %d", s->rank, s->ranks);
    const char *const more[][2] = {{TN__SHARDED_PREFIX "rank", rank},
                                   {TN__SHARDED_PIECES, pieces},
                                   {s->state_key, s->state_text},
                                   {"ddp", s->ddp_text}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i][1] && *more[i][1] && (i < 2 || s->rank == 0))
            memcpy(text[texts++], more[i], sizeof *text);
    tn_status status = save_file(s, path, (text_list)text, texts);
    free(text);
    free(pieces);
    if (status == TN_OK)
        TN_SCOPE(scope) {
            struct stat info;
            const tn_safetensors *file = tn_safetensors_open(path);
            status = file ? tn__sharded_header_hash(file, call, &s->own.hash)
                          : tn_error_code();
            if (stat(path, &info) == 0)
                s->own.bytes = info.st_size;
        }
    return status;
}

/* ---- the steps on which ranks agree --------------------------------------- */

static tn_status agree(saving *s)
{
    s->begun = true;
    return tn__agree(s->group, call, &s->own, s->all);
}

static tn_status agree_on_parts(saving *s)
{
    char path[PATH_MAX];
    if (s->rank == 0 && !tn_error())
        tn__sharded_make_folder(s->folder, s->checkpoint->step, s->own.name,
                                &s->own.serial);
    tn_status status = agree(s);
    for (int r = 1; r < s->ranks && status == TN_OK; r++)
        if (s->all[r].hash != s->all[0].hash)
            status = tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call, "checkpoint", "rank %d saves other parts "
                "than rank 0: names, shapes, dtypes, steps, rates, the loader's "
                "position and the options must be the same", r);
    if (status < 0 && s->rank == 0 && s->own.status == TN_OK && *s->own.name) {
        memcpy(s->all[0].name, s->own.name, sizeof s->own.name);
        if (path_of(s, NULL, path))
            tn__sharded_remove(path);
    }
    return status;
}

static tn_status write_complete(saving *s)
{
    tn__complete c = {.step = s->checkpoint->step, .serial = s->all[0].serial,
                      .count = (size_t)s->ranks};
    char path[PATH_MAX], (*name)[64] = calloc((size_t)s->ranks, sizeof *name);
    c.file = calloc((size_t)s->ranks, sizeof *c.file);
    tn_status status = c.file && name ? TN_OK : no_memory();
    for (int r = 0; r < s->ranks && status == TN_OK; r++) {
        struct stat info;
        file_name(s, r, name[r]);
        c.file[r] = (tn__file_record){name[r], s->all[r].bytes, s->all[r].hash};
        if (path_of(s, name[r], path) &&
            (stat(path, &info) < 0 || info.st_size != s->all[r].bytes))
            tn_error_set(TN_ERR_IO, "%s: %s: rank %d has written it, but rank 0 "
                         "does not see it: all ranks need the same folder", call,
                         path, r);
        status = tn_error() ? tn_error_code() : TN_OK;
    }
    if (status == TN_OK && path_of(s, NULL, path)) {
        status = tn__sharded_check_files(path, &c);
        status = status < 0 ? status : tn__sharded_complete(path, &c);
    }
    free(c.file);
    free(name);
    return status;
}

static tn_status save_parts(void *context, const char *const *names,
                            tn_tensor *const *tensors, int count,
                            text_list text, int texts)
{
    saving *s = context;
    char path[PATH_MAX];
    int64_t total = 0, at = 0;
    for (int i = 0; i < count; i++)
        total += tn_tensor_numel(tensors[i]) *
                 (int64_t)tn_dtype_bytes(tn_tensor_dtype(tensors[i]));
    for (int i = 0; i < count && !tn_error(); i++) {
        share(s, names[i], tensors[i], at, total);
        at += tn_tensor_numel(tensors[i]) *
              (int64_t)tn_dtype_bytes(tn_tensor_dtype(tensors[i]));
    }
    const tn_sharded_state *state = s->options.state;
    if (state && !tn_error())
        s->state_text = state->pieces(state->object, add_state_piece, s);
    if (state && !tn_error() && !s->state_text)
        tn_error_set(TN_ERR_STATE, "%s: the state has no text", call);
    if (!tn_error())
        name_entries(s);
    s->own.hash = hash_parts(s, names, tensors, count, text, texts);
    if (agree_on_parts(s) < 0)
        return tn_error_code();
    s->own.hash = 0;
    write_file(s, text, texts);
    tn_status status = agree(s);
    if (status == TN_OK) {
        if (s->rank == 0)
            write_complete(s);
        status = agree(s);
    }
    if (s->rank > 0 || !path_of(s, NULL, path))
        return status;
    if (status < 0)
        tn__sharded_remove(path);
    else
        tn__sharded_prune(s->folder, s->all[0].name, s->options.keep);
    return status;
}

/* ---- the call ------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_sharded_save, "sharded_save", "folder, checkpoint, group",
                TN_SHARDED_SAVE_OPTIONS_LIST)

static void check(saving *s, const tn_sharded_save_options *options)
{
    uint64_t seed, step;
    if (tn_options_take(tn_sharded_save_type(), &s->options, options) < 0)
        return;
    const tn_sharded_state *state = s->options.state;
    if (!s->folder || !*s->folder || !s->checkpoint)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call,
                                 s->checkpoint ? "folder" : "checkpoint",
                                 "%s is %s",
                                 s->checkpoint ? "folder" : "checkpoint",
                                 s->folder && !*s->folder ? "empty" : "NULL");
    else if (s->checkpoint->size >= sizeof(size_t) && s->checkpoint->step < 0)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "checkpoint",
                                 "step is %lld; expected at least 0",
                                 (long long)s->checkpoint->step);
    else if (s->options.keep < 0)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "keep",
                                 ".keep is %lld; expected at least 0",
                                 (long long)s->options.keep);
    else if (state && (!state->prefix || !state->pieces || !state->load ||
                       strlen(state->prefix) > 40))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "state",
                                 ".state is incomplete");
    else if (s->options.ddp && tn__ddp_check(s->options.ddp, call)) {
        if (!tn__ddp_counters(s->options.ddp, &seed, &step))
            tn_error_refuse_argument(TN_ERR_STATE, call, "ddp", "a step is under "
                                     "way: save after tn_ddp_next has returned "
                                     "false");
        snprintf(s->ddp_text, sizeof s->ddp_text, "%" PRIu64 " %" PRIu64, seed,
                 step);
    }
    if (!tn_error() && state)
        snprintf(s->state_key, sizeof s->state_key, "%soptimizer",
                 state->prefix);
}

static void forget(saving *s)
{
    for (int i = 0; i < s->pieces; i++) {
        tn_drop(s->piece[i].tensor);
        free(s->piece[i].name);
        free(s->piece[i].entry);
    }
    free(s->piece);
    free(s->all);
    free(s->state_text);
}

tn_status tn_sharded_save_with(const char *folder,
                               const tn_checkpoint *checkpoint, tn_group *group,
                               const tn_sharded_save_options *options)
{
    saving s = {.folder = folder, .checkpoint = checkpoint, .group = group};
    if (!tn_group_size(group)) {
        if (!tn_error())
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "group",
                                     "group is %s", group ? "no group" : "NULL");
        return TN_ERR_STATE;
    }
    if (tn_error()) { /* refused, and tells the other ranks why */
        (void)tn_dist_barrier(group);
        return TN_ERR_STATE;
    }
    s.rank = tn_group_rank(group);
    s.ranks = tn_group_size(group);
    s.all = calloc((size_t)s.ranks, sizeof *s.all);
    if (!s.all) {
        no_memory();
        (void)tn_dist_barrier(group);
    } else
        TN_NO_GRAD TN_SCOPE(scope) {
            check(&s, options);
            if (!tn_error())
                tn_checkpoint_write(checkpoint, save_parts, &s);
            tn_error_rename("checkpoint_write", call, "checkpoint");
            if (!s.begun) /* failed before the others could know */
                agree(&s);
        }
    forget(&s);
    return tn_error() ? tn_error_code() : TN_OK;
}
