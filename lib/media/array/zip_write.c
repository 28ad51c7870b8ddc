/* zip_write.c: writes zip archives.
 *
 * Sizes, offsets and counts that do not fit get the zip64 extension. Times are
 * 1980-01-01, as NumPy writes them, so equal contents give equal files. */
#include <media/array/zip.h>

#include <media/array/host.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LARGE = 0xffff, DATE = 0x21 };
static const uint64_t large = 0xffffffff;

typedef struct record {
    uint8_t bytes[128];
    size_t used;
} record;

static void put(record *r, uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++)
        r->bytes[r->used++] = (uint8_t)(n >> 8 * i);
}

static tn_status write_bytes(tn__zip_writer *writer, const void *data,
                             size_t bytes)
{
    writer->at += bytes;
    return tn_file_write(writer->file, data, bytes);
}

/* The description of a member in its header and directory entry. */
typedef struct member {
    const char *name;
    size_t name_bytes;
    uint32_t crc;
    uint64_t packed_bytes, bytes, at;
    bool deflated;
} member;

static uint64_t capped(uint64_t n)
{
    return n < large ? n : large;
}

/* Writes the fields that a member's local header and its directory entry have
 * in common. Flag 0x800 means that the name is UTF-8. */
static void put_common(record *r, const member *m, bool zip64,
                       size_t extra_bytes)
{
    const bool cap = zip64;
    put(r, zip64 ? 45 : 20, 2); /* version needed */
    put(r, 0x800, 2);
    put(r, m->deflated ? 8 : 0, 2);
    put(r, 0, 2);
    put(r, DATE, 2);
    put(r, m->crc, 4);
    put(r, cap ? large : m->packed_bytes, 4);
    put(r, cap ? large : m->bytes, 4);
    put(r, m->name_bytes, 2);
    put(r, extra_bytes, 2);
}

static tn_status write_header(tn__zip_writer *writer, const member *m)
{
    const bool zip64 = m->bytes >= large || m->packed_bytes >= large;
    record r = {.used = 0}, extra = {.used = 0};
    if (zip64) {
        put(&extra, 1, 2);
        put(&extra, 16, 2);
        put(&extra, m->bytes, 8);
        put(&extra, m->packed_bytes, 8);
    }
    put(&r, 0x04034b50, 4);
    put_common(&r, m, zip64, extra.used);
    tn_status status = write_bytes(writer, r.bytes, r.used);
    if (status == TN_OK)
        status = write_bytes(writer, m->name, m->name_bytes);
    if (status == TN_OK)
        status = write_bytes(writer, extra.bytes, extra.used);
    return status;
}

static bool directory_append(tn__zip_writer *writer, const void *data,
                             size_t bytes)
{
    if (writer->directory_room - writer->directory_bytes < bytes) {
        const size_t room = 2 * writer->directory_room + bytes + 1024;
        char *larger = realloc(writer->directory, room);
        if (!larger)
            return false;
        writer->directory = larger;
        writer->directory_room = room;
    }
    memcpy(writer->directory + writer->directory_bytes, data, bytes);
    writer->directory_bytes += bytes;
    return true;
}

static tn_status add_entry(tn__zip_writer *writer, const member *m)
{
    const bool sizes = m->bytes >= large || m->packed_bytes >= large;
    const bool far = m->at >= large;
    record r = {.used = 0}, extra = {.used = 0};
    if (sizes || far) {
        put(&extra, 1, 2);
        put(&extra, (sizes ? 16u : 0u) + (far ? 8u : 0u), 2);
        if (sizes) {
            put(&extra, m->bytes, 8);
            put(&extra, m->packed_bytes, 8);
        }
        if (far)
            put(&extra, m->at, 8);
    }
    put(&r, 0x02014b50, 4);
    put(&r, 3 << 8 | 45, 2); /* made on Unix, so that modes are understood */
    put_common(&r, m, sizes, extra.used);
    put(&r, 0, 6); /* comment, volume, attributes */
    put(&r, (uint64_t)0600 << 16, 4); /* the mode, as NumPy writes it */
    put(&r, capped(m->at), 4);
    if (!directory_append(writer, r.bytes, r.used) ||
        !directory_append(writer, m->name, m->name_bytes) ||
        !directory_append(writer, extra.bytes, extra.used))
        return tn__array_no_memory(writer->call);
    writer->count++;
    return TN_OK;
}

/* ---- data ----------------------------------------------------------------- */

/* Deflates both parts to memory from malloc. */
static uint8_t *deflate_parts(const tn__zip_part parts[2], uint64_t *out_bytes,
                              const char *call)
{
    enum { MOST = 1 << 30 };
    z_stream z = {0};
    uint8_t *out = NULL;
    size_t room = 0, used = 0;
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return tn__array_no_memory(call), NULL;
    int part = 0, result = Z_OK;
    size_t at = 0;
    while (result != Z_STREAM_END) {
        if (!z.avail_in && part < 2) {
            const size_t left = parts[part].bytes - at;
            z.avail_in = (uInt)(left < MOST ? left : MOST);
            z.next_in = (Bytef *)(uintptr_t)parts[part].data + at;
            at += z.avail_in;
            if (at == parts[part].bytes) {
                part++;
                at = 0;
            }
        }
        if (used == room) {
            room = room ? room + room / 2 : 1 << 16;
            uint8_t *larger = realloc(out, room);
            if (!larger) {
                free(out);
                deflateEnd(&z);
                return tn__array_no_memory(call), NULL;
            }
            out = larger;
        }
        const uInt given = (uInt)(room - used < MOST ? room - used : MOST);
        z.next_out = out + used;
        z.avail_out = given;
        result = deflate(&z, part == 2 ? Z_FINISH : Z_NO_FLUSH);
        used += given - z.avail_out;
    }
    deflateEnd(&z);
    *out_bytes = used;
    return out;
}

tn_status tn__zip_add(tn__zip_writer *writer, const char *name,
                      const tn__zip_part parts[2], bool compressed)
{
    member m = {.name = name,
                .name_bytes = strlen(name),
                .bytes = parts[0].bytes + parts[1].bytes,
                .at = writer->at,
                .deflated = compressed};
    uLong crc = crc32_z(0, parts[0].data, parts[0].bytes);
    m.crc = (uint32_t)crc32_z(crc, parts[1].data, parts[1].bytes);
    m.packed_bytes = m.bytes;
    uint8_t *packed = NULL;
    if (m.name_bytes > LARGE)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, writer->call, "names",
                                        "a name has %zu bytes; a zip archive "
                                        "allows 65535", m.name_bytes);
    if (compressed) {
        packed = deflate_parts(parts, &m.packed_bytes, writer->call);
        if (!packed)
            return TN_ERR_MEMORY;
    }
    tn_status status = write_header(writer, &m);
    if (status == TN_OK && packed)
        status = write_bytes(writer, packed, (size_t)m.packed_bytes);
    for (int i = 0; status == TN_OK && !packed && i < 2; i++)
        status = write_bytes(writer, parts[i].data, parts[i].bytes);
    free(packed);
    return status < 0 ? status : add_entry(writer, &m);
}

tn_status tn__zip_finish(tn__zip_writer *writer)
{
    record r = {.used = 0};
    const uint64_t at = writer->at, bytes = writer->directory_bytes;
    const uint64_t count = writer->count;
    tn_status status = write_bytes(writer, writer->directory, bytes);
    if (at >= large || bytes >= large || count >= LARGE) {
        const uint64_t end64 = writer->at;
        put(&r, 0x06064b50, 4);
        put(&r, 44, 8); /* bytes that follow in this record */
        put(&r, 3 << 8 | 45, 2);
        put(&r, 45, 2);
        put(&r, 0, 8); /* volumes */
        put(&r, count, 8);
        put(&r, count, 8);
        put(&r, bytes, 8);
        put(&r, at, 8);
        put(&r, 0x07064b50, 4); /* the locator */
        put(&r, 0, 4);
        put(&r, end64, 8);
        put(&r, 1, 4);
    }
    put(&r, 0x06054b50, 4);
    put(&r, 0, 4);
    put(&r, count < LARGE ? count : LARGE, 2);
    put(&r, count < LARGE ? count : LARGE, 2);
    put(&r, capped(bytes), 4);
    put(&r, capped(at), 4);
    put(&r, 0, 2);
    return status < 0 ? status : write_bytes(writer, r.bytes, r.used);
}
