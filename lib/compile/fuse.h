/* fuse.h: decides which launches of a capture become one launch, and puts the
 * steps into a valid order. */
#ifndef TN_LIB_COMPILE_FUSE_H
#define TN_LIB_COMPILE_FUSE_H

#include <compile/space.h>
#include <kernel/merge.h>

/* Launches that become one launch. A group of one step is not changed. */
typedef struct tn__group {
    size_t step[TN__MERGE_MAX_PARTS]; /* the steps, in an order in which they can
                                       * run */
    int count;
    bool can_fuse;        /* false: part and cut are not set */
    tn__part part[TN__MERGE_MAX_PARTS];
    tn__cut cut;
    const char *refused;  /* why it is not fused with the producer of an input;
                           * NULL if it is, or has none */
    size_t refused_step;  /* the last step of that producer */
    struct tn__group *after; /* a group that the plugin applies to the result of
                              * this group's only step (epilogue.h), owned;
                              * NULL if there is none */
    uint8_t after_of[TN_MAX_NDIM]; /* dimension d of the space of `after` is a
                                    * part of dimension after_of[d] of the
                                    * result */
} tn__group;

/* The groups of a capture, in an order in which they can run. */
typedef struct tn__grouping {
    tn__group **group; /* owned */
    size_t count;
} tn__grouping;

/* Fills *grouping with groups of one step each, or, if `fuse` is true, with
 * fused ones. Steps whose results nothing reads are left out. If the temporary
 * values would need more than `limit` bytes at one time, less is fused. Records an
 * error and returns false if memory runs out. The caller calls
 * tn__grouping_release in any case. */
bool tn__group_steps(const tn__capture *capture, bool fuse, uint64_t limit,
                     tn__grouping *grouping);
void tn__grouping_release(tn__grouping *grouping);
/* Frees a group, which may be NULL. */
void tn__group_free(tn__group *group);

/* Makes the command that runs a group of several steps. Returns NULL without an
 * error if the group's kernels cannot be merged, and with the error recorded if
 * that fails. The caller owns the command, whose operands have the memory of the
 * recorded steps. value[i] is the value of its i-th access (access.h). */
tn__command *tn__group_command(const tn__capture *capture,
                               const tn__group *group, tn_device *device,
                               uint32_t value[TN__ACCESS_MAX]);

#endif
