/* csv.c: reads tables from CSV files, which may be gzipped.
 *
 * A row is first split into cells according to RFC 4180, which allows quoted
 * cells with doubled quotes and line breaks. Cells are converted to numbers
 * only at the end of the row, because only then is it known which cell is the
 * last one, the label. */
#include <io/csv.h>

#include <base/error.h>
#include <base/memory.h>
#include <io/file.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/ops.h>

/* The maximum length of a row in bytes. If a row is longer, the file is not a
 * table, or a quote was not closed. */
enum { MAX_ROW_BYTES = 1 << 26, BUFFER_BYTES = 1 << 16 };
enum { END = -1, FAILED = -2 };

typedef struct cell {
    size_t begin, end; /* position in reader.text, where text[end] is 0 */
    int64_t line;      /* number of the line where the cell begins, from 1 */
    bool quoted;
} cell;

typedef struct reader {
    const char *call, *path;
    tn__unpacker *file; /* owned */
    const tn_csv_load_options *o;
    bool label;
    int64_t line;
    int lookahead; /* a character that was read ahead, or END */
    char *text; /* owned: the characters of all cells of the current row */
    size_t text_count, text_room;
    cell *cell; /* owned */
    size_t cell_count, cell_room;
    size_t value_count, number_room, integer_room, label_room;
    int64_t all_columns, category; /* number of columns including the label, and
                                      the column with names of categories, or
                                      -1 */
    tn__csv_table *table;
    size_t next, limit; /* positions in bytes[]: of the next character, and of
                           the end of what was read */
    unsigned char bytes[BUFFER_BYTES];
} reader;

/* ---- characters --------------------------------------------------------- */

/* Returns the next character of the file, END, or FAILED after recording an
 * error. */
static int next_char(reader *r)
{
    if (r->lookahead != END) {
        int lookahead = r->lookahead;
        r->lookahead = END;
        return lookahead;
    }
    if (r->next == r->limit) {
        r->next = 0;
        r->limit = 0;
        if (tn__unpacker_read(r->file, r->bytes, sizeof r->bytes, &r->limit) <
            0)
            return FAILED;
        if (!r->limit)
            return END;
    }
    int c = r->bytes[r->next++];
    if (c)
        return c;
    tn__fail(TN_ERR_FORMAT, "%s: {path:}%s: line %lld contains a NUL byte",
             r->call, r->path, (long long)r->line);
    return FAILED;
}

/* Returns '\n' for any line end: if c is '\r', also takes a following '\n'.
 * Returns other characters unchanged. */
static int take_line_end(reader *r, int c)
{
    if (c == '\r') {
        c = next_char(r);
        if (c == FAILED)
            return FAILED;
        if (c != '\n')
            r->lookahead = c;
        c = '\n';
    }
    return c;
}

static bool append(reader *r, int c)
{
    if (r->text_count >= MAX_ROW_BYTES) {
        tn__fail(TN_ERR_FORMAT,
                 "%s: {path:}%s: line %lld: the row exceeds %d bytes",
                 r->call, r->path, (long long)r->line, MAX_ROW_BYTES);
        return false;
    }
    if (!tn__grow(&r->text, &r->text_room, r->text_count, 1))
        return false;
    r->text[r->text_count++] = (char)c;
    return true;
}

static tn_status fail_cell(const reader *r, int64_t line, size_t column,
                           const char *problem)
{
    return tn__fail(TN_ERR_FORMAT,
                    "%s: {path:}%s: line %lld, column %zu: %s", r->call,
                    r->path, (long long)line, column + 1, problem);
}

/* ---- cells -------------------------------------------------------------- */

static bool is_blank(const reader *r, int c)
{
    return (c == ' ' || c == '\t') && c != r->o->delimiter;
}

/* Reads a quoted cell, whose opening quote has been read. Returns the character
 * after the closing quote, or FAILED. */
static int read_quoted(reader *r, int64_t line)
{
    for (;;) {
        int c = next_char(r);
        if (c == FAILED)
            return FAILED;
        if (c == END) {
            fail_cell(r, line, r->cell_count, "a quote is not closed");
            return FAILED;
        }
        if (c == '"' && (c = next_char(r)) != '"')
            return c;
        /* A doubled quote means one quote. Line breaks are part of the
         * cell. */
        if (c == '\n')
            r->line++;
        if (!append(r, c))
            return FAILED;
    }
}

/* Reads one cell into reader.text. Returns the character after it (a delimiter,
 * '\n' or END), or FAILED. */
static int read_cell(reader *r)
{
    cell at = {.begin = r->text_count, .line = r->line};
    int c = next_char(r);
    while (is_blank(r, c))
        c = next_char(r);
    if (c == '"') {
        at.quoted = true;
        c = read_quoted(r, at.line);
        at.end = r->text_count;
        while (is_blank(r, c))
            c = next_char(r);
    }
    for (; c != END && c != '\n' && c != '\r' && c != r->o->delimiter;
         c = next_char(r)) {
        if (c == FAILED)
            return FAILED;
        if (at.quoted) {
            fail_cell(r, at.line, r->cell_count,
                      "characters after a closing quote");
            return FAILED;
        }
        if (!append(r, c))
            return FAILED;
    }
    if (!at.quoted) {
        at.end = r->text_count;
        while (at.end > at.begin && is_blank(r, r->text[at.end - 1]))
            at.end--;
    }
    c = take_line_end(r, c);
    r->text_count = at.end;
    if (c == FAILED || !append(r, '\0') ||
        !tn__grow(&r->cell, &r->cell_room, r->cell_count, sizeof at))
        return FAILED;
    r->cell[r->cell_count++] = at;
    return c;
}

/* Reads the cells of the next row. Skips empty lines. Returns 1, or 0 at the
 * end of the file, or a negative status. */
static int read_row(reader *r)
{
    for (;;) {
        r->text_count = 0;
        r->cell_count = 0;
        int c;
        while ((c = read_cell(r)) == r->o->delimiter)
            ;
        if (c == FAILED)
            return tn_error_code();
        if (c == '\n')
            r->line++;
        bool empty = r->cell_count == 1 && !r->cell[0].quoted &&
                     r->cell[0].begin == r->cell[0].end;
        if (!empty)
            return 1;
        if (c == END)
            return 0;
    }
}

/* ---- values ------------------------------------------------------------- */

/* Sets *out to the value that the options give to empty cells. Returns false if
 * they give none. */
static bool empty_value(const reader *r, tn_dtype dtype, tn__csv_number *out)
{
    double value = r->o->empty;
    out->number = value;
    if (tn_is_none_float(value))
        return false;
    if (tn_dtype_is_floating(dtype))
        return true;
    if (value != trunc(value) || !(fabs(value) <= 0x1p53))
        return false;
    out->integer = (int64_t)value;
    return tn__csv_fits(out->integer, dtype);
}

static tn_status category_value(const reader *r, const cell *at, size_t column,
                                tn_dtype dtype, tn__csv_number *out)
{
    out->integer = tn__categories_add(r->o->categories, r->text + at->begin,
                                      at->end - at->begin);
    if (out->integer < 0)
        return tn_error_code();
    out->number = (double)out->integer;
    if (tn__csv_fits(out->integer, dtype))
        return TN_OK;
    char problem[TN__CSV_PROBLEM];
    snprintf(problem, sizeof problem,
             "category %lld is outside the range of %s",
             (long long)out->integer, tn_dtype_name(dtype));
    return fail_cell(r, at->line, column, problem);
}

static tn_status read_value(const reader *r, const cell *at, size_t column,
                            bool category, tn_dtype dtype,
                            tn__csv_number *out)
{
    char problem[TN__CSV_PROBLEM];
    if (at->begin == at->end) {
        if (empty_value(r, dtype, out))
            return TN_OK;
        bool given = !tn_is_none_float(r->o->empty);
        snprintf(problem, sizeof problem,
                 given ? "an empty cell, and %s cannot represent %g"
                       : "an empty cell: give .empty, such as .empty = NAN, "
                         "for its value",
                 tn_dtype_name(dtype), r->o->empty);
        return fail_cell(r, at->line, column, problem);
    }
    if (category)
        return category_value(r, at, column, dtype, out);
    if (tn__csv_parse(out, r->text + at->begin, at->end - at->begin, dtype,
                      problem))
        return TN_OK;
    return fail_cell(r, at->line, column, problem);
}

static tn_status add_value(reader *r, tn__csv_number value)
{
    tn__csv_table *t = r->table;
    size_t at = r->value_count++;
    if (tn_dtype_is_floating(r->o->dtype)) {
        if (!tn__grow(&t->number, &r->number_room, at, sizeof *t->number))
            return TN_ERR_MEMORY;
        t->number[at] = value.number;
    } else {
        if (!tn__grow(&t->integer, &r->integer_room, at, sizeof *t->integer))
            return TN_ERR_MEMORY;
        t->integer[at] = value.integer;
    }
    return TN_OK;
}

static tn_status add_label(reader *r, tn__csv_number value)
{
    tn__csv_table *t = r->table;
    if (!tn__grow(&t->label, &r->label_room, (size_t)t->rows, sizeof *t->label))
        return TN_ERR_MEMORY;
    t->label[t->rows] = value.integer;
    return TN_OK;
}

/* Checks that a row has as many cells as the first row, which determines the
 * number of columns. */
static tn_status check_columns(reader *r)
{
    int64_t count = (int64_t)r->cell_count;
    if (r->table->rows && count != r->all_columns)
        return tn__fail(
            TN_ERR_FORMAT,
            "%s: {path:}%s: line %lld has %lld columns; expected %lld, as "
            "before",
            r->call, r->path, (long long)r->cell[0].line, (long long)count,
            (long long)r->all_columns);
    if (r->table->rows)
        return TN_OK;
    if (r->label && count < 2)
        return tn__fail(TN_ERR_FORMAT,
                        "%s: {path:}%s: has one column; expected features "
                        "and a label",
                        r->call, r->path);
    r->all_columns = count;
    r->table->columns = count - r->label;
    int64_t category = r->o->category;
    r->category = category == TN_NONE_INT ? -1
                  : category < 0          ? category + count
                                          : category;
    if (category != TN_NONE_INT && (r->category < 0 || r->category >= count))
        return tn__fail(TN_ERR_ARGUMENT,
                        "%s: {category} is %lld, outside the %lld columns of "
                        "%s",
                        r->call, (long long)category, (long long)count,
                        r->path);
    return TN_OK;
}

static tn_status add_row(reader *r)
{
    tn_status status = check_columns(r);
    for (size_t i = 0; i < r->cell_count && status == TN_OK; i++) {
        bool label = r->label && i + 1 == r->cell_count;
        tn__csv_number value = {0};
        status = read_value(r, &r->cell[i], i, (int64_t)i == r->category,
                            label ? TN_I64 : r->o->dtype, &value);
        if (status == TN_OK)
            status = label ? add_label(r, value) : add_value(r, value);
    }
    r->table->rows++;
    return status;
}

/* ---- files -------------------------------------------------------------- */

/* Skips the byte order mark that some programs write before UTF-8. */
static tn_status skip_bom(reader *r)
{
    size_t got = 1;
    while (r->limit < 3 && got) {
        if (tn__unpacker_read(r->file, r->bytes + r->limit,
                              sizeof r->bytes - r->limit, &got) < 0)
            return tn_error_code();
        r->limit += got;
    }
    if (r->limit >= 3 && memcmp(r->bytes, "\xef\xbb\xbf", 3) == 0)
        r->next = 3;
    return TN_OK;
}

static tn_status skip_lines(reader *r, int count)
{
    int c = '\n';
    while (count > 0 && c != END) {
        c = take_line_end(r, next_char(r));
        if (c == FAILED)
            return tn_error_code();
        if (c == '\n') {
            r->line++;
            count--;
        }
    }
    return TN_OK;
}

static tn_status read_rows(reader *r)
{
    tn_status status = skip_bom(r);
    if (status == TN_OK)
        status = skip_lines(r, r->o->skip_rows);
    int row = 1;
    while (status == TN_OK && (row = read_row(r)) == 1)
        status = add_row(r);
    if (status == TN_OK && row < 0)
        status = row;
    if (status == TN_OK && !r->table->rows)
        status = tn__fail(TN_ERR_FORMAT, "%s: {path:}%s: the file has no rows "
                          "of data", r->call, r->path);
    return status;
}

static tn_status check_options(const tn_options_type *type,
                               const tn_csv_load_options *o)
{
    const char *call = type->name;
    if (!tn_dtype_bytes(o->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {dtype} %u is not a dtype", call,
                        (unsigned)o->dtype);
    if (o->skip_rows < 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {skip_rows} is %d; expected at "
                                         "least 0", call, o->skip_rows);
    if (!o->delimiter || strchr("\r\n\"0123456789+-.eE", o->delimiter))
        return tn__fail(TN_ERR_ARGUMENT,
                        "%s: {delimiter} is character %d, "
                        "which ends a line, quotes, or is part of a number",
                        call, o->delimiter);
    if (o->categories && !tn__categories_check(o->categories, call))
        return tn_error_code();
    /* The options category and categories may only be used together. */
    const tn_option_need need[] = {
        {"category", o->categories != NULL, "without categories, which take "
                                            "the names",
         "give .categories = tn_categories_new()"},
        {"categories", o->category != TN_NONE_INT, "without category",
         "give category, the number of a column"}};
    return tn_options_check_needs(type, o, need, 2);
}

tn_status tn__csv_read(tn__csv_table *table, const tn_options_type *type,
                       const char *path, const tn_csv_load_options *options,
                       bool label)
{
    const char *call = type->name;
    memset(table, 0, sizeof *table);
    tn_status status = check_options(type, options);
    if (status < 0)
        return status;
    reader *r = tn__calloc(1, sizeof *r);
    if (!r)
        return TN_ERR_MEMORY;
    r->call = call;
    r->path = path;
    r->o = options;
    r->label = label;
    r->line = 1;
    r->lookahead = END;
    r->table = table;
    int64_t names = tn_categories_count(options->categories);
    r->file = tn__unpacker_open(path, call);
    status = r->file ? read_rows(r) : tn_error_code();
    tn__unpacker_close(r->file);
    tn__free(r->text);
    tn__free(r->cell);
    tn__free(r);
    if (status < 0) {
        tn__csv_release(table);
        if (options->categories)
            tn__categories_truncate(options->categories, names);
    }
    return status;
}

void tn__csv_release(tn__csv_table *table)
{
    tn__free(table->number);
    tn__free(table->integer);
    tn__free(table->label);
    memset(table, 0, sizeof *table);
}

tn_tensor *tn__csv_tensor(const tn__csv_table *t, tn_dtype dtype)
{
    tn_dims_list shape = tn_dims(t->rows, t->columns);
    return tn_to_dtype(t->number
                           ? tn_tensor_from_array(t->number, TN_F64, shape)
                           : tn_tensor_from_array(t->integer, TN_I64, shape),
                       dtype);
}

TN_OPTIONS_TYPE(tn_csv_load, "csv_load", "path", TN_CSV_LOAD_OPTIONS_LIST)

tn_tensor *tn_csv_load_with(const char *path,
                            const tn_csv_load_options *options)
{
    if (!path)
        return tn__fail_null(TN_ERR_ARGUMENT, "csv_load: {path} is NULL");
    tn_csv_load_options o;
    tn__csv_table table;
    if (tn_options_take(tn_csv_load_type(), &o, options) < 0 ||
        tn__csv_read(&table, tn_csv_load_type(), path, &o, false) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn__csv_tensor(&table, o.dtype);
    tn__csv_release(&table);
    return tn_scope_result(scope, x);
}
