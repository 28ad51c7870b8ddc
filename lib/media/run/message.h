/* message.h: writes protocol buffer messages into memory. A message within
 * another is written first, and then put into it. */
#ifndef TN_LIB_MEDIA_RUN_MESSAGE_H
#define TN_LIB_MEDIA_RUN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn__message {
    unsigned char *data; /* owned */
    size_t count, room;
    bool failed; /* memory ran out; later calls do nothing */
} tn__message;

/* Each function below writes one field. */
void tn__message_whole(tn__message *m, unsigned field, uint64_t value);
void tn__message_double(tn__message *m, unsigned field, double value);
void tn__message_float(tn__message *m, unsigned field, float value);
void tn__message_bytes(tn__message *m, unsigned field, const void *data,
                       size_t count);
void tn__message_text(tn__message *m, unsigned field, const char *text);
/* Writes count doubles, packed. */
void tn__message_doubles(tn__message *m, unsigned field, const double *values,
                         size_t count);
/* Puts a message into m, and frees it. */
void tn__message_put(tn__message *m, unsigned field, tn__message *inner);

void tn__message_free(tn__message *m);

#endif
