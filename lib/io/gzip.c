/* gzip.c: the whole of a file in memory, gzipped or not (zlib reads both). */
#include <io/file.h>

#include <base/error.h>
#include <base/memory.h>
#include <errno.h>
#include <string.h>
#include <zlib.h>

enum { FIRST_ROOM = 1 << 16, MOST_AT_ONCE = 1 << 30 };

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

static tn_status read_rest(content *all, gzFile file, const char *path,
                           const char *what)
{
    while (make_room(all) == TN_OK) {
        size_t most = all->room - all->count;
        int got = gzread(file, all->data + all->count,
                         most < MOST_AT_ONCE ? (unsigned)most : MOST_AT_ONCE);
        /* A gzipped file that is cut off reads as if it ended there: gzerror
         * alone tells. */
        int error;
        const char *text = gzerror(file, &error);
        if (error != Z_OK && error != Z_STREAM_END)
            return tn__fail(TN_ERR_IO, "%s: {path:}%s: %s", what, path,
                            error == Z_ERRNO ? strerror(errno) : text);
        if (got <= 0)
            return TN_OK;
        all->count += (size_t)got;
    }
    return TN_ERR_MEMORY;
}

tn_status tn__file_read(const char *path, const char *what,
                        unsigned char **data, size_t *bytes)
{
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (!file)
        return tn__fail(TN_ERR_IO, "%s: {path:}%s: %s", what, path,
                        errno ? strerror(errno) : "out of memory");
    content all = {0};
    tn_status status = read_rest(&all, file, path, what);
    gzclose(file);
    if (status < 0) {
        tn__free(all.data);
        return status;
    }
    *data = all.data;
    *bytes = all.count;
    return TN_OK;
}
