/* reader.h: reads the messages of ONNX files. A file is mapped while it is
 * read, and as long as a tensor uses its data in place. Nothing else points
 * into it afterwards. */
#ifndef TN_ONNX_READER_READER_H
#define TN_ONNX_READER_READER_H

#include <onnx/onnx.h>
#include <onnx/reader/wire.h>

/* Limits, so that a small file cannot cause the allocation of much memory. */
enum {
    TN__ONNX_MAX_DEPTH = 16,      /* of nested subgraphs */
    TN__ONNX_MAX_NODES = 1 << 20, /* in a model; also limits its values */
    TN__ONNX_MAX_ATTRS = 64,      /* of a node */
    TN__ONNX_MAX_LIST = 1 << 16,  /* inputs or outputs of one node or graph */
    TN__ONNX_MAX_OPSETS = 64,
    TN__ONNX_MAX_EXTERNAL = 64    /* external data files */
};

/* A file in memory. The mapping is private and writable: training changes the
 * memory, not the file. */
typedef struct tn__onnx_mapping {
    _Atomic int references;
    void *memory;
    size_t bytes;
} tn__onnx_mapping;

typedef struct tn__onnx_file {
    tn__onnx_mapping *mapping; /* kept; NULL for an empty file */
    const uint8_t *memory;
    size_t bytes;
} tn__onnx_file;
/* Maps a regular file. Error messages begin with `call`, the name of the public
 * call. */
bool tn__onnx_file_open(tn__onnx_file *file, int folder, const char *path,
                        bool follow, const char *call);
void tn__onnx_file_close(tn__onnx_file *file);

typedef struct tn__onnx_opset {
    const char *domain;
    int64_t version;
} tn__onnx_opset;

typedef struct tn__onnx_reader {
    const char *call; /* "onnx_open" */
    const char *path;
    tn__onnx_arena *arena;
    tn__onnx_file file;
    struct {
        const char *name;
        tn__onnx_file file;
    } external[TN__ONNX_MAX_EXTERNAL];
    int external_count;
    bool maps; /* whether tensors may use the data in the file in place */
} tn__onnx_reader;

/* Sets TN_ERR_FORMAT with the message "onnx_open: path: what". Returns
 * false. */
bool tn__onnx_malformed(const tn__onnx_reader *r, const char *what);
/* Copies a string from the file to the arena. Returns NULL with an error if the
 * string contains NUL or memory runs out. */
const char *tn__onnx_text(const tn__onnx_reader *r, const tn__onnx_item *item);

/* A TensorProto. Its data stays in the file until tn__onnx_tensor_make reads
 * it. */
typedef struct tn__onnx_tensor {
    const char *name;
    tn__onnx_span message;
    int type;
    int ndim;
    int64_t dim[TN_MAX_NDIM];
    int64_t numel;
    bool has_raw, is_external;
    tn__onnx_span raw;
    const char *location;
    int64_t offset, length; /* position of the external data in bytes; a length
                               of -1 means the rest of the file */
} tn__onnx_tensor;
/* Reads all fields except the data. */
bool tn__onnx_tensor_read(tn__onnx_reader *r, tn__onnx_span message,
                          tn__onnx_tensor *out);
/* Makes a tensor on the current device from the data. The open scope owns it.
 * If r->maps and the device uses the host's memory, a large aligned tensor is
 * not copied: it keeps the file mapped. */
tn_tensor *tn__onnx_tensor_make(tn__onnx_reader *r, const tn__onnx_tensor *t);
/* Returns the bytes that the tensor will occupy in memory. */
int64_t tn__onnx_tensor_bytes(const tn__onnx_tensor *t);

void tn__onnx_reader_close(tn__onnx_reader *r);
/* Lets the system drop the pages of a span that has been copied, so that the
 * file and the copy do not take memory at once. Reading the span again is
 * allowed. */
void tn__onnx_reader_copied(const tn__onnx_reader *r, tn__onnx_span span);
/* Makes a tensor on the current device that uses a span of a file in place. The
 * open scope owns it. */
tn_tensor *tn__onnx_reader_wrap(const tn__onnx_reader *r, tn__onnx_span span,
                                tn_dtype dtype, tn_dims_list shape);

#endif
