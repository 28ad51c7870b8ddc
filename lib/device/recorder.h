/* recorder.h: records the work that a thread submits to a device, so that it
 * can be replayed: the same programs over the same memory. <tenon/graph.h>
 * describes it for users. */
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
    /* Owned references to the memory that the commands use. */
    void **kept;
    size_t kept_count, kept_room;
    void (*drop)(void *kept);
    /* Draws of random numbers, in order: as recorded, and of the current
     * replay. */
    struct tn__draw {
        uint64_t seed, call, seed_now, call_now;
    } *draws; /* owned */
    size_t draw_count, draw_room;
    /* What the device has captured, and the plugin's table used. */
    tn__segment *segments; /* owned */
    const tn_graph_replay_extension *extension;
} tn__record;

/* Begins to record; drop releases the objects of tn__record_keep. NULL with
 * TN_ERR_MEMORY, or with TN_ERR_STATE if this thread is recording already. */
tn__record *tn__record_begin(tn_device *device, void (*drop)(void *kept));
/* Ends recording. */
void tn__record_end(tn__record *record);
/* Lets the device capture the commands if it can (CUDA graphs). instead: a
 * record whose captured segments are updated in place where possible; after
 * that it can only be freed. NULL: none. */
void tn__record_instantiate(tn__record *record, tn__record *instead);
/* The number of calls of the device in a replay. */
int64_t tn__record_calls(const tn__record *record);
/* Waits for the device if it has captured anything. NULL is allowed. */
void tn__record_free(tn__record *record);

/* Replays the record. draw is called for each recorded random draw, and
 * launches get the new numbers. */
tn_status tn__record_run(tn__record *record,
                         void (*draw)(uint64_t *seed, uint64_t *call));

/* ---- while this thread records ------------------------------------------ */

/* Keeps an object until the record is freed. True: the record now owns the
 * caller's reference. False: the object was kept already, or memory ran out,
 * with the error recorded. */
bool tn__record_keep(void *object);
/* Records a random draw. Launches that have these numbers as parameters (the
 * operator that draws, its gradient) get new ones at each replay. */
void tn__record_drew(uint64_t seed, uint64_t call);

/* Records work of a kind (work.h). args has `bytes` bytes and no pointers
 * except to buffers. */
tn_status tn__record_work(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what);
tn_status tn__record_launch(tn_device *device, const tn_program *program,
                            tn_built *built, const tn_launch *launch,
                            const char *what);

/* TN_ERR_STATE, recorded, if this thread records on the device. For host
 * accesses to its memory, which a replay would not repeat. */
tn_status tn__record_refuse_host(const tn_device *device, const char *what);

#endif
