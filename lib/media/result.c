/* result.c: checks the structs into which public functions write their
 * results. */
#include <media/result.h>

#include <string.h>

static size_t size_of(const void *out)
{
    size_t size;
    memcpy(&size, out, sizeof size);
    return size;
}

tn_status tn__result_check(const void *out, const char *type, size_t bytes,
                           const char *call, const char *argument)
{
    if (!out)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                                        "%s is NULL", argument);
    if (size_of(out) >= sizeof(size_t) && size_of(out) <= bytes)
        return TN_OK;
    return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                                    "%s->size is %zu; set it to sizeof(%s)",
                                    argument, size_of(out), type);
}

void tn__result_store(void *out, const void *from)
{
    const size_t head = sizeof(size_t);
    memcpy((char *)out + head, (const char *)from + head, size_of(out) - head);
}
