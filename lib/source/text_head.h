/* text_head.h: what every printed text begins and ends with, and the parts of
 * lib/source by name. */
#ifndef TN_LIB_SOURCE_TEXT_HEAD_H
#define TN_LIB_SOURCE_TEXT_HEAD_H

#include <base/error.h>
#include <source/source.h>

const char *tn__device_dtype(unsigned dtype);

/* What every text begins with, up to the type of the argument words. */
void tn__device_head(tn__text *text, const tn_target *target, bool is_wide,
                     bool in_buffer, uint32_t words);

/* The last parameters of a kernel, its words; in plain C the group's number
 * follows. */
const char *tn__device_parameters(const tn_target *target, bool in_buffer);
/* In plain C: the function that runs a range of groups of this kernel. Returns
 * the name of what is called. */
const char *tn__device_entry(tn__text *text, const tn_target *target,
                             const tn_plan *plan, bool in_buffer,
                             const char *kernel);

/* primitive.c: tn__print where there is no program. */
tn_status tn__print_primitive(const tn_target *target, const tn_plan *plan,
                              tn_source *source);

/* print_attention.c: the same for plans whose variant has this primitive. */
#define TN__PLAN_ATTENTION 15
tn_status tn__print_attention(const tn_target *target, const tn_plan *plan,
                              tn_source *source);

/* A part of lib/source by its file's name; NULL if there is none. */
const char *tn__device_text_of(const char *name);

#endif
