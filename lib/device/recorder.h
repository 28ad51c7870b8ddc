/* recorder.h: records the work that a thread submits to a device, so that the
 * same programs can be replayed over the same memory (as torch.cuda.CUDAGraph).
 * <tenon/graph.h> is the public interface. */
#ifndef TN_LIB_DEVICE_RECORD_H
#define TN_LIB_DEVICE_RECORD_H

#include <base/context.h>
#include <device/device.h>

/* The largest number of late parameters (tn_late_number) of one launch. */
enum { TN__LATE_MAX = 16 };

typedef struct tn__command tn__command;
typedef struct tn__segment tn__segment;

struct tn__late_param {
    uint32_t param;     /* number of the launch's parameter */
    const double *from; /* the program's number */
};

/* What the host does for an object at each replay, as tn_graph_host of
 * <tenon/graph.h> says. version and take_back may be NULL. */
typedef struct tn__host_calls {
    int64_t (*version)(const void *object);
    tn_status (*advance)(void *object);
    void (*take_back)(void *object);
    bool returns;
} tn__host_calls;

typedef struct tn__record {
    tn_device *device;
    const char *recorder, *replayer; /* names of the calls, for messages:
                                      * "graph_record", "graph_replay" */
    tn__command *first, **last; /* list of the commands in the order of
                                 * submission, owned */
    int64_t count;
    /* The tensors' memory that the commands use. The record owns a reference to
     * each object and releases it with `drop`. */
    struct tn__kept {
        void *object;
        bool made; /* true if the object was made during the recording */
    } *kept; /* owned array */
    size_t kept_count, kept_room;
    void (*drop)(void *kept);
    /* During a recording the memory of a freed value is used for later values.
     * An entry says that the object with index `kept` has a new value for all
     * commands with an index of at least `at`. Entries are sorted by `at`. */
    struct tn__reuse {
        size_t kept;
        int64_t at;
    } *reuses; /* owned array */
    size_t reuse_count, reuse_room;
    /* The random draws of the recording, in order. A draw is one call of the
     * random number generator, identified by a seed and the number of the call.
     * seed and call are the recorded values, seed_now and call_now the values
     * of the current replay. */
    struct tn__draw {
        uint64_t seed, call, seed_now, call_now;
    } *draws; /* owned array */
    size_t draw_count, draw_room;
    /* The late parameters of the launch that is recorded next. */
    struct tn__late_param late[TN__LATE_MAX];
    uint32_t late_count;
    /* The objects that compute numbers for each replay (tn_graph_on_replay). */
    struct tn__host_part {
        void *object; /* one reference */
        tn__host_calls call;
        int64_t version; /* of the object when it was recorded */
    } *hosts; /* owned array */
    size_t host_count, host_room;
    /* The segments that the device captured (command.h), and the plugin's
     * functions that captured them. */
    tn__segment *segments; /* linked list, owned */
    const tn_graph_replay_extension *extension;
    const tn_launch_list_extension *lists; /* the functions that prepared
                                            * launches; NULL if none are */
} tn__record;

/* Begins to record the work that this thread submits to the device. `recorder`
 * and `replayer` are the names of the calls that record and replay the work, with
 * static lifetime. `drop` releases the objects that are passed to tn__record_keep.
 * Returns NULL with TN_ERR_STATE if this thread is already recording, or with
 * TN_ERR_MEMORY if memory runs out. */
tn__record *tn__record_begin(tn_device *device, const char *recorder,
                             const char *replayer, void (*drop)(void *kept));
/* Ends the recording of this thread. */
void tn__record_end(tn__record *record);
/* Lets the device capture the recorded commands, if it can (CUDA graphs), and
 * prepare launches for many runs (extension "launch-list"). The operands of all
 * commands have memory.
 * `instead` is an older record or NULL. If possible, its captured segments are
 * updated and reused, which is faster than capturing new ones. After the call,
 * `instead` can only be freed. */
void tn__record_instantiate(tn__record *record, tn__record *instead);
/* Returns how many calls of the plugin one replay makes. */
int64_t tn__record_calls(const tn__record *record);
/* Frees a record, which may be NULL. If the device captured commands, waits for
 * the device first. */
void tn__record_free(tn__record *record);

/* Lets each replay of the record that this thread makes call call->advance(object)
 * first. Takes a reference to the object. Returns 1 if the object was given
 * before, else 0, or a negative status. */
int tn__record_host(void *object, const tn__host_calls *call);
/* Returns whether the host parts of a record are current. */
bool tn__record_is_current(const tn__record *record);
/* Returns whether they can never be current again. */
bool tn__record_is_over(const tn__record *record);
/* Undoes the last `advance` of each host part. */
void tn__record_take_back(const tn__record *record);

/* Replays the record: calls the host parts' `advance`, then submits the commands.
 * Calls `draw` once for each recorded random draw; `draw`
 * sets the seed and call number that the replayed launches use. */
tn_status tn__record_run(tn__record *record,
                         void (*draw)(uint64_t *seed, uint64_t *call));

/* ---- while this thread records ------------------------------------------ */

/* Keeps an object alive until the record is freed. `made` says whether the
 * object was made during the recording. Returns true if the record has taken
 * over the caller's reference. Returns false if the record already keeps the
 * object. Also returns false, with the error recorded, if memory ran out. */
bool tn__record_keep(void *object, bool made);
/* Returns whether the record keeps the object. */
bool tn__record_keeps(const void *object);
/* Records that the object with index `kept` has a new value for the commands
 * that follow. */
void tn__record_reuse(size_t kept);
/* Records that a random draw was made. The launches that have this seed and
 * call number as parameters (the launches of the operator and of its gradient)
 * get new values at each replay. */
void tn__record_drew(uint64_t seed, uint64_t call);

/* tn__record_late tells the recorder that each replay reads parameter `param`
 * of the next launch from *from. tn__record_late_begin discards these
 * parameters if the launch that they were for did not happen. A thread that
 * records nothing may call both. */
void tn__record_late_begin(void);
void tn__record_late(uint32_t param, const double *from);

/* Records one submission of work. `kind` is a constant of work.h and args the
 * kind's argument struct, of `bytes` bytes. The struct must contain no pointers
 * except to buffers. */
tn_status tn__record_work(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what);
tn_status tn__record_launch(tn_device *device, const tn_program *program,
                            tn_built *built, const tn_launch *launch,
                            const char *what);

/* Makes a command that launches a program, with copies of all that `launch`
 * points to. The caller owns it and frees it with tn__free. Can be called without
 * a recording. */
tn__command *tn__command_launch(const tn_program *program, tn_built *built,
                                const tn_launch *launch, const char *what);
/* Returns a copy of a command with its epilogue and the launches of its list,
 * which the device has not prepared. The caller owns it. NULL with the error
 * recorded if memory runs out. */
tn__command *tn__command_copy(const tn__command *command);
/* Frees a command that has not been prepared, its epilogue, and the launches of
 * its list. The command may be NULL. */
void tn__command_free(tn__command *command);

/* If this thread is recording work of the device, rejects an access of the host
 * to the device's memory: records and returns TN_ERR_STATE. A replay would not
 * repeat the access. */
tn_status tn__record_refuse_host(const tn_device *device, const char *what);

#endif
