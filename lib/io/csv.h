/* csv.h: a table of cells, as csv_load and dataset_from_csv want it. */
#ifndef TN_LIB_IO_CSV_H
#define TN_LIB_IO_CSV_H

#include <tenon/io.h>

/* Cells are float64 where the dtype asked for is one of floats, else int64;
 * label, where it was wanted, is the last column and no cell. */
typedef struct tn__csv_table {
    int64_t rows, columns;
    double *number;  /* owned; rows x columns, or NULL */
    int64_t *integer; /* owned; rows x columns, or NULL */
    int64_t *label;  /* owned; rows, or NULL */
} tn__csv_table;

/* Reads path; options, which are of this type, are checked here. Messages begin
 * with its call. */
tn_status tn__csv_read(tn__csv_table *table, const tn_options_type *type,
                       const char *path, const tn_csv_load_options *options,
                       bool label);
void tn__csv_release(tn__csv_table *table);
/* The cells as a tensor of dtype on the current device, in the open scope. */
tn_tensor *tn__csv_tensor(const tn__csv_table *table, tn_dtype dtype);

/* ---- between its files ---------------------------------------------------- */

/* A number in a text of count bytes behind which a 0 stands: exact or as near as
 * dtype has it, and within its range. Else false, and why ("outside the
 * range of uint8: \"300\"") in problem. Only one of the two outs is set. */
enum { TN__CSV_PROBLEM = 160 };
typedef struct tn__csv_number {
    double number;
    int64_t integer;
} tn__csv_number;
bool tn__csv_parse(tn__csv_number *out, const char *text, size_t count,
                   tn_dtype dtype, char problem[TN__CSV_PROBLEM]);
/* Does a dtype have the number of a category, and all numbers before it? */
bool tn__csv_fits(int64_t integer, tn_dtype dtype);

bool tn__categories_check(const tn_categories *categories, const char *call);
/* The number of a name of count bytes, new or not; negative without memory. */
int64_t tn__categories_add(tn_categories *categories, const char *name,
                           size_t count);
/* Back to so many, after a failure. */
void tn__categories_truncate(tn_categories *categories, int64_t count);

#endif
