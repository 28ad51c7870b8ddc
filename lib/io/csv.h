/* csv.h: a table of cells, for csv_load and dataset_from_csv. */
#ifndef TN_LIB_IO_CSV_H
#define TN_LIB_IO_CSV_H

#include <tenon/io.h>

/* Cells are float64 if the requested dtype is a float, else int64. If labels
 * are wanted, the last column is stored in label and is not part of the
 * cells. */
typedef struct tn__csv_table {
    int64_t rows, columns;
    double *number;  /* owned; rows x columns, or NULL */
    int64_t *integer; /* owned; rows x columns, or NULL */
    int64_t *label;  /* owned; rows, or NULL */
} tn__csv_table;

/* Reads path. Checks the options, which are of this type. Error messages begin
 * with type->name. */
tn_status tn__csv_read(tn__csv_table *table, const tn_options_type *type,
                       const char *path, const tn_csv_load_options *options,
                       bool label);
void tn__csv_release(tn__csv_table *table);
/* The cells as a tensor of dtype on the current device, owned by the open
 * scope. */
tn_tensor *tn__csv_tensor(const tn__csv_table *table, tn_dtype dtype);

/* ---- shared by csv.c, csv_number.c and categories.c --------------------- */

/* Parses a number from count bytes followed by a zero byte. Integers are exact,
 * floats rounded to dtype; both must be in its range. On failure returns false
 * with the reason in problem ("outside the range of uint8: \"300\""). Only one
 * field of *out is set. */
enum { TN__CSV_PROBLEM = 160 };
typedef struct tn__csv_number {
    double number;
    int64_t integer;
} tn__csv_number;
bool tn__csv_parse(tn__csv_number *out, const char *text, size_t count,
                   tn_dtype dtype, char problem[TN__CSV_PROBLEM]);
/* Can a dtype represent the number of a category and all smaller ones? */
bool tn__csv_fits(int64_t integer, tn_dtype dtype);

bool tn__categories_check(const tn_categories *categories, const char *call);
/* The number of a name of count bytes, which is added if it is new. Negative if
 * memory runs out. */
int64_t tn__categories_add(tn_categories *categories, const char *name,
                           size_t count);
/* Removes all but the first count names, after a failure. */
void tn__categories_truncate(tn_categories *categories, int64_t count);

#endif
