/* gzip.c: reads a file sequentially and unpacks it if it is gzipped.
 *
 * zlib's gzread is not used, because it ignores data after the last gzip member
 * and does not limit the unpacked size. A thousand bytes can unpack to a
 * million. So this file calls inflate and counts the unpacked bytes against a
 * limit. zlib allocates its memory by Tenon's allocator. */
#include <io/file.h>

#include <base/bytes.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <tenon/io.h>
#include <unistd.h>
#include <zlib.h>

enum { IN_BYTES = 1 << 16, FIRST_ROOM = 1 << 16, MAX_AT_ONCE = 1 << 30 };
static const int64_t DEFAULT_LIMIT = (int64_t)1 << 30;

/* ---- the limit ---------------------------------------------------------- */

enum { NOT_SET = -1 };
static _Atomic int64_t limit_set = NOT_SET;

tn_status tn_unpack_limit_set(int64_t bytes)
{
    if (bytes < 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "unpack_limit_set: {bytes} is %lld; expected at least "
                        "0 (0: no limit)",
                        (long long)bytes);
    atomic_store(&limit_set, bytes);
    return TN_OK;
}

/* Returns the current limit in bytes, or 0 if there is none. If
 * TENON_UNPACK_LIMIT is invalid, records an error and returns a negative
 * number. */
static int64_t limit_now(const char *what)
{
    int64_t limit = atomic_load(&limit_set);
    if (limit != NOT_SET)
        return limit;
    const char *text = tn__env("TENON_UNPACK_LIMIT");
    if (!text)
        return DEFAULT_LIMIT;
    limit = tn__bytes_parse(text);
    if (limit < 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "%s: TENON_UNPACK_LIMIT=%s is not a number of bytes, "
                        "such as 512M or 4G",
                        what, text);
    return limit;
}

int64_t tn_unpack_limit(void)
{
    return limit_now("unpack_limit");
}

/* ---- reading ------------------------------------------------------------ */

struct tn__unpacker {
    int fd;
    const char *path, *what; /* not owned */
    bool gzipped;
    bool member_ended; /* the reader is at the end of a gzip member */
    bool ended;   /* all bytes of the file have been read into in[] */
    int64_t limit, total_out; /* limit, and number of unpacked bytes so far */
    z_stream z;   /* next_in and avail_in are also used for files that are not
                     gzipped */
    unsigned char in[IN_BYTES];
};

static voidpf zlib_alloc(voidpf context, uInt count, uInt bytes)
{
    (void)context;
    return tn__calloc(count, bytes);
}

static void zlib_free(voidpf context, voidpf block)
{
    (void)context;
    tn__free(block);
}

/* Reads the next bytes of the file into in[] if all bytes there are used. */
static tn_status refill(tn__unpacker *u)
{
    ssize_t got = 0;
    while (!u->ended && !u->z.avail_in) {
        got = read(u->fd, u->in, sizeof u->in);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tn__file_fail(u->what, u->path);
        u->ended = got == 0;
        u->z.next_in = u->in;
        u->z.avail_in = (uInt)got;
    }
    return TN_OK;
}

tn__unpacker *tn__unpacker_open(const char *path, const char *what)
{
    int64_t limit = limit_now(what);
    if (limit < 0)
        return NULL;
    tn__cancel_hold(); /* the thread cannot be cancelled until
                          tn__unpacker_close */
    int fd = tn__file_open(path, what, NULL);
    tn__unpacker *u = fd < 0 ? NULL : tn__alloc(sizeof *u);
    if (!u) {
        if (fd >= 0)
            close(fd);
        tn__cancel_release();
        return NULL;
    }
    memset(u, 0, offsetof(tn__unpacker, in));
    u->fd = fd;
    u->path = path;
    u->what = what;
    u->limit = limit;
    u->z.zalloc = zlib_alloc;
    u->z.zfree = zlib_free;
    if (refill(u) < 0) {
        tn__unpacker_close(u);
        return NULL;
    }
    u->gzipped = u->z.avail_in > 1 && u->in[0] == 0x1f && u->in[1] == 0x8b;
    /* 15 selects the largest window. Adding 16 selects gzip's header and
     * checksum. */
    if (u->gzipped && inflateInit2(&u->z, 15 + 16) != Z_OK) {
        u->gzipped = false;
        tn__fail(TN_ERR_MEMORY, "%s: {path:}%s: out of memory", what, path);
        tn__unpacker_close(u);
        return NULL;
    }
    return u;
}

void tn__unpacker_close(tn__unpacker *u)
{
    if (!u)
        return;
    if (u->gzipped)
        inflateEnd(&u->z);
    close(u->fd);
    tn__free(u);
    tn__cancel_release();
}

static tn_status read_plain(tn__unpacker *u, void *out, size_t room,
                            size_t *got)
{
    tn_status status = refill(u);
    *got = u->z.avail_in < room ? u->z.avail_in : room;
    memcpy(out, u->z.next_in, *got);
    u->z.next_in += *got;
    u->z.avail_in -= (uInt)*got;
    return status;
}

static tn_status bad_member(const tn__unpacker *u, int result)
{
    const char *why =
        result == Z_MEM_ERROR   ? "out of memory"
        : result == Z_NEED_DICT ? "it needs a dictionary"
        : result == Z_BUF_ERROR
            ? "the gzipped file is cut off: unexpected end of file"
        : u->member_ended ? "other data follows the gzipped data"
        : u->z.msg        ? u->z.msg
                          : "damaged";
    return tn__fail(result == Z_MEM_ERROR ? TN_ERR_MEMORY : TN_ERR_IO,
                    "%s: {path:}%s: %s", u->what, u->path, why);
}

static tn_status read_gzipped(tn__unpacker *u, void *out, size_t room,
                              size_t *got)
{
    u->z.next_out = out;
    u->z.avail_out = (uInt)room;
    while (u->z.avail_out == room) {
        tn_status status = refill(u);
        if (status < 0)
            return status;
        if (u->member_ended && !u->z.avail_in)
            break; /* the file ends after a complete member */
        if (u->member_ended)
            inflateReset(&u->z);
        int result = inflate(&u->z, Z_NO_FLUSH);
        if (result == Z_STREAM_END)
            u->member_ended = true;
        else if (result == Z_OK)
            u->member_ended = false;
        else
            return bad_member(u, result);
    }
    *got = room - u->z.avail_out;
    u->total_out += (int64_t)*got;
    return TN_OK;
}

tn_status tn__unpacker_read(tn__unpacker *u, void *out, size_t room,
                            size_t *got)
{
    if (room > MAX_AT_ONCE)
        room = MAX_AT_ONCE;
    tn_status status = u->gzipped ? read_gzipped(u, out, room, got)
                                  : read_plain(u, out, room, got);
    if (status == TN_OK && u->limit && u->total_out > u->limit)
        return tn__fail(TN_ERR_IO,
                        "%s: {path:}%s: unpacks to more than %lld bytes; if "
                        "that is meant, set a greater TENON_UNPACK_LIMIT "
                        "(now %lld; 0: none) or call tn_unpack_limit_set",
                        u->what, u->path, (long long)u->limit,
                        (long long)u->limit);
    return status;
}

/* ---- whole files -------------------------------------------------------- */

typedef struct content {
    unsigned char *data; /* owned */
    size_t count, room;
} content;

static tn_status make_room(content *all)
{
    if (all->count < all->room)
        return TN_OK;
    size_t room = all->room ? all->room * 2 : FIRST_ROOM;
    void *data = tn__realloc(all->data, room);
    if (!data)
        return TN_ERR_MEMORY;
    all->data = data;
    all->room = room;
    return TN_OK;
}

tn_status tn__file_read(const char *path, const char *what,
                        unsigned char **data, size_t *bytes)
{
    tn__unpacker *u = tn__unpacker_open(path, what);
    if (!u)
        return tn_error_code();
    content all = {0};
    tn_status status;
    size_t got = 1;
    while (got && (status = make_room(&all)) == TN_OK &&
           (status = tn__unpacker_read(u, all.data + all.count,
                                       all.room - all.count, &got)) == TN_OK)
        all.count += got;
    tn__unpacker_close(u);
    if (status < 0) {
        tn__free(all.data);
        return status;
    }
    *data = all.data;
    *bytes = all.count;
    return TN_OK;
}
