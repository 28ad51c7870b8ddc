/* manifest.h: the two texts of a sharded checkpoint, as JSON: what each file
 * holds ("sharded.pieces" in its metadata), and which files there are (the file
 * COMPLETE). The parsers work on bytes in memory and trust nothing. */
#ifndef TN_LIB_PARALLEL_MANIFEST_H
#define TN_LIB_PARALLEL_MANIFEST_H

#include <json/json.h>
#include <parallel/region.h>

/* Keys of the metadata of a rank's file. */
#define TN__SHARDED_PREFIX "sharded."
#define TN__SHARDED_PIECES "sharded.pieces"

/* A tensor in a rank's file. Strings point into the parsed text. */
typedef struct tn__record {
    const char *entry; /* its name in the file */
    const char *name;  /* of the whole */
    bool whole;        /* it is the whole: shape and offset are not given */
    bool flat;
    int ndim;          /* of the whole */
    int64_t shape[TN_MAX_NDIM];
    int64_t offset[TN_MAX_NDIM]; /* ndim elements, or 1 if flat */
    uint64_t hash;
} tn__record;

typedef struct tn__records {
    tn__record *record; /* owned */
    size_t count;
    char *text;         /* owned */
    tn__json json;
} tn__records;

/* Parses "sharded.pieces"; text is copied. Returns NULL, or what is wrong; the
 * records are empty then. */
const char *tn__records_parse(tn__records *records, const char *text);
void tn__records_release(tn__records *records);
/* Appends a record as JSON: `"entry":{...}`. */
void tn__record_write(tn__json_writer *json, const tn__record *record);

typedef struct tn__file_record {
    const char *name;
    int64_t bytes;
    uint64_t header; /* hash of the size and the header of the file */
} tn__file_record;

typedef struct tn__complete {
    int64_t step;
    int64_t serial; /* counts the checkpoints that were saved in a folder */
    tn__file_record *file; /* owned */
    size_t count;
    char *text;     /* owned */
    tn__json json;
} tn__complete;

/* Parses the contents of COMPLETE; text is copied. Returns NULL, or what is
 * wrong; nothing is to be released then. */
const char *tn__complete_parse(tn__complete *complete, const char *text,
                               size_t bytes);
void tn__complete_release(tn__complete *complete);
void tn__complete_write(tn__json_writer *json, const tn__complete *complete);

#endif
