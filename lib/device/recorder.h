/* recorder.h: records the work that a thread submits to a device, so that the
 * same programs can be replayed over the same memory (as torch.cuda.CUDAGraph).
 * <tenon/graph.h> describes it for users. */
#ifndef TN_LIB_DEVICE_RECORD_H
#define TN_LIB_DEVICE_RECORD_H

#include <base/context.h>
#include <device/device.h>

typedef struct tn__command tn__command;
typedef struct tn__segment tn__segment;

typedef struct tn__record {
    tn_device *device;
    tn__command *first, **last; /* owned; commands in the order of submission */
    int64_t count;
    /* Owned references to the memory that the commands use, which `drop`
     * releases. */
    void **kept;
    size_t kept_count, kept_room;
    void (*drop)(void *kept);
    /* The draws of random numbers, in order, with seed and call number as
     * recorded and as used in the current replay. */
    struct tn__draw {
        uint64_t seed, call, seed_now, call_now;
    } *draws; /* owned */
    size_t draw_count, draw_room;
    /* Runs of commands that the device captured, and the extension table that
     * captured them. */
    tn__segment *segments; /* owned */
    const tn_graph_replay_extension *extension;
} tn__record;

/* Begins to record. `drop` releases the objects of tn__record_keep. Returns
 * NULL with TN_ERR_MEMORY, or with TN_ERR_STATE if this thread is recording
 * already. */
tn__record *tn__record_begin(tn_device *device, void (*drop)(void *kept));
/* Ends the recording that this thread makes. */
void tn__record_end(tn__record *record);
/* Lets the device capture the commands if it can (CUDA graphs). `instead` is a
 * record whose captured segments are updated in place where possible, or NULL.
 * After the call, `instead` can only be freed. */
void tn__record_instantiate(tn__record *record, tn__record *instead);
/* Returns how many calls of the plugin a replay makes. */
int64_t tn__record_calls(const tn__record *record);
/* Frees a record. If the device captured commands, waits for the device first.
 * record may be NULL. */
void tn__record_free(tn__record *record);

/* Replays the record. `draw` is called for each recorded random draw, and sets
 * the seed and call number that the launches get. */
tn_status tn__record_run(tn__record *record,
                         void (*draw)(uint64_t *seed, uint64_t *call));

/* ---- while this thread records ------------------------------------------ */

/* Keeps an object until the record is freed. Returns true if the record now
 * owns the caller's reference. Returns false if the object was kept already, or
 * if memory ran out, with the error recorded. */
bool tn__record_keep(void *object);
/* Records a random draw. Launches that have this seed and call number as
 * parameters (the operator that draws, its gradient) get new ones at each
 * replay. */
void tn__record_drew(uint64_t seed, uint64_t call);

/* Records work of a kind of work.h. args is its argument struct of `bytes`
 * bytes, which has no pointers except to buffers. */
tn_status tn__record_work(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what);
tn_status tn__record_launch(tn_device *device, const tn_program *program,
                            tn_built *built, const tn_launch *launch,
                            const char *what);

/* Refuses a host access to the device's memory while this thread records on the
 * device, since a replay would not repeat the access: records and returns
 * TN_ERR_STATE. */
tn_status tn__record_refuse_host(const tn_device *device, const char *what);

#endif
