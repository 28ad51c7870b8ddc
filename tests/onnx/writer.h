/* writer.h: writes ONNX models for tests in the wire format of protobuf. It
 * checks nothing, so that tests can also write invalid models.
 *
 *     message model = {0}, graph = {0};
 *     add_node(&graph, "Relu", "x", "y");
 *     add_value(&graph, GRAPH_INPUT, "x", 1, 2, (int64_t[]){-1, 3});
 *     finish_model(&model, &graph, 17);
 *     save(&model, path); */
#ifndef TN_TESTS_ONNX_WRITER_H
#define TN_TESTS_ONNX_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct message {
    uint8_t *p;
    size_t bytes, room;
} message;

static inline void put_byte(message *m, uint8_t byte)
{
    if (m->bytes == m->room) {
        m->room = m->room ? 2 * m->room : 256;
        m->p = realloc(m->p, m->room);
        if (!m->p)
            abort();
    }
    m->p[m->bytes++] = byte;
}

static inline void put_varint(message *m, uint64_t x)
{
    for (; x > 127; x >>= 7)
        put_byte(m, (uint8_t)(x | 128));
    put_byte(m, (uint8_t)x);
}

static inline void put_number(message *m, int field, uint64_t x)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, x);
}

static inline void put_bytes(message *m, int field, const void *p, size_t bytes)
{
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, bytes);
    for (size_t i = 0; i < bytes; i++)
        put_byte(m, ((const uint8_t *)p)[i]);
}

static inline void put_text(message *m, int field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

static inline void put_float(message *m, int field, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_varint(m, (uint64_t)field << 3 | 5);
    for (int i = 0; i < 4; i++)
        put_byte(m, (uint8_t)(bits >> 8 * i));
}

/* Appends part as a field of m, and frees it. */
static inline void put_message(message *m, int field, message *part)
{
    put_bytes(m, field, part->p, part->bytes);
    free(part->p);
    *part = (message){0};
}

/* ---- parts of a graph ---------------------------------------------------- */

enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11,
       GRAPH_OUTPUT = 12 };

/* Adds a value of ONNX type `type`. ndim -1 means that the shape is unknown. */
static inline void add_value(message *graph, int field, const char *name,
                             int type, int ndim, const int64_t *shape)
{
    message value = {0}, outer = {0}, tensor = {0}, sizes = {0};
    put_text(&value, 1, name);
    put_number(&tensor, 1, (uint64_t)type);
    for (int i = 0; i < ndim; i++) {
        message dim = {0};
        if (shape[i] >= 0)
            put_number(&dim, 1, (uint64_t)shape[i]);
        else
            put_text(&dim, 2, "n");
        put_message(&sizes, 1, &dim);
    }
    if (ndim >= 0)
        put_message(&tensor, 2, &sizes);
    put_message(&outer, 1, &tensor);
    put_message(&value, 2, &outer);
    put_message(graph, field, &value);
}

/* Appends the names in a list. They are separated by blanks; "-" is an empty
 * name. */
static inline void put_names(message *m, int field, const char *list)
{
    while (*list) {
        const size_t n = strcspn(list, " ");
        put_bytes(m, field, list, n == 1 && *list == '-' ? 0 : n);
        list += n;
        list += strspn(list, " ");
    }
}

static inline message make_node(const char *op, const char *in, const char *out)
{
    message node = {0};
    put_names(&node, 1, in);
    put_names(&node, 2, out);
    put_text(&node, 3, op); /* its name */
    put_text(&node, 4, op);
    return node;
}

static inline void add_node(message *graph, const char *op, const char *in,
                            const char *out)
{
    message node = make_node(op, in, out);
    put_message(graph, GRAPH_NODE, &node);
}

static inline void attr_int(message *node, const char *name, int64_t x)
{
    message a = {0};
    put_text(&a, 1, name);
    put_number(&a, 3, (uint64_t)x);
    put_number(&a, 20, 2);
    put_message(node, 5, &a);
}

static inline void attr_text(message *node, const char *name, const char *text)
{
    message a = {0};
    put_text(&a, 1, name);
    put_text(&a, 4, text);
    put_number(&a, 20, 3);
    put_message(node, 5, &a);
}

static inline void attr_graph(message *node, const char *name, message *graph)
{
    message a = {0};
    put_text(&a, 1, name);
    put_message(&a, 6, graph);
    put_number(&a, 20, 5);
    put_message(node, 5, &a);
}

/* Returns a TensorProto with raw data. */
static inline message make_tensor(const char *name, int type, int ndim,
                                  const int64_t *shape, const void *data,
                                  size_t bytes)
{
    message t = {0};
    for (int i = 0; i < ndim; i++)
        put_number(&t, 1, (uint64_t)shape[i]);
    put_number(&t, 2, (uint64_t)type);
    put_text(&t, 8, name);
    if (data)
        put_bytes(&t, 9, data, bytes);
    return t;
}

static inline void add_tensor(message *graph, const char *name, int type,
                              int ndim, const int64_t *shape, const void *data,
                              size_t bytes)
{
    message t = make_tensor(name, type, ndim, shape, data, bytes);
    put_message(graph, GRAPH_INITIALIZER, &t);
}

/* Returns an attribute that refers to an attribute of the call. */
static inline void attr_reference(message *node, const char *name,
                                  const char *reference, int type)
{
    message a = {0};
    put_text(&a, 1, name);
    put_number(&a, 20, (uint64_t)type);
    put_text(&a, 21, reference);
    put_message(node, 5, &a);
}

/* Returns a FunctionProto of domain "own" with these inputs and outputs. */
static inline message make_function(const char *name, const char *in,
                                    const char *out, int opset)
{
    message f = {0}, import = {0};
    put_text(&f, 1, name);
    put_text(&f, 10, "own");
    put_names(&f, 4, in);
    put_names(&f, 5, out);
    put_text(&import, 1, "");
    put_number(&import, 2, (uint64_t)opset);
    put_message(&f, 9, &import);
    message own = {0};
    put_text(&own, 1, "own");
    put_number(&own, 2, 1);
    put_message(&f, 9, &own);
    return f;
}

/* Adds a node to a graph (GRAPH_NODE) or a function (FUNCTION_NODE). domain
 * "own" makes it call a function. */
enum { FUNCTION_NODE = 7, MODEL_FUNCTION = 25 };
static inline message make_call(const char *function, const char *in,
                                const char *out)
{
    message node = make_node(function, in, out);
    put_text(&node, 7, "own");
    return node;
}

static inline void finish_model(message *model, message *graph, int opset)
{
    message import = {0};
    put_number(model, 1, 8);
    put_text(model, 2, "tests");
    put_text(graph, GRAPH_NAME, "g");
    put_message(model, 7, graph);
    put_text(&import, 1, "");
    put_number(&import, 2, (uint64_t)opset);
    put_message(model, 8, &import);
}

static inline void save_bytes(const uint8_t *p, size_t bytes, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(p, 1, bytes, file) != bytes || fclose(file) != 0)
        abort();
}

/* Writes the model to path and frees it. */
static inline void save(message *model, const char *path)
{
    save_bytes(model->p, model->bytes, path);
    free(model->p);
    *model = (message){0};
}

#endif
