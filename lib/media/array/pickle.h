/* pickle.h: reads the pickle of a file of torch.save without running it.
 *
 * A pickle is a program for a stack machine. This machine has only the
 * instructions that build data, and it "calls" only the rows of a table
 * (pickle_call.c), each of which makes a value of this header. Names in a file
 * are looked up only in this table. */
#ifndef TN_MEDIA_ARRAY_PICKLE_H
#define TN_MEDIA_ARRAY_PICKLE_H

#include <media/array/host.h>

enum {
    TN__PICKLE_MOST_BYTES = 64 << 20,  /* of a pickle */
    TN__PICKLE_MOST_VALUES = 1 << 22,  /* that a file makes */
    TN__PICKLE_MOST_MEMORY = 512 << 20,/* of values, in bytes; and */
    TN__PICKLE_MOST_RATIO = 512,       /* for each byte of the pickle */
    TN__PICKLE_MOST_STACK = 1 << 20
};

/* ---- values --------------------------------------------------------------- */

typedef enum tn__pickle_kind {
    TN__PICKLE_NONE,
    TN__PICKLE_BOOL,
    TN__PICKLE_INT,
    TN__PICKLE_LONG,    /* an integer beyond int64: its bytes */
    TN__PICKLE_REAL,
    TN__PICKLE_TEXT,
    TN__PICKLE_BYTES,
    TN__PICKLE_LIST,
    TN__PICKLE_TUPLE,
    TN__PICKLE_DICT,    /* items are key, value, key, value ... */
    TN__PICKLE_NAME,    /* a name of the table */
    TN__PICKLE_NUMPY_DTYPE,
    TN__PICKLE_STORAGE,
    TN__PICKLE_TENSOR
} tn__pickle_kind;

/* A dtype of PyTorch. Names in a pickle are "float32" and "FloatStorage". */
typedef struct tn__torch_dtype {
    const char *name, *storage; /* storage is NULL if there is no such class */
    unsigned item;              /* bytes of an element */
    tn_dtype dtype;             /* TN_DTYPE_NONE if Tenon does not have it */
    tn__array_widen widen;
} tn__torch_dtype;

typedef struct tn__torch_storage {
    const char *key;
    const tn__torch_dtype *dtype; /* of a typed storage, else uint8 */
    uint64_t numel;
    uint64_t at;       /* where its elements begin: in a file of the old format */
    bool found;        /* its elements are in the file */
    bool checked;      /* its CRC was checked (atomic) */
    struct tn__torch_storage *next; /* in the table of storages */
} tn__torch_storage;

typedef struct tn__torch_tensor {
    tn__torch_storage *storage;
    const tn__torch_dtype *dtype;
    uint64_t offset; /* of element 0 in the storage, in bytes */
    int ndim;
    int64_t numel;
    int64_t shape[TN_MAX_NDIM], stride[TN_MAX_NDIM]; /* in elements */
} tn__torch_tensor;

typedef struct tn__pickle_value {
    tn__pickle_kind kind;
    bool attributes; /* a dict that may have attributes (OrderedDict) */
    union {
        int64_t integer;
        double real;
        struct {
            const char *text; /* followed by a NUL */
            size_t bytes;
        };
        struct {
            struct tn__pickle_value **item;
            size_t count, room;
        };
        const struct tn__pickle_name *name;
        struct { /* a dtype of NumPy: 'b', 'i', 'u' or 'f', and its bytes */
            char kind;
            bool big; /* big-endian */
            unsigned item;
        } numpy;
        struct { /* a storage may be a view of another (old format) */
            tn__torch_storage *whole;
            uint64_t view_offset, view_numel; /* in elements */
        };
        tn__torch_tensor *tensor;
    };
} tn__pickle_value;

/* ---- the machine ---------------------------------------------------------- */

typedef struct tn__pickle {
    const char *what, *call; /* for messages: the file and the public call */
    struct tn__pickle_block *block; /* owned: memory of all values */
    uint64_t value_count, used_bytes, most_bytes; /* 0: not yet known */
    tn__torch_storage **bucket; /* storages by the hash of their keys */
    size_t bucket_count, storage_count;
    /* position in the pickle that runs; NULL and 0 if none runs */
    const uint8_t *start, *p, *end;
    tn__pickle_value **stack, **memo;
    size_t *mark;
    size_t stack_count, stack_room, memo_room, mark_count, mark_room;
} tn__pickle;

/* Runs the pickle at *p, which ends before end, and returns its value, which
 * lives until tn__pickle_close. *p becomes the byte after it. Records an error
 * and returns NULL on failure. */
tn__pickle_value *tn__pickle_run(tn__pickle *pickle, const uint8_t **p,
                                 const uint8_t *end);
void tn__pickle_close(tn__pickle *pickle);

tn__torch_storage *tn__pickle_storage(tn__pickle *pickle, const char *key);

/* ---- for the files pickle*.c -------------------------------------------- */

void *tn__pickle_alloc(tn__pickle *pickle, uint64_t count, size_t bytes);
tn__pickle_value *tn__pickle_new(tn__pickle *pickle, tn__pickle_kind kind);
tn__pickle_value *tn__pickle_new_text(tn__pickle *pickle, tn__pickle_kind kind,
                                      const void *text, size_t bytes);
/* Records an error at the current instruction and returns NULL. */
void *tn__pickle_fail(tn__pickle *pickle, tn_status code, const char *format,
                      ...) __attribute__((format(printf, 3, 4)));

/* Returns the value of a name, or records that it is not in the table. */
tn__pickle_value *tn__pickle_find(tn__pickle *pickle, const char *module,
                                  size_t module_bytes, const char *name,
                                  size_t name_bytes);
/* Makes the value of a call of a name. with_new: the call is cls.__new__. */
tn__pickle_value *tn__pickle_call(tn__pickle *pickle,
                                  const tn__pickle_value *called,
                                  const tn__pickle_value *arguments,
                                  bool with_new);
/* Makes the storage of a persistent id. */
tn__pickle_value *tn__pickle_persistent(tn__pickle *pickle,
                                        const tn__pickle_value *id);
/* Sets the byte order of a dtype of NumPy from the state of a BUILD. */
bool tn__pickle_numpy_state(tn__pickle *pickle, tn__pickle_value *dtype,
                            const tn__pickle_value *state);
/* Returns the string of a name that is a value of the tree, such as
 * "torch.float32", or NULL. */
const char *tn__pickle_name_text(const struct tn__pickle_name *name);

#endif
