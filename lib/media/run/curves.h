/* curves.h: curves in memory. */
#ifndef TN_LIB_MEDIA_RUN_CURVES_H
#define TN_LIB_MEDIA_RUN_CURVES_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/curves.h>
#include <tenon/tensor.h>

typedef struct tn__curve {
    char *run, *tag; /* owned */
    double *step, *value, *time; /* owned; count elements */
    int64_t count, room;
} tn__curve;

typedef struct tn__curve_list {
    tn__curve *curve; /* owned */
    int count, room;
    int latest;       /* the curve that got the latest point */
} tn__curve_list;

/* Returns the list of a tn_curves, or NULL with an error recorded. */
const tn__curve_list *tn__curves_list(const tn_curves *curves,
                                      const char *call);

/* Adds a point to the curve of run and tag, which is made if there is none.
 * False if memory runs out; no error is recorded. */
bool tn__curve_list_add(tn__curve_list *list, const char *run, const char *tag,
                        size_t tag_bytes, double step, double value,
                        double time);
void tn__curve_list_free(tn__curve_list *list);

/* Adds the scalars of the event file in data. path is for messages. */
tn_status tn__curves_read_events(tn__curve_list *list, const char *run,
                                 const char *path, const unsigned char *data,
                                 size_t bytes);
/* Returns whether data begins like an event file. */
bool tn__curves_are_events(const unsigned char *data, size_t bytes);

#endif
