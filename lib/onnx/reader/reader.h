/* reader.h: reads the messages of ONNX. The file stays mapped while it is read;
 * nothing of it is used afterwards. */
#ifndef TN_ONNX_READER_READER_H
#define TN_ONNX_READER_READER_H

#include <onnx/onnx.h>
#include <onnx/reader/wire.h>

/* What bounds the memory of a model that a small file could ask for. */
enum {
    TN__ONNX_MAX_DEPTH = 16,      /* nested subgraphs */
    TN__ONNX_MAX_NODES = 1 << 20, /* of a model; also of its values */
    TN__ONNX_MAX_ATTRS = 64,      /* of a node */
    TN__ONNX_MAX_LIST = 1 << 16,  /* inputs or outputs of a node or a graph */
    TN__ONNX_MAX_OPSETS = 64,
    TN__ONNX_MAX_EXTERNAL = 64    /* files of external data */
};

typedef struct tn__onnx_file {
    const uint8_t *memory; /* mapped; NULL for an empty file */
    size_t bytes;
} tn__onnx_file;
/* Maps a regular file. `call` is the public call in error messages. */
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
} tn__onnx_reader;

/* Records TN_ERR_FORMAT: "onnx_open: path: what". Returns false. */
bool tn__onnx_malformed(const tn__onnx_reader *r, const char *what);
/* Copies a string of the file. NULL, with an error, if it contains NUL or memory
 * runs out. */
const char *tn__onnx_text(const tn__onnx_reader *r, const tn__onnx_item *item);

/* A TensorProto, whose data stays in the file until it is read. */
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
    int64_t offset, length; /* of external data; length -1: the rest */
} tn__onnx_tensor;
/* Reads all but the data. */
bool tn__onnx_tensor_read(tn__onnx_reader *r, tn__onnx_span message,
                          tn__onnx_tensor *out);
/* Makes a tensor of the data on the current device, owned by the open scope. */
tn_tensor *tn__onnx_tensor_make(tn__onnx_reader *r, const tn__onnx_tensor *t);
/* Bytes of t in memory. */
int64_t tn__onnx_tensor_bytes(const tn__onnx_tensor *t);

void tn__onnx_reader_close(tn__onnx_reader *r);

#endif
