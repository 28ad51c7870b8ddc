/* zip.h: reads zip archives, for .npz and .pt files, and writes them.
 *
 * The directory at the end of an archive determines its contents. Opening an
 * archive checks the whole directory: the names, that members do not overlap
 * each other or the directory, and the unpacked sizes. Nothing is extracted to
 * the file system. */
#ifndef TN_MEDIA_ARRAY_ZIP_H
#define TN_MEDIA_ARRAY_ZIP_H

#include <media/array/source.h>
#include <tenon/io.h>

typedef struct tn__zip_member {
    const char *name;     /* UTF-8; valid while the archive is open */
    uint64_t header;      /* where the member's header begins */
    uint64_t at;          /* where its data begins */
    uint64_t packed_bytes, bytes;
    uint32_t crc;
    bool deflated;
} tn__zip_member;

typedef struct tn__zip {
    const tn__array_source *source; /* not owned; lives as long */
    tn__zip_member *member; /* owned, in the order of the directory */
    size_t count;
    tn__zip_member **by_name; /* owned, sorted */
    char *names;            /* owned */
} tn__zip;

/* Returns whether a source begins as a zip archive does. */
bool tn__zip_is(const tn__array_source *source, const char *call);
/* Reads the directory. Close the archive also after a failure. */
tn_status tn__zip_open(tn__zip *zip, const tn__array_source *source,
                       const char *call);
void tn__zip_close(tn__zip *zip);
/* Returns the member whose name is the concatenation of the strings in piece, a
 * list that ends with NULL. Returns NULL if there is no such member. Cannot
 * fail. */
const tn__zip_member *tn__zip_find(const tn__zip *zip,
                                   const char *const *piece);

/* Unpacks a member to out, which has room for member->bytes bytes, and checks
 * its CRC. With zero_is_no_crc, a CRC of 0 in the directory is not checked. */
tn_status tn__zip_read(const tn__zip *zip, const tn__zip_member *member,
                       void *out, bool zero_is_no_crc, const char *call);
/* Checks the CRC of a stored member without keeping its data. */
tn_status tn__zip_check(const tn__zip *zip, const tn__zip_member *member,
                        bool zero_is_no_crc, const char *call);

/* ---- writing -------------------------------------------------------------- */

typedef struct tn__zip_writer {
    tn_file *file;      /* not owned */
    const char *call;
    uint64_t at;        /* bytes written */
    char *directory;    /* owned: the entries of the members so far */
    size_t directory_bytes, directory_room;
    uint64_t count;
} tn__zip_writer;

/* One of the two parts of a member's data. */
typedef struct tn__zip_part {
    const void *data;
    size_t bytes;
} tn__zip_part;

/* Appends a member, which is parts[0] followed by parts[1]. */
tn_status tn__zip_add(tn__zip_writer *writer, const char *name,
                      const tn__zip_part parts[2], bool compressed);
/* Writes the directory. */
tn_status tn__zip_finish(tn__zip_writer *writer);

#endif
