/* csv.h: reads a CSV file into a table of numbers, for tn_csv_load and
 * tn_dataset_from_csv. */
#ifndef TN_LIB_IO_CSV_H
#define TN_LIB_IO_CSV_H

#include <tenon/io.h>

/* A table. If the requested dtype is a float, its cells are in `number`,
 * otherwise in `integer`. If labels were requested, the last column of the file
 * is in `label` and not counted in `columns`. */
typedef struct tn__csv_table {
    int64_t rows, columns;
    double *number;  /* owned: number[rows][columns], or NULL */
    int64_t *integer; /* owned: integer[rows][columns], or NULL */
    int64_t *label;  /* owned: label[rows], or NULL */
} tn__csv_table;

/* Checks the options, which are described by type, and reads the file. If
 * `label` is true, the last column contains labels. Error messages begin with
 * type->name. */
tn_status tn__csv_read(tn__csv_table *table, const tn_options_type *type,
                       const char *path, const tn_csv_load_options *options,
                       bool label);
void tn__csv_release(tn__csv_table *table);
/* Returns the cells as a tensor of dtype on the current device. The open scope
 * owns it. */
tn_tensor *tn__csv_tensor(const tn__csv_table *table, tn_dtype dtype);

/* ---- shared by csv.c, csv_number.c and categories.c --------------------- */

/* Parses a number of dtype from a string of `count` bytes, which are followed
 * by a NUL. Sets out->integer for an integer dtype, which must represent the
 * number exactly. Sets out->number for a float dtype, to which the number is
 * rounded. If the number is not in the range of dtype, or the string is not a
 * number, writes the reason to problem ("outside the range of uint8: \"300\"")
 * and returns false. */
enum { TN__CSV_PROBLEM = 160 };
typedef struct tn__csv_number {
    double number;
    int64_t integer;
} tn__csv_number;
bool tn__csv_parse(tn__csv_number *out, const char *text, size_t count,
                   tn_dtype dtype, char problem[TN__CSV_PROBLEM]);
/* Returns whether a dtype can represent the code of a category and all smaller
 * non-negative integers exactly. */
bool tn__csv_fits(int64_t integer, tn_dtype dtype);

bool tn__categories_check(const tn_categories *categories, const char *call);
/* Returns the code of the category with this name, which has `count` bytes.
 * Adds the category if the name is new. Returns a negative number if memory
 * runs out. */
int64_t tn__categories_add(tn_categories *categories, const char *name,
                           size_t count);
/* Removes all categories except the first `count`. Used after a failure. */
void tn__categories_truncate(tn_categories *categories, int64_t count);

#endif
