/* csv.c: tables of numbers in text files, gzipped or not (zlib reads both). */
#include <base/error.h>
#include <base/memory.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>
#include <tenon/ops.h>
#include <zlib.h>

/* One line may be this long; more is taken for a file that is no table. */
enum { LINE_BYTES = 1 << 20 };

typedef struct table {
    const char *path;
    double *value; /* owned */
    size_t count, room;
    int64_t rows, columns;
    char *line;    /* owned, LINE_BYTES */
    locale_t c;    /* owned; C's: the program's may read "1,5" as one number */
} table;

/* Reads the numbers of one line; number is the line's, from 1. */
static tn_status read_line(table *t, char *line, int64_t number,
                           char delimiter)
{
    char *at = line;
    int64_t column = 0;
    for (;;) {
        char *end;
        double value = strtod_l(at, &end, t->c);
        while (*end == ' ' || *end == '\t')
            end++;
        bool last = *end == '\0' || *end == '\n' || *end == '\r';
        if (end == at || (!last && *end != delimiter))
            return tn__fail(
                TN_ERR_FORMAT,
                "csv_load: {path:}%s: line %lld, column %lld: not a number: "
                "\"%.*s\"",
                t->path, (long long)number, (long long)(column + 1),
                (int)strcspn(at, ",;\t\r\n"), at);
        if (!tn__grow(&t->value, &t->room, t->count, sizeof *t->value))
            return TN_ERR_MEMORY;
        t->value[t->count++] = value;
        column++;
        if (last)
            break;
        at = end + 1;
    }
    if (t->rows == 0)
        t->columns = column;
    if (column != t->columns)
        return tn__fail(
            TN_ERR_FORMAT,
            "csv_load: {path:}%s: line %lld has %lld columns, those before it "
            "have %lld",
            t->path, (long long)number, (long long)column,
            (long long)t->columns);
    t->rows++;
    return TN_OK;
}

static tn_status read_lines(table *t, gzFile file, int skip, char delimiter)
{
    z_off_t begin = 0, end;
    for (int64_t number = 1; gzgets(file, t->line, LINE_BYTES);
         number++, begin = end) {
        size_t length = strlen(t->line);
        end = gztell(file);
        /* What stands behind it would be lost in silence. */
        if (end - begin != (z_off_t)length)
            return tn__fail(TN_ERR_FORMAT,
                            "csv_load: {path:}%s: line %lld holds a byte of 0",
                            t->path, (long long)number);
        if (length + 1 == LINE_BYTES && t->line[length - 1] != '\n')
            return tn__fail(
                TN_ERR_FORMAT,
                "csv_load: {path:}%s: line %lld is longer than %d bytes",
                t->path, (long long)number, LINE_BYTES);
        if (number <= skip || t->line[strspn(t->line, " \t\r\n")] == '\0')
            continue;
        tn_status status = read_line(t, t->line, number, delimiter);
        if (status < 0)
            return status;
    }
    int error;
    const char *text = gzerror(file, &error);
    if (error != Z_OK && error != Z_STREAM_END)
        return tn__fail(TN_ERR_IO, "csv_load: {path:}%s: %s", t->path, text);
    return TN_OK;
}

/* The values as a tensor: the current device gets float64 and converts. */
static tn_tensor *table_tensor(const table *t, tn_dtype dtype)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_tensor_from_array(
        t->value, TN_F64, tn_dims(t->rows, t->columns));
    return tn_scope_result(scope, tn_to_dtype(x, dtype));
}

TN_OPTIONS_TYPE(tn_csv_load, "csv_load", "path", TN_CSV_LOAD_OPTIONS_LIST)

static bool check_options(const tn_csv_load_options *o)
{
    if (!tn_dtype_bytes(o->dtype))
        return tn__fail(TN_ERR_DTYPE, "csv_load: {dtype} %u is none",
                        (unsigned)o->dtype),
               false;
    if (o->skip_rows < 0)
        return tn__fail(TN_ERR_ARGUMENT, "csv_load: {skip_rows} is %d",
                        o->skip_rows),
               false;
    if (!o->delimiter || strchr("\r\n0123456789+-.eE", o->delimiter))
        return tn__fail(TN_ERR_ARGUMENT,
                        "csv_load: {delimiter} is character %d, "
                        "which ends a line or is part of a number",
                        o->delimiter),
               false;
    return true;
}

tn_tensor *tn_csv_load_with(const char *path,
                            const tn_csv_load_options *options)
{
    if (!path)
        return tn__fail_null(TN_ERR_ARGUMENT, "csv_load: {path} is NULL");
    tn_csv_load_options o;
    if (tn_options_take(tn_csv_load_type(), &o, options) < 0 ||
        !check_options(&o))
        return NULL;

    table t = {.path = path, .line = tn__alloc(LINE_BYTES)};
    if (!t.line)
        return NULL;
    t.c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!t.c) {
        tn__free(t.line);
        return tn__fail_null(TN_ERR_MEMORY,
                             "csv_load: {path:}%s: out of memory", path);
    }
    tn_tensor *x = NULL;
    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (!file) {
        tn__fail(TN_ERR_IO, "csv_load: {path:}%s: %s", path,
                 errno ? strerror(errno) : "out of memory");
    } else {
        tn_status status = read_lines(&t, file, o.skip_rows, o.delimiter);
        gzclose(file);
        if (status == TN_OK && t.rows == 0)
            tn__fail(TN_ERR_FORMAT, "csv_load: {path:}%s: no rows", path);
        else if (status == TN_OK)
            x = table_tensor(&t, o.dtype);
    }
    freelocale(t.c);
    tn__free(t.line);
    tn__free(t.value);
    return x;
}
