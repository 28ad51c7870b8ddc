/* recorder.h: the work that a thread gives to a device, kept so that it can be
 * given again: the same programs over the same memory. What is said of it to
 * users is in <tenon/graph.h>. */
#ifndef TN_LIB_DEVICE_RECORD_H
#define TN_LIB_DEVICE_RECORD_H

#include <base/context.h>
#include <device/device.h>

typedef struct tn__command tn__command;
typedef struct tn__segment tn__segment;

typedef struct tn__record {
    tn_device *device;
    tn__command *first, **last; /* owned; in the order of the queue */
    int64_t count;
    /* Owned references: memory that the commands use. */
    void **kept;
    size_t kept_count, kept_room;
    void (*drop)(void *kept);
    /* Draws of random numbers, in their order, and those of a replay. */
    struct tn__draw {
        uint64_t seed, call, seed_now, call_now;
    } *draws; /* owned */
    size_t draw_count, draw_room;
    /* What the device has recorded itself, by which table of the plugin. */
    tn__segment *segments; /* owned */
    const tn_graph_replay_extension *extension;
} tn__record;

/* Begins; drop gives back what tn__record_keep was told of. NULL:
 * TN_ERR_MEMORY; TN_ERR_STATE while this thread records already. */
tn__record *tn__record_begin(tn_device *device, void (*drop)(void *kept));
/* Ends: what the thread does now is not recorded. */
void tn__record_end(tn__record *record);
/* Lets the device record the commands itself, where it can: as many as it may in
 * the place of what it recorded for `instead`, which is of no more use then but
 * for tn__record_free; NULL: for none. */
void tn__record_instantiate(tn__record *record, tn__record *instead);
/* Calls of the device that a run makes. */
int64_t tn__record_calls(const tn__record *record);
/* Waits for the device if it has recorded anything. NULL is welcome. */
void tn__record_free(tn__record *record);

/* Gives it all to the device again. As many numbers are drawn as were then, and
 * launches get the new ones. */
tn_status tn__record_run(tn__record *record,
                         void (*draw)(uint64_t *seed, uint64_t *call));

/* ---- while this thread records ------------------------------------------ */

/* True: it was not among those kept, and the caller's reference is now. False
 * also if memory runs out: then the error is recorded. */
bool tn__record_keep(void *object);
/* Launches may take these numbers: the operator that draws, its gradient. */
void tn__record_drew(uint64_t seed, uint64_t call);

/* A command of work was given: of which kind (work.h). args of so many bytes, which hold no pointer but to buffers. */
tn_status tn__record_work(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what);
tn_status tn__record_launch(tn_device *device, const tn_program *program,
                            tn_built *built, const tn_launch *launch,
                            const char *what);

/* TN_ERR_STATE, recorded, if what the thread is about to do would not be done
 * again: the device's memory is touched by the host. */
tn_status tn__record_refuse_host(const tn_device *device, const char *what);

#endif
