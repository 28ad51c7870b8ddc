/* options.h: reads the options of a call (<tenon/options.h>), which are the
 * optional arguments that PyTorch takes as keywords. */
#ifndef TN_LIB_BASE_OPTIONS_H
#define TN_LIB_BASE_OPTIONS_H

#include <base/platform.h>

#include <tenon/options.h>

/* Every struct of options begins with these members: the source text of the
 * options that the call sets, and the size of the struct. */
typedef struct tn__options_head {
    const char *given;
    size_t size;
} tn__options_head;

/* Returns all options of a call, with defaults for those not set. The result is
 * the struct of defaults, the caller's struct, or `room`, into which the two
 * are merged. Records an error and returns NULL if the options are invalid. */
const void *tn__options_resolve(const tn_options_type *type,
                                const void *options, void *room);
static inline const void *tn__options_of(const tn_options_type *type,
                                         const void *options, void *room)
{
    const tn__options_head *head = options;
    if (TN__LIKELY(!head || (head->given && !*head->given)))
        return type->defaults;
    return tn__options_resolve(type, options, room);
}

/* Records the error that tn_options_check_needs records, for options that are
 * not in a struct. */
tn_status tn__options_refuse_need(const char *call, const tn_option_need *need);

#endif
