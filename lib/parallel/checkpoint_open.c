/* checkpoint_open.c: opens a checkpoint of many processes: which tensors it has, and
 * in which pieces.
 *
 * The files are not trusted. safetensors_open has checked that the tensors of a
 * file cover its data; here the header is compared with its hash, each piece
 * must lie within its whole, and the pieces of a whole must agree about it and
 * make it up. So sizes cannot be larger than the files. */
#include <parallel/checkpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char call[] = "sharded_open";

static void release(void *object)
{
    tn_sharded *s = object;
    for (int i = 0; i < s->files; i++) {
        tn_drop(s->file[i]);
        tn__records_release(&s->records[i]);
    }
    free(s->file);
    free(s->records);
    free(s->piece);
    free(s->whole);
    free(s->path);
    tn__complete_release(&s->complete);
}

static const tn_object_class sharded_class = {.size = sizeof sharded_class,
                                              .name = "sharded checkpoint",
                                              .bytes = sizeof(tn_sharded),
                                              .release = release};

static tn_status no_memory(void)
{
    return tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
}

/* ---- files ---------------------------------------------------------------- */

tn_status tn__sharded_header_hash(const tn_safetensors *file, const char *what,
                                  uint64_t *out)
{
    int64_t data = 0;
    const int fd = tn_safetensors_descriptor(file, &data);
    tn__xxh64 hash;
    tn__xxh64_begin(&hash);
    for (int64_t at = 0; at < data;) {
        char block[4096];
        const size_t wanted = data - at < (int64_t)sizeof block
                                  ? (size_t)(data - at) : sizeof block;
        ssize_t got = pread(fd, block, wanted, at);
        if (got <= 0)
            return tn_error_set(TN_ERR_IO, "%s: %s: its header cannot be read",
                                what, tn_safetensors_path(file));
        tn__xxh64_add(&hash, block, (size_t)got);
        at += got;
    }
    *out = tn__xxh64_end(&hash);
    return TN_OK;
}

static tn_status open_file(tn_sharded *s, int i, const char *path,
                           const uint64_t *header)
{
    TN_SCOPE(scope) {
        s->file[i] = tn_keep(tn_safetensors_open(path));
        tn_error_rename("safetensors_open", call, "path");
    }
    if (!s->file[i])
        return tn_error_code();
    s->files = i + 1;
    uint64_t hash = 0;
    if (header && tn__sharded_header_hash(s->file[i], call, &hash) < 0)
        return tn_error_code();
    if (header && hash != *header)
        return tn_error_set(TN_ERR_FORMAT, "%s: %s: damaged: its header does "
                            "not have the hash in COMPLETE", call, path);
    const char *text = tn_safetensors_metadata(s->file[i], TN__SHARDED_PIECES);
    if (!text && header)
        return tn_error_set(TN_ERR_FORMAT, "%s: %s: its metadata has no \"%s\"",
                            call, path, TN__SHARDED_PIECES);
    const char *wrong =
        header ? tn__records_parse(&s->records[i], text) : NULL;
    return wrong ? tn_error_set(TN_ERR_FORMAT, "%s: %s: \"%s\" in its "
                                "metadata: %s", call, path, TN__SHARDED_PIECES,
                                wrong)
                 : TN_OK;
}

static tn_status open_files(tn_sharded *s, bool folder)
{
    const size_t count = folder ? s->complete.count : 1;
    s->file = calloc(count, sizeof *s->file);
    s->records = calloc(count, sizeof *s->records);
    if (!s->file || !s->records || count > INT32_MAX)
        return no_memory();
    if (!folder)
        return open_file(s, 0, s->path, NULL);
    for (size_t i = 0; i < count; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", s->path,
                     s->complete.file[i].name) >= (int)sizeof path)
            return tn_error_set(TN_ERR_IO, "%s: %s: the path is too long", call,
                                s->path);
        if (open_file(s, (int)i, path, &s->complete.file[i].header) < 0)
            return tn_error_code();
    }
    return TN_OK;
}

/* ---- pieces --------------------------------------------------------------- */

static int by_entry(const void *a, const void *b)
{
    return strcmp(((const tn__record *)a)->entry,
                  ((const tn__record *)b)->entry);
}

static tn_status add_piece(tn_sharded *s, int f, int i, int64_t *at)
{
    tn_safetensors *file = s->file[f];
    const char *path = tn_safetensors_path(file);
    const char *entry = tn_safetensors_name(file, i);
    const int ndim = tn_safetensors_ndim(file, entry);
    const int64_t *shape = tn_safetensors_shape(file, entry);
    const tn__records *all = &s->records[f];
    const tn__record *r =
        all->count ? bsearch(&(tn__record){.entry = entry}, all->record,
                             all->count, sizeof *all->record, by_entry)
                   : NULL;
    tn__saved_piece *p = &s->piece[s->pieces++];
    *p = (tn__saved_piece){.name = r ? r->name : entry, .entry = entry,
                           .file = f, .at = *at,
                           .dtype = tn_safetensors_dtype(file, entry),
                           .has_hash = r != NULL, .hash = r ? r->hash : 0};
    if (!r && s->complete.count)
        return tn_error_set(TN_ERR_FORMAT, "%s: %s: \"%s\" is not in \"%s\"",
                            call, path, entry, TN__SHARDED_PIECES);
    if (!p->dtype)
        return tn_error_set(TN_ERR_DTYPE, "%s: %s: the dtype of \"%s\" is not "
                            "one of Tenon's", call, path, entry);
    const int64_t zero[TN_MAX_NDIM] = {0};
    const bool whole = !r || r->whole;
    p->flat = !whole && r->flat;
    p->ndim = whole ? ndim : r->ndim;
    memcpy(p->shape, whole ? shape : r->shape,
           (size_t)p->ndim * sizeof *p->shape);
    if (ndim != (p->flat ? 1 : p->ndim) ||
        !tn__region_make(&p->region, p->ndim, p->shape,
                         whole ? zero : r->offset, shape, p->flat))
        return tn_error_set(TN_ERR_FORMAT, "%s: %s: the piece \"%s\" is not "
                            "within its whole, \"%s\"", call, path, entry,
                            p->name);
    *at += tn__region_numel(&p->region) * (int64_t)tn_dtype_bytes(p->dtype);
    return TN_OK;
}

static tn_status add_pieces(tn_sharded *s)
{
    int64_t count = 0;
    for (int f = 0; f < s->files; f++)
        count += tn_safetensors_count(s->file[f]);
    s->piece = calloc((size_t)count + 1, sizeof *s->piece);
    s->whole = calloc((size_t)count + 1, sizeof *s->whole);
    if (!s->piece || !s->whole || count > INT32_MAX)
        return no_memory();
    for (int f = 0; f < s->files; f++) {
        tn__records *all = &s->records[f];
        if (all->count)
            qsort(all->record, all->count, sizeof *all->record, by_entry);
        int64_t at = 0;
        tn_safetensors_descriptor(s->file[f], &at);
        const int in_file = tn_safetensors_count(s->file[f]);
        for (int i = 0; i < in_file; i++) /* in the order of their data, which
                                             has no gaps */
            if (add_piece(s, f, i, &at) < 0)
                return tn_error_code();
    }
    return TN_OK;
}

/* ---- wholes --------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const tn__saved_piece *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->file > y->file) - (x->file < y->file);
}

static tn_status check_whole(const tn_sharded *s, const tn__saved_whole *w)
{
    const tn__saved_piece *first = w->piece;
    for (int i = 1; i < w->count; i++) {
        const tn__saved_piece *p = &w->piece[i];
        if (p->dtype != first->dtype || p->ndim != first->ndim ||
            memcmp(p->shape, first->shape,
                   (size_t)p->ndim * sizeof *p->shape) != 0)
            return tn_error_set(TN_ERR_FORMAT, "%s: %s: the pieces of \"%s\" do "
                                "not agree about its shape or dtype", call,
                                s->path, p->name);
    }
    const tn__region **region = malloc((size_t)w->count * sizeof *region);
    if (!region)
        return no_memory();
    for (int i = 0; i < w->count; i++)
        region[i] = &w->piece[i].region;
    int64_t at = 0;
    const tn__tiling tiling =
        tn__regions_tile(region, (size_t)w->count,
                         tn__sizes_numel(first->ndim, first->shape), &at);
    free(region);
    if (tiling == TN__TILING_NO_MEMORY)
        return no_memory();
    return tiling == TN__TILING_EXACT
               ? TN_OK
               : tn_error_set(TN_ERR_FORMAT, "%s: %s: the pieces of \"%s\" %s "
                              "at element %" PRId64, call, s->path, first->name,
                              tiling == TN__TILING_GAP ? "have a gap"
                                                       : "overlap", at);
}

static tn_status find_wholes(tn_sharded *s)
{
    qsort(s->piece, (size_t)s->pieces, sizeof *s->piece, by_name);
    for (int64_t i = 0; i < s->pieces;) {
        tn__saved_whole *w = &s->whole[s->wholes++];
        w->piece = &s->piece[i];
        while (i < s->pieces && strcmp(s->piece[i].name, w->piece->name) == 0) {
            i++;
            w->count++;
        }
        if (check_whole(s, w) < 0)
            return tn_error_code();
        w->bytes = tn__sizes_numel(w->piece->ndim, w->piece->shape) *
                   (int64_t)tn_dtype_bytes(w->piece->dtype);
    }
    return TN_OK;
}

/* complete is NULL for a single file. */
tn_sharded *tn__sharded_open_files(const char *path, tn__complete *complete)
{
    tn_sharded *s = tn_object_new(&sharded_class, 0);
    if (s && complete)
        s->complete = *complete;
    else if (complete)
        tn__complete_release(complete);
    if (!s)
        return NULL;
    s->path = strdup(path);
    if (!s->path)
        no_memory();
    const bool good = s->path && open_files(s, complete != NULL) == TN_OK &&
                      add_pieces(s) == TN_OK && find_wholes(s) == TN_OK;
    return good ? s : NULL;
}

tn_status tn__sharded_check_files(const char *path,
                                  const tn__complete *complete)
{
    tn__json_writer json = {.grow = realloc};
    tn__complete as_read;
    tn__complete_write(&json, complete);
    const char *wrong = json.failed ? "out of memory"
                                    : tn__complete_parse(&as_read, json.text,
                                                         json.count);
    free(json.text);
    if (wrong)
        return tn_error_set(TN_ERR_MEMORY, "sharded_save: %s: %s", path, wrong);
    TN_SCOPE(scope) {
        tn__sharded_open_files(path, &as_read);
        tn_error_rename("sharded_open", "sharded_save", "checkpoint");
    }
    return tn_error_code();
}

tn_sharded *tn_sharded_open(const char *path)
{
    if (tn_error())
        return NULL;
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path", "path is NULL");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_sharded *s = NULL;
    tn__complete complete;
    char found[PATH_MAX];
    const int kind = tn__sharded_resolve(path, found, call);
    if (kind == 0)
        tn_error_set(TN_ERR_IO, "%s: %s: no complete checkpoint is there", call,
                     path);
    else if (kind == 2)
        s = tn__sharded_open_files(found, NULL);
    else if (kind == 1 &&
             tn__sharded_read_complete(found, &complete, call) == TN_OK)
        s = tn__sharded_open_files(found, &complete);
    return tn_scope_result(scope, s);
}

/* ---- attributes ----------------------------------------------------------- */

static int compare_name(const void *name, const void *whole)
{
    return strcmp(name, ((const tn__saved_whole *)whole)->piece->name);
}

const tn__saved_whole *tn__sharded_find(const tn_sharded *s, const char *name)
{
    return s && name && s->wholes
               ? bsearch(name, s->whole, (size_t)s->wholes, sizeof *s->whole,
                         compare_name)
               : NULL;
}

static const tn__saved_whole *find(const tn_sharded *s, const char *name)
{
    return tn_object_is(s, &sharded_class) ? tn__sharded_find(s, name) : NULL;
}

const char *tn_sharded_path(const tn_sharded *s)
{
    return tn_object_is(s, &sharded_class) ? s->path : NULL;
}

int tn_sharded_count(const tn_sharded *s)
{
    return tn_object_is(s, &sharded_class) ? s->wholes : 0;
}

const char *tn_sharded_name(const tn_sharded *s, int i)
{
    return i >= 0 && i < tn_sharded_count(s) ? s->whole[i].piece->name : NULL;
}

bool tn_sharded_has(const tn_sharded *s, const char *name)
{
    return find(s, name) != NULL;
}

tn_dtype tn_sharded_dtype(const tn_sharded *s, const char *name)
{
    const tn__saved_whole *w = find(s, name);
    return w ? w->piece->dtype : TN_DTYPE_NONE;
}

int tn_sharded_ndim(const tn_sharded *s, const char *name)
{
    const tn__saved_whole *w = find(s, name);
    return w ? w->piece->ndim : 0;
}

const int64_t *tn_sharded_shape(const tn_sharded *s, const char *name)
{
    const tn__saved_whole *w = find(s, name);
    return w ? w->piece->shape : NULL;
}

int tn_sharded_piece_count(const tn_sharded *s, const char *name)
{
    const tn__saved_whole *w = find(s, name);
    return w ? w->count : 0;
}

int tn_sharded_file_count(const tn_sharded *s)
{
    return tn_object_is(s, &sharded_class) ? s->files : 0;
}

const char *tn_sharded_file_name(const tn_sharded *s, int i)
{
    if (i < 0 || i >= tn_sharded_file_count(s))
        return NULL;
    const char *path = tn_safetensors_path(s->file[i]);
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *tn_sharded_text(const tn_sharded *s, const char *key)
{
    return tn_sharded_file_count(s) ? tn_safetensors_metadata(s->file[0], key)
                                    : NULL;
}

static int print_sizes(char *out, size_t room, const int64_t *size, int count)
{
    int length = snprintf(out, room, "[");
    for (int i = 0; i < count && length < (int)room; i++)
        length += snprintf(out + length, room - (size_t)length,
                           "%s%" PRId64, i ? ", " : "", size[i]);
    if (length < (int)room)
        length += snprintf(out + length, room - (size_t)length, "]");
    return length;
}

int tn_sharded_piece_text(const tn_sharded *s, const char *name, int i,
                          char *out, size_t room)
{
    const tn__saved_whole *w = find(s, name);
    if (!w || i < 0 || i >= w->count)
        return -1;
    const tn__saved_piece *p = &w->piece[i];
    const tn__region *r = &p->region;
    const int64_t numel = tn__region_numel(r);
    char what[640], offset[256], extent[256];
    bool rows = !p->flat && r->ndim > 0;
    for (int d = 1; d < r->ndim; d++)
        rows = rows && r->extent[d] == r->shape[d];
    if (numel == tn__sizes_numel(p->ndim, p->shape))
        snprintf(what, sizeof what, "all");
    else if (p->flat || rows)
        snprintf(what, sizeof what, "%s %" PRId64 " to %" PRId64,
                 p->flat ? "elements" : "rows", r->offset[0],
                 r->offset[0] + r->extent[0] - 1);
    else {
        print_sizes(offset, sizeof offset, r->offset, r->ndim);
        print_sizes(extent, sizeof extent, r->extent, r->ndim);
        snprintf(what, sizeof what, "%s at %s", extent, offset);
    }
    return snprintf(out, room, "%s in %s", what,
                    tn_sharded_file_name(s, p->file));
}
