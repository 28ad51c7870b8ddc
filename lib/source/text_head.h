/* text_head.h: prints the beginning and the end of every kernel's source, and
 * finds the .cl files of lib/source by name. */
#ifndef TN_LIB_SOURCE_TEXT_HEAD_H
#define TN_LIB_SOURCE_TEXT_HEAD_H

#include <base/error.h>
#include <source/source.h>

const char *tn__source_dtype(unsigned dtype);

/* Appends the beginning of every kernel's source: the definitions of the
 * dialect, the instructions, the storage types, and the type of the argument
 * words. */
void tn__source_head(tn__text *text, const tn_target *target, bool is_wide,
                     bool in_buffer, uint32_t words);

/* Returns the last parameters of a kernel as C code: its argument words and, in
 * plain C, the index of the work-group and the number of work-groups. */
const char *tn__source_parameters(const tn_target *target, bool in_buffer);
/* Returns the name of the function that the plugin calls. In plain C, also
 * appends that function, which runs a range of the work-groups of `kernel`. */
const char *tn__source_entry(tn__text *text, const tn_target *target,
                             const tn_plan *plan, bool in_buffer,
                             const char *kernel);

/* Prints the kernel source of a primitive (a matrix product, scan, sort,
 * scatter or convolution). tn__print calls it if its argument `program` is
 * NULL. */
tn_status tn__print_primitive(const tn_target *target, const tn_plan *plan,
                              tn_source *source);

/* The code of attention in the low bits of tn_plan.variant, where each
 * primitive has a code. */
#define TN__PLAN_ATTENTION 15
tn_status tn__print_attention(const tn_target *target, const tn_plan *plan,
                              tn_source *source);

/* Returns the contents of a .cl file of lib/source by its file name; NULL if
 * there is no such file. */
const char *tn__source_text(const char *name);

#endif
