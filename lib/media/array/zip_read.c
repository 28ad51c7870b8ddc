/* zip_read.c: reads zip archives.
 *
 * Source: APPNOTE.TXT 6.3.10 of PKWARE. Numbers are little-endian. */
#include <media/array/zip.h>

#include <media/array/host.h>
#include <media/array/text.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,       /* end of central directory record */
    END64_BYTES = 56,     /* the same of zip64 */
    LOCATOR_BYTES = 20,   /* zip64 end of central directory locator */
    ENTRY_BYTES = 46,     /* an entry of the directory, without its name */
    HEADER_BYTES = 30,    /* the header before a member, without its name */
    MOST_COMMENT = 65535,
    MOST_RATIO = 1032     /* deflate packs at most that many bytes in one
                             (https://zlib.net/zlib_tech.html) */
};

static uint64_t number(const uint8_t *p, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

static tn_status malformed(const tn__array_source *source, const char *call,
                           const char *why)
{
    return tn_error_refuse_argument(TN_ERR_FORMAT, call, NULL,
                                    "%s: not a valid zip archive: %s",
                                    source->path, why);
}

bool tn__zip_is(const tn__array_source *source, const char *call)
{
    uint8_t p[4];
    return source->bytes >= END_BYTES &&
           tn__array_source_read(source, p, 4, 0, call) == TN_OK &&
           p[0] == 'P' && p[1] == 'K' &&
           ((p[2] == 3 && p[3] == 4) || (p[2] == 5 && p[3] == 6));
}

/* ---- finding the directory ------------------------------------------------ */

typedef struct place {
    uint64_t at, bytes, count;
} place;

/* Finds the end record, which a comment may follow. */
static tn_status find_end(const tn__array_source *source, uint8_t *end,
                          uint64_t *out_at, const char *call)
{
    const uint64_t most = END_BYTES + MOST_COMMENT;
    const size_t bytes = (size_t)(source->bytes < most ? source->bytes : most);
    if (bytes < END_BYTES)
        return malformed(source, call, "it is too short");
    uint8_t *tail = malloc(bytes);
    if (!tail)
        return tn__array_no_memory(call);
    const uint64_t start = source->bytes - bytes;
    tn_status status = tn__array_source_read(source, tail, bytes, start, call);
    bool found = false;
    for (size_t i = bytes - END_BYTES + 1; status == TN_OK && !found && i > 0;
         i--) {
        const uint8_t *p = tail + i - 1;
        found = memcmp(p, "PK\5\6", 4) == 0 &&
                number(p + 20, 2) == bytes - (i - 1) - END_BYTES;
        if (found) {
            memcpy(end, p, END_BYTES);
            *out_at = start + i - 1;
        }
    }
    free(tail);
    if (status == TN_OK && !found)
        status = malformed(source, call,
                           "it has no directory, as if it were truncated");
    return status;
}

/* Replaces the numbers of the end record by the zip64 numbers, if the archive
 * has a zip64 locator. Sets *end_at to the offset of the record that follows
 * the directory. */
static tn_status find_end64(const tn__array_source *source, place *directory,
                            uint64_t *end_at, const char *call)
{
    uint8_t p[END64_BYTES];
    if (*end_at < LOCATOR_BYTES)
        return TN_OK;
    const uint64_t locator = *end_at - LOCATOR_BYTES;
    tn_status status =
        tn__array_source_read(source, p, LOCATOR_BYTES, locator, call);
    if (status < 0 || memcmp(p, "PK\6\7", 4) != 0)
        return status;
    const uint64_t at = number(p + 8, 8);
    if (at > locator || locator - at < END64_BYTES)
        return malformed(source, call, "the zip64 record is outside of it");
    status = tn__array_source_read(source, p, END64_BYTES, at, call);
    if (status < 0)
        return status;
    if (memcmp(p, "PK\6\6", 4) != 0 || number(p + 4, 8) != locator - at - 12)
        return malformed(source, call, "the zip64 record is damaged");
    if (number(p + 16, 4) || number(p + 20, 4) ||
        number(p + 24, 8) != number(p + 32, 8))
        return malformed(source, call, "it is one of several volumes");
    *directory = (place){.count = number(p + 32, 8),
                         .bytes = number(p + 40, 8),
                         .at = number(p + 48, 8)};
    *end_at = at;
    return TN_OK;
}

static tn_status find_directory(const tn__array_source *source,
                                place *directory, const char *call)
{
    uint8_t end[END_BYTES];
    uint64_t end_at = 0;
    tn_status status = find_end(source, end, &end_at, call);
    if (status < 0)
        return status;
    *directory = (place){.count = number(end + 10, 2),
                         .bytes = number(end + 12, 4),
                         .at = number(end + 16, 4)};
    if ((number(end + 4, 2) && number(end + 4, 2) != 0xffff) ||
        (number(end + 8, 2) != directory->count))
        return malformed(source, call, "it is one of several volumes");
    status = find_end64(source, directory, &end_at, call);
    if (status < 0)
        return status;
    if (directory->at > end_at || directory->bytes != end_at - directory->at)
        return malformed(source, call,
                         "the directory is not where the end record says");
    if (directory->count > directory->bytes / ENTRY_BYTES)
        return malformed(source, call, "the directory has too few bytes");
    return TN_OK;
}

/* ---- the directory -------------------------------------------------------- */

/* Reads the zip64 field of a directory entry. It has the 64-bit value of each
 * number whose 32-bit field in the entry is 0xffffffff, and of no other, in
 * this order. */
static bool read_extra(tn__zip_member *member, const uint8_t *p, size_t bytes)
{
    uint64_t *const large[] = {&member->bytes, &member->packed_bytes,
                               &member->header};
    bool needed = false;
    for (int i = 0; i < 3; i++)
        needed |= *large[i] == 0xffffffff;
    while (bytes >= 4) {
        const size_t size = (size_t)number(p + 2, 2);
        if (size > bytes - 4)
            return false;
        const uint8_t *field = p + 4, *field_end = field + size;
        if (number(p, 2) == 1 && needed) {
            for (int i = 0; i < 3; i++) {
                if (*large[i] != 0xffffffff)
                    continue;
                if (field_end - field < 8)
                    return false;
                *large[i] = number(field, 8);
                field += 8;
            }
            return true;
        }
        p += 4 + size;
        bytes -= 4 + size;
    }
    /* A size of exactly 2^32 - 1 without a zip64 field is rejected later,
     * because the archive is smaller. */
    return true;
}

static tn_status check_method(const tn__array_source *source,
                              const tn__zip_member *member, unsigned method,
                              unsigned flags, const char *call)
{
    static const struct {
        unsigned method;
        const char *name;
    } known[] = {{9, "deflate64"}, {12, "bzip2"}, {14, "LZMA"},
                 {93, "Zstandard"}, {95, "XZ"}};
    const char *name = "unknown";
    if (flags & 1)
        return tn_error_refuse_argument(TN_ERR_UNSUPPORTED, call, NULL,
                                        "%s: member \"%s\" is encrypted",
                                        source->path, member->name);
    if (method == 0 || method == 8)
        return TN_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].method == method)
            name = known[i].name;
    return tn_error_refuse_argument(
        TN_ERR_UNSUPPORTED, call, NULL,
        "%s: member \"%s\" has compression method %u (%s); expected none or "
        "deflate",
        source->path, member->name, method, name);
}

static tn_status check_member(const tn__array_source *source,
                              const tn__zip_member *member, const char *call)
{
    const uint64_t packed = member->packed_bytes;
    if (!member->deflated && packed != member->bytes)
        return malformed(source, call, "a stored member has two sizes");
    if (member->deflated && member->bytes / MOST_RATIO > packed)
        return malformed(source, call,
                         "a member would unpack to more than deflate can");
    return TN_OK;
}

/* Parses the entry at p. *out_used is its size. */
static tn_status read_entry(tn__zip *zip, const uint8_t *p, size_t bytes,
                            char **names, size_t *out_used, const char *call)
{
    tn__zip_member *member = &zip->member[zip->count];
    if (bytes < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return malformed(zip->source, call, "an entry is damaged");
    const size_t name_bytes = (size_t)number(p + 28, 2);
    const size_t extra_bytes = (size_t)number(p + 30, 2);
    const size_t comment_bytes = (size_t)number(p + 32, 2);
    *out_used = ENTRY_BYTES + name_bytes + extra_bytes + comment_bytes;
    if (*out_used > bytes)
        return malformed(zip->source, call, "an entry is truncated");
    if (!tn__array_is_utf8((const char *)p + ENTRY_BYTES, name_bytes))
        return malformed(zip->source, call, "a name is not UTF-8");
    memcpy(*names, p + ENTRY_BYTES, name_bytes);
    (*names)[name_bytes] = 0;
    const unsigned method = (unsigned)number(p + 10, 2);
    *member = (tn__zip_member){.name = *names,
                               .deflated = method == 8,
                               .crc = (uint32_t)number(p + 16, 4),
                               .packed_bytes = number(p + 20, 4),
                               .bytes = number(p + 24, 4),
                               .header = number(p + 42, 4)};
    *names += name_bytes + 1;
    if (!read_extra(member, p + ENTRY_BYTES + name_bytes, extra_bytes))
        return malformed(zip->source, call, "a zip64 field is damaged");
    tn_status status = check_method(zip->source, member, method,
                                    (unsigned)number(p + 8, 2), call);
    zip->count++;
    return status < 0 ? status : check_member(zip->source, member, call);
}

static tn_status read_entries(tn__zip *zip, const place *directory,
                              const uint8_t *p, const char *call)
{
    size_t left = (size_t)directory->bytes, used = 0;
    char *names = zip->names;
    tn_status status = TN_OK;
    for (uint64_t i = 0; status == TN_OK && i < directory->count; i++) {
        status = read_entry(zip, p, left, &names, &used, call);
        if (status == TN_OK) {
            p += used;
            left -= used;
        }
    }
    if (status == TN_OK && left)
        status = malformed(zip->source, call,
                           "the directory has more bytes than entries");
    return status;
}

/* ---- checks of all members ------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(tn__zip_member *const *)a)->name,
                  (*(tn__zip_member *const *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const tn__zip_member *x = *(tn__zip_member *const *)a;
    const tn__zip_member *y = *(tn__zip_member *const *)b;
    return x->header < y->header ? -1 : x->header > y->header;
}

/* Reads the header before a member, which says where its data begins. `end` is
 * where the next member or the directory begins. */
static tn_status check_place(tn__zip *zip, tn__zip_member *member,
                             uint64_t end, const char *call)
{
    uint8_t p[HEADER_BYTES];
    if (member->header > end || end - member->header < HEADER_BYTES)
        return malformed(zip->source, call, "members overlap");
    tn_status status = tn__array_source_read(zip->source, p, sizeof p,
                                             member->header, call);
    if (status < 0)
        return status;
    if (memcmp(p, "PK\3\4", 4) != 0)
        return malformed(zip->source, call,
                         "a member does not begin where its entry says");
    const size_t name_bytes = (size_t)number(p + 26, 2);
    member->at = member->header + HEADER_BYTES + name_bytes + number(p + 28, 2);
    if (member->at > end || member->packed_bytes > end - member->at)
        return malformed(zip->source, call, "members overlap");
    if (name_bytes != strlen(member->name) ||
        number(p + 8, 2) != (member->deflated ? 8u : 0u))
        return malformed(zip->source, call,
                         "a member and its entry differ");
    char *name = malloc(name_bytes + 1);
    if (!name)
        return tn__array_no_memory(call);
    status = tn__array_source_read(zip->source, name, name_bytes,
                                   member->header + HEADER_BYTES, call);
    if (status == TN_OK && memcmp(name, member->name, name_bytes) != 0)
        status = malformed(zip->source, call,
                           "a member and its entry differ");
    free(name);
    return status;
}

static tn_status check_limit(const tn__zip *zip, const char *call)
{
    const int64_t limit = tn_unpack_limit();
    uint64_t sum = 0;
    if (limit < 0)
        return (tn_status)limit;
    for (size_t i = 0; i < zip->count; i++)
        if (zip->member[i].deflated &&
            (__builtin_add_overflow(sum, zip->member[i].bytes, &sum) ||
             (limit && sum > (uint64_t)limit)))
            return tn_error_refuse_argument(
                TN_ERR_IO, call, NULL,
                "%s would unpack to more than %lld bytes; allow more with "
                "tn_unpack_limit_set or TENON_UNPACK_LIMIT",
                zip->source->path, (long long)limit);
    return TN_OK;
}

static tn_status check_members(tn__zip *zip, uint64_t directory_at,
                               const char *call)
{
    if (!zip->count)
        return TN_OK;
    qsort(zip->by_name, zip->count, sizeof *zip->by_name, by_place);
    for (size_t i = 0; i < zip->count; i++) {
        tn_status status = check_place(
            zip, zip->by_name[i],
            i + 1 < zip->count ? zip->by_name[i + 1]->header : directory_at,
            call);
        if (status < 0)
            return status;
    }
    qsort(zip->by_name, zip->count, sizeof *zip->by_name, by_name);
    for (size_t i = 1; i < zip->count; i++)
        if (strcmp(zip->by_name[i - 1]->name, zip->by_name[i]->name) == 0)
            return tn_error_refuse_argument(
                TN_ERR_FORMAT, call, NULL,
                "%s: not a valid zip archive: two members have the name \"%s\"",
                zip->source->path, zip->by_name[i]->name);
    return check_limit(zip, call);
}

/* ---- opening -------------------------------------------------------------- */

tn_status tn__zip_open(tn__zip *zip, const tn__array_source *source,
                       const char *call)
{
    place directory;
    *zip = (tn__zip){.source = source};
    tn_status status = find_directory(source, &directory, call);
    if (status < 0)
        return status;
    const size_t count = (size_t)directory.count;
    uint8_t *bytes = malloc((size_t)directory.bytes + 1);
    zip->member = calloc(count + 1, sizeof *zip->member);
    zip->by_name = calloc(count + 1, sizeof *zip->by_name);
    zip->names = malloc((size_t)directory.bytes + count + 1);
    if (!bytes || !zip->member || !zip->by_name || !zip->names)
        status = tn__array_no_memory(call);
    if (status == TN_OK)
        status = tn__array_source_read(source, bytes, directory.bytes,
                                       directory.at, call);
    if (status == TN_OK)
        status = read_entries(zip, &directory, bytes, call);
    free(bytes);
    for (size_t i = 0; status == TN_OK && i < zip->count; i++)
        zip->by_name[i] = &zip->member[i];
    return status < 0 ? status : check_members(zip, directory.at, call);
}

void tn__zip_close(tn__zip *zip)
{
    free(zip->member);
    free(zip->by_name);
    free(zip->names);
    *zip = (tn__zip){0};
}

/* Compares a name with the text that the pieces make together, like strcmp. */
static int compare_pieces(const char *name, const char *const *piece)
{
    for (; *piece; piece++) {
        const size_t bytes = strlen(*piece);
        const int order = strncmp(name, *piece, bytes);
        if (order != 0)
            return order;
        name += bytes;
    }
    return *name != 0;
}

const tn__zip_member *tn__zip_find(const tn__zip *zip,
                                   const char *const *piece)
{
    size_t low = 0, high = zip->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = compare_pieces(zip->by_name[middle]->name, piece);
        if (order == 0)
            return zip->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- members -------------------------------------------------------------- */

static tn_status damaged(const tn__zip *zip, const tn__zip_member *member,
                         const char *why, const char *call)
{
    return tn_error_refuse_argument(TN_ERR_FORMAT, call, NULL,
                                    "%s: member \"%s\" is damaged: %s",
                                    zip->source->path, member->name, why);
}

static tn_status inflate_member(const tn__zip *zip,
                                const tn__zip_member *member, z_stream *z,
                                uint8_t *buffer, size_t room, uint8_t *out,
                                const char *call)
{
    enum { MOST = 1 << 30 };
    uint64_t at = member->at, left = member->packed_bytes;
    uint64_t out_left = member->bytes;
    int result = Z_OK;
    uint8_t spare; /* one more byte, to detect a member that is longer than
                      stated */
    z->next_out = out;
    while (result == Z_OK) {
        if (!z->avail_in && left) {
            z->avail_in = (uInt)(left < room ? left : room);
            z->next_in = buffer;
            tn_status status = tn__array_source_read(zip->source, buffer,
                                                     z->avail_in, at, call);
            if (status < 0)
                return status;
            at += z->avail_in;
            left -= z->avail_in;
        }
        const uInt given =
            out_left ? (uInt)(out_left < MOST ? out_left : MOST) : 1;
        if (!out_left)
            z->next_out = &spare;
        z->avail_out = given;
        result = inflate(z, Z_NO_FLUSH);
        const uInt made = given - z->avail_out;
        if (made > out_left)
            return damaged(zip, member, "it has more bytes than its entry says",
                           call);
        out_left -= made;
    }
    if (result == Z_MEM_ERROR)
        return tn__array_no_memory(call);
    if (result != Z_STREAM_END || out_left || left || z->avail_in)
        return damaged(zip, member,
                       "it does not unpack to the size of its entry", call);
    return TN_OK;
}

static tn_status unpack(const tn__zip *zip, const tn__zip_member *member,
                        void *out, const char *call)
{
    enum { ROOM = 1 << 16 };
    z_stream z = {0};
    uint8_t *buffer = malloc(ROOM);
    if (!buffer)
        return tn__array_no_memory(call);
    tn_status status = inflateInit2(&z, -MAX_WBITS) == Z_OK
                           ? inflate_member(zip, member, &z, buffer, ROOM, out,
                                            call)
                           : tn__array_no_memory(call);
    inflateEnd(&z);
    free(buffer);
    return status;
}

tn_status tn__zip_read(const tn__zip *zip, const tn__zip_member *member,
                       void *out, bool zero_is_no_crc, const char *call)
{
    tn_status status =
        member->deflated
            ? unpack(zip, member, out, call)
            : tn__array_source_read(zip->source, out, member->bytes,
                                    member->at, call);
    if (status < 0 || (zero_is_no_crc && !member->crc))
        return status;
    if (crc32_z(0, out, (size_t)member->bytes) != member->crc)
        return damaged(zip, member, "its CRC differs", call);
    return TN_OK;
}

tn_status tn__zip_check(const tn__zip *zip, const tn__zip_member *member,
                        bool zero_is_no_crc, const char *call)
{
    enum { ROOM = 1 << 18 };
    uint64_t at = member->at, left = member->bytes;
    uint8_t *buffer = zero_is_no_crc && !member->crc ? NULL : malloc(ROOM);
    uLong crc = 0;
    tn_status status = TN_OK;
    if (zero_is_no_crc && !member->crc)
        return TN_OK;
    if (!buffer)
        return tn__array_no_memory(call);
    while (status == TN_OK && left) {
        const size_t bytes = left < ROOM ? (size_t)left : ROOM;
        status = tn__array_source_read(zip->source, buffer, bytes, at, call);
        if (status == TN_OK)
            crc = crc32_z(crc, buffer, bytes);
        at += bytes;
        left -= bytes;
    }
    free(buffer);
    if (status == TN_OK && crc != member->crc)
        status = damaged(zip, member, "its CRC differs", call);
    return status;
}
