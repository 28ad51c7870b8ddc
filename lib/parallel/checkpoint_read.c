/* checkpoint_read.c: reads the elements of a checkpoint of many processes.
 *
 * A reader asks for a region of a tensor. Of each piece that it has elements in
 * common with, only the bytes from the first to the last common run are read. A
 * piece that is read from its beginning to its end is compared with its hash. */
#include <parallel/checkpoint.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include <unistd.h>

enum { WINDOW = 1 << 18 }; /* short runs are read together */

/* ---- one piece ------------------------------------------------------------ */

typedef struct reader {
    const tn_sharded *saved;
    const tn__saved_piece *piece;
    const char *call;
    int64_t size, bytes;       /* of an element, and of the piece */
    char *out;
    char *window;              /* WINDOW bytes: of the piece, from `from` on */
    int64_t from, held;
    tn__xxh64 hash;            /* of the first `hashed` bytes of the piece */
    int64_t hashed;
    bool failed;
} reader;

static const char *path_of(const reader *r)
{
    return tn_safetensors_path(r->saved->file[r->piece->file]);
}

static bool read_file(reader *r, int64_t at, char *out, int64_t bytes)
{
    const int fd =
        tn_safetensors_descriptor(r->saved->file[r->piece->file], NULL);
    for (int64_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, out + done, (size_t)(bytes - done),
                            r->piece->at + at + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            tn_error_set(TN_ERR_IO, "%s: %s: %s", r->call, path_of(r),
                         got ? strerror(errno)
                             : "it became shorter since it was opened");
            r->failed = true;
            return false;
        }
        done += got;
    }
    return true;
}

static bool read_bytes(reader *r, int64_t at, char *out, int64_t bytes)
{
    if (bytes >= WINDOW)
        return read_file(r, at, out, bytes);
    if (at < r->from || at + bytes > r->from + r->held) {
        r->from = at;
        r->held = r->bytes - at < WINDOW ? r->bytes - at : WINDOW;
        if (!read_file(r, at, r->window, r->held))
            return false;
    }
    memcpy(out, r->window + (at - r->from), (size_t)bytes);
    return true;
}

static bool read_run(void *context, int64_t in_piece, int64_t in_target,
                     int64_t numel)
{
    reader *r = context;
    const int64_t at = in_piece * r->size, bytes = numel * r->size;
    char *out = r->out + in_target * r->size;
    if (!read_bytes(r, at, out, bytes))
        return false;
    if (at == r->hashed) {
        tn__xxh64_add(&r->hash, out, (size_t)bytes);
        r->hashed += bytes;
    }
    return true;
}

static tn_status check_hash(const reader *r)
{
    if (!r->piece->has_hash || !r->bytes || r->hashed != r->bytes ||
        tn__xxh64_end(&r->hash) == r->piece->hash)
        return TN_OK;
    return tn_error_set(TN_ERR_FORMAT, "%s: %s: damaged: \"%s\" does not have "
                        "its hash", r->call, path_of(r), r->piece->entry);
}

static tn_status read_piece(reader *r, const tn__region *target)
{
    r->size = (int64_t)tn_dtype_bytes(r->piece->dtype);
    r->bytes = tn__region_numel(&r->piece->region) * r->size;
    r->held = r->hashed = 0;
    tn__xxh64_begin(&r->hash);
    if (!tn__region_overlap(&r->piece->region, target, read_run, r))
        return tn_error_code();
    return check_hash(r);
}

static tn_status begin(reader *r, const tn_sharded *s, const char *call)
{
    *r = (reader){.saved = s, .call = call, .window = malloc(WINDOW)};
    return r->window ? TN_OK
                     : tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
}

tn_status tn__sharded_fill(const tn_sharded *s, const tn__saved_whole *whole,
                           const tn__region *target, void *out,
                           const char *call)
{
    reader r;
    tn_status status = begin(&r, s, call);
    r.out = out;
    for (int i = 0; i < whole->count && status == TN_OK; i++) {
        r.piece = &whole->piece[i];
        status = read_piece(&r, target);
    }
    free(r.window);
    return status;
}

void tn__sharded_all_of(const tn__saved_whole *whole, tn__region *out)
{
    const int64_t zero[TN_MAX_NDIM] = {0};
    tn__region_make(out, whole->piece->ndim, whole->piece->shape, zero,
                    whole->piece->shape, false);
}

/* ---- for programs --------------------------------------------------------- */

static tn_status check_piece(const tn_sharded *s, const tn_piece *p,
                             tn__region *target)
{
    static const char call[] = "sharded_read";
    if (!p || !p->name || !p->tensor || (p->ndim && !p->shape) ||
        ((p->ndim || p->flat) && !p->offset))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "piece",
                                        "piece is incomplete");
    const tn__saved_whole *w = tn__sharded_find(s, p->name);
    if (!w)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "piece",
                                        "%s has no \"%s\"", s->path, p->name);
    const tn_tensor *x = p->tensor;
    if (tn_tensor_dtype(x) != w->piece->dtype)
        return tn_error_refuse_argument(
            TN_ERR_DTYPE, call, "piece", "\"%s\" is %s, the piece %s", p->name,
            tn_dtype_name(w->piece->dtype), tn_dtype_name(tn_tensor_dtype(x)));
    bool same = p->ndim == w->piece->ndim;
    for (int i = 0; same && i < p->ndim; i++)
        same = p->shape[i] == w->piece->shape[i];
    if (!same || tn_tensor_ndim(x) != (p->flat ? 1 : p->ndim) ||
        !tn__region_make(target, p->ndim, p->shape, p->offset,
                         tn_tensor_shape(x), p->flat))
        return tn_error_refuse_argument(
            TN_ERR_SHAPE, call, "piece", "\"%s\" has another shape in %s, or "
            "the piece is not within it", p->name, s->path);
    return TN_OK;
}

tn_status tn_sharded_read(tn_sharded *s, const tn_piece *piece)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_sharded_path(s))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "sharded_read", "saved",
                                        "saved is NULL or no checkpoint");
    tn__region target;
    tn_status status = check_piece(s, piece, &target);
    if (status < 0)
        return status;
    const size_t bytes = (size_t)tn__region_numel(&target) *
                         tn_dtype_bytes(tn_tensor_dtype(piece->tensor));
    void *data = malloc(bytes ? bytes : 1);
    if (!data)
        return tn_error_set(TN_ERR_MEMORY, "sharded_read: out of memory");
    status = tn__sharded_fill(s, tn__sharded_find(s, piece->name), &target, data,
                              "sharded_read");
    if (status == TN_OK)
        status = tn_tensor_set_array(piece->tensor, data, bytes);
    free(data);
    return status;
}

tn_status tn_sharded_verify(tn_sharded *s)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_sharded_path(s))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "sharded_verify",
                                        "saved",
                                        "saved is NULL or no checkpoint");
    reader r;
    tn_status status = begin(&r, s, "sharded_verify");
    for (int64_t i = 0; i < s->pieces && status == TN_OK; i++) {
        r.piece = &s->piece[i];
        r.bytes = tn__region_numel(&r.piece->region) *
                  (int64_t)tn_dtype_bytes(r.piece->dtype);
        tn__xxh64_begin(&r.hash);
        for (r.hashed = 0; r.hashed < r.bytes;) {
            const int64_t left = r.bytes - r.hashed;
            const int64_t part = left < WINDOW ? left : WINDOW;
            if (!read_file(&r, r.hashed, r.window, part))
                break;
            tn__xxh64_add(&r.hash, r.window, (size_t)part);
            r.hashed += part;
        }
        status = r.failed ? tn_error_code() : check_hash(&r);
    }
    free(r.window);
    return status;
}
