/* text_head.h: the beginning and the end of every printed text, and the texts
 * of lib/source by name. */
#ifndef TN_LIB_SOURCE_TEXT_HEAD_H
#define TN_LIB_SOURCE_TEXT_HEAD_H

#include <base/error.h>
#include <source/source.h>

const char *tn__source_dtype(unsigned dtype);

/* Appends the beginning of every text: the dialect, the instructions, the
 * storage types and the type of the argument words. */
void tn__source_head(tn__text *text, const tn_target *target, bool is_wide,
                     bool in_buffer, uint32_t words);

/* The last parameters of a kernel: its argument words. In plain C the number of
 * the work-group and their count follow. */
const char *tn__source_parameters(const tn_target *target, bool in_buffer);
/* Returns the name of the function that the plugin calls. In plain C it appends
 * that function, which runs a range of work-groups of `kernel`. */
const char *tn__source_entry(tn__text *text, const tn_target *target,
                             const tn_plan *plan, bool in_buffer,
                             const char *kernel);

/* primitive/: prints the text of a primitive (tn__print without a program). */
tn_status tn__print_primitive(const tn_target *target, const tn_plan *plan,
                              tn_source *source);

/* The primitive number in the variant of an attention plan, which
 * print_attention.c prints. */
#define TN__PLAN_ATTENTION 15
tn_status tn__print_attention(const tn_target *target, const tn_plan *plan,
                              tn_source *source);

/* The text of a .cl file of lib/source by its file name; NULL if there is
 * none. */
const char *tn__source_text(const char *name);

#endif
