/* error_handler.c: calls the program's error handler (tn_error_handler_set) at
 * the place where an error arises. */
#include <base/context.h>
#include <base/error.h>
#include <base/lock.h>

#include <stdatomic.h>

static tn__lock lock = TN__LOCK_INIT; /* guards `handler` and
                                       * `handler_context` */
static tn_error_handler handler;
static void *handler_context;
static atomic_bool is_set;

void tn_error_handler_set(tn_error_handler set, void *context)
{
    tn__lock_take(&lock);
    handler = set;
    handler_context = context;
    atomic_store(&is_set, set != NULL);
    tn__lock_give(&lock);
}

void tn__handler_mute(void)
{
    tn__me.handler_muted++;
}

void tn__handler_unmute(void)
{
    tn__me.handler_muted--;
}

bool tn__handler_is_active(void)
{
    return atomic_load_explicit(&is_set, memory_order_acquire) &&
           !tn__me.handler_muted;
}

void tn__handler_call(tn_status code, const char *message)
{
    tn__lock_take(&lock);
    tn_error_handler call = handler;
    void *context = handler_context;
    tn__lock_give(&lock);
    if (!call)
        return;
    tn__me.handler_muted++; /* errors within the handler must not call the
                             * handler again */
    call(code, message, context);
    tn__me.handler_muted--;
}
