/* log.c: writes the log, either to stderr (TENON_LOG) or by a function of the
 * program (tn_log_set). */
#include <base/error.h>
#include <base/lock.h>
#include <base/plain.h>
#include <base/platform.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef void log_function(int level, const char *line, void *context);

/* Guards target and target_context, which are changed together. */
static tn__lock target_lock = TN__LOCK_INIT;
static log_function *target;
static void *target_context;

static _Atomic int level_now; /* log level: only lines of at most this level are
                               * written */
static pthread_once_t level_once = PTHREAD_ONCE_INIT;
static int level_env = -1; /* value of TENON_LOG; -1 if it is not set */

static void level_read(void)
{
    const char *text = tn__env("TENON_LOG");
    if (text) {
        char *end;
        long value = strtol(text, &end, 10);
        /* a value that is not a number, such as TENON_LOG=yes, means level 2 */
        level_env = end == text || *end ? 2
                    : value < 0         ? 0
                    : value > 3         ? 3
                                        : (int)value;
    }
    atomic_store(&level_now, level_env < 0 ? 0 : level_env);
}

void tn_log_set(void (*log)(int level, const char *line, void *context),
                void *context)
{
    pthread_once(&level_once, level_read);
    tn__lock_take(&target_lock);
    target = log;
    target_context = context;
    atomic_store(&level_now, level_env >= 0 ? level_env : log ? 2 : 0);
    tn__lock_give(&target_lock);
}

bool tn__log_enabled(int level)
{
    pthread_once(&level_once, level_read);
    return level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

void tn__log(int level, const char *format, ...)
{
    if (!tn__log_enabled(level))
        return;
    char line[TN__ERROR_BYTES];
    va_list args;
    va_start(args, format);
    tn__plain_vprint(line, sizeof line, format, args);
    va_end(args);
    tn__lock_take(&target_lock);
    log_function *log = target;
    void *context = target_context;
    tn__lock_give(&target_lock);
    if (log)
        log(level, line, context);
    else
        fprintf(stderr, "tenon: %s\n", line);
}
