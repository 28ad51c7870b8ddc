/* options.h: options of a call, for the rooms above: the inline part of
 * <tenon/options.h>, and the list of the library's types of options. */
#ifndef TN_LIB_BASE_OPTIONS_H
#define TN_LIB_BASE_OPTIONS_H

#include <base/platform.h>

#include <tenon/options.h>

/* Every struct of options begins with these. */
typedef struct tn__options_head {
    const char *given;
    size_t size;
} tn__options_head;

/* The options of a call, whole: its defaults, what the caller gave, or room
 * filled with both. NULL, with an error, for what is refused. */
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

/* The words of tn_options_check_needs, for options that are not in a struct. */
tn_status tn__options_refuse_need(const char *call, const tn_option_need *need);

#endif
