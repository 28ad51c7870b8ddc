/* options.c: registers the options types of this library with libtenon, so that
 * tn_options_init works for them. */
#include <tenon/options.h>

/* Start and end of the section in which TN_OPTIONS_TYPE puts pointers to option
 * types. */
extern const tn_options_type *const __start_tn_options[]
    __attribute__((weak, visibility("hidden")));
extern const tn_options_type *const __stop_tn_options[]
    __attribute__((weak, visibility("hidden")));

__attribute__((constructor)) static void add_types(void)
{
    static tn_options_list list;
    list.first = __start_tn_options;
    list.end = __stop_tn_options;
    tn_options_add_list(&list);
}
