/* build.h: makes the graph of a model from its file. */
#ifndef TN_ONNX_GRAPH_BUILD_H
#define TN_ONNX_GRAPH_BUILD_H

#include <onnx/ops/ops.h>
#include <onnx/reader/reader.h>

/* An initialiser that becomes a parameter or a buffer of the module. */
typedef struct tn__onnx_weight {
    const char *name;
    tn_tensor *tensor; /* owned (kept) until the module registers it */
    bool is_buffer;
} tn__onnx_weight;

/* Everything that is read from a file. It does not change afterwards, so a
 * module and its clones share it. */
typedef struct tn__onnx_model {
    int references; /* atomic */
    tn__onnx_arena arena;
    tn__onnx_graph *graph;  /* the outermost graph */
    tn__onnx_graph *graphs; /* a list of all */
    const char *producer;
    int64_t ir_version, opset, nodes, folded;
    int64_t constant_bytes, parameters, parameter_bytes;
    int weight_count;
    tn__onnx_weight *weight;
    tn_device *device, *host;
    /* Guarded by tn__library_lock, as are the device copies of constants, which
     * the first run that needs them makes. */
    struct tn__onnx_shape_cache *shape_cache; /* see shape_cache.h */
    void (*forget)(struct tn__onnx_model *model); /* frees them */
} tn__onnx_model;
tn__onnx_model *tn__onnx_model_new(void);
void tn__onnx_model_drop(tn__onnx_model *model);

/* ---- names of values ----------------------------------------------------- */

typedef struct tn__onnx_names {
    struct tn__onnx_names *parent;
    tn__onnx_graph *graph;
    struct tn__onnx_name *entry;
    size_t room, count;
} tn__onnx_names;
/* Returns the slot of a name in this graph, without the enclosing graphs, or
 * -1. */
int tn__onnx_names_find(const tn__onnx_names *names, const char *name);
bool tn__onnx_names_add(tn__onnx_names *names, const char *name, int slot);
void tn__onnx_names_free(tn__onnx_names *names);

/* ---- the file ------------------------------------------------------------ */

struct tn__onnx_scope; /* scope.h */
struct tn__onnx_builder;

/* The opsets that a model or a function imports. */
typedef struct tn__onnx_imports {
    tn__onnx_opset opset[TN__ONNX_MAX_OPSETS];
    int count;
} tn__onnx_imports;

/* A function that the model defines (FunctionProto). */
typedef struct tn__onnx_function {
    const char *name;
    tn__onnx_span message;
} tn__onnx_function;

typedef struct tn__onnx_builder {
    tn__onnx_reader reader;
    tn__onnx_model *model;
    tn__onnx_imports imports;
    int function_count, function_depth;
    tn__onnx_function *function;
    tn__onnx_names function_names; /* "domain name overload": index in
                                      function[] */
    int64_t called_nodes;  /* number of nodes of functions, over all calls */
    uint64_t called_bytes; /* size of these functions in the file */
    /* tn__onnx_graph_read and tn__onnx_node_read. Attributes contain graphs,
     * graphs and functions contain nodes, and nodes contain attributes and call
     * functions. The pointers avoid a circular dependency of their files. */
    tn__onnx_graph *(*read_graph)(struct tn__onnx_builder *b,
                                  struct tn__onnx_scope *parent,
                                  tn__onnx_span message, int depth);
    bool (*read_node)(struct tn__onnx_builder *b, struct tn__onnx_scope *s,
                      tn__onnx_span message, int depth);
    /* for tn_onnx_check: problems are reported and counted, and weights are not
     * read */
    bool checks;
    void (*report)(const tn_onnx_node_info *node, void *context);
    void *context;
    int64_t problems;
} tn__onnx_builder;

/* Reads the mapped file b->reader.file into b->model. */
bool tn__onnx_build(tn__onnx_builder *b);
/* Reads a GraphProto. parent is NULL for the model's graph. */
tn__onnx_graph *tn__onnx_graph_read(tn__onnx_builder *b,
                                    struct tn__onnx_scope *parent,
                                    tn__onnx_span message, int depth);
/* Reads an OperatorSetIdProto and adds it to imports. */
bool tn__onnx_import_read(tn__onnx_builder *b, tn__onnx_span message,
                          tn__onnx_imports *imports);
/* Returns the version of a domain in b->imports, or -1. */
int64_t tn__onnx_import_version(const tn__onnx_builder *b, const char *domain);
/* Stores the position of a FunctionProto, which is read when a node calls
 * it. */
bool tn__onnx_function_add(tn__onnx_builder *b, tn__onnx_span message);
/* Returns the function that a node of this domain and operator calls, or
 * NULL. */
const tn__onnx_function *tn__onnx_function_find(const tn__onnx_builder *b,
                                                const char *domain,
                                                const char *op,
                                                const char *overload);
/* Reads a ValueInfoProto. */
bool tn__onnx_port_read(tn__onnx_builder *b, tn__onnx_span message,
                        tn__onnx_port *port);
/* Handles something that is not supported: sets an error, or reports it if
 * tn_onnx_check runs. Returns whether reading continues. */
bool tn__onnx_problem(tn__onnx_builder *b, const tn__onnx_node *node,
                      const char *what);
bool tn__onnx_value_problem(tn__onnx_builder *b, const char *name,
                            const char *what);

/* ---- attributes ---------------------------------------------------------- */

/* Puts the attributes of a node in the order of its row, and adds defaults.
 * Returns NULL, or a message in `text` that says what is wrong. */
const char *tn__onnx_bind(tn__onnx_builder *b, tn__onnx_node *node, char *text,
                          size_t room);
/* Reads an AttributeProto. An attribute of a node in a function may refer to an
 * attribute of the call. If the call has no such attribute, and the function no
 * default, it is left out: out->name is NULL. */
bool tn__onnx_attribute_read(tn__onnx_builder *b, struct tn__onnx_scope *s,
                             tn__onnx_span message, int depth,
                             tn__onnx_attr *out);

#endif
