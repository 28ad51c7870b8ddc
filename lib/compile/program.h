/* program.h: a capture as a program that can be replayed. */
#ifndef TN_LIB_COMPILE_PROGRAM_H
#define TN_LIB_COMPILE_PROGRAM_H

#include <compile/freeze.h>

/* An operand whose memory is another one in each replay: that of an input or of
 * a new output. */
typedef struct tn__move {
    tn_buffer **buffer; /* in the command */
    int64_t *offset;
    uint32_t unit, value;
    int64_t from; /* where element 0 is, in bytes from the value's origin */
} tn__move;

typedef struct tn__arena_base {
    const tn_buffer *buffer;
    int64_t offset; /* in bytes */
} tn__arena_base;

typedef struct tn__replayed {
    tn__capture *capture; /* owned; its record has the fused commands. step[] and
                           * use[] are not used any more */
    tn__record *record;   /* the commands that a replay submits: the record of the
                           * capture, or, in an instance, a copy */
    tn__move *move;       /* owned array, as the next ones */
    size_t move_count, move_room;
    uint32_t *written;    /* the external values and the inputs that the program
                           * writes */
    size_t written_count;
    uint32_t *outputs;    /* the values that are OUTPUTs, which each replay makes
                           * anew. Their member `index` is the index here */
    size_t output_count;
    int donor[TN_COMPILE_MAX_OUTPUTS]; /* donor[i]: 1 plus the index of a donated
                           * input in whose memory outputs[i] can be; 0 if there is
                           * none (donate.h) */
    tn_tensor *arena;     /* one reference; NULL if there are no temporaries */
    tn__arena_base base;  /* where the arena is that the commands use */
    tn__constants constants;
    tn__prepared_weights prepared;
    int64_t recorded, launches;
    int64_t repeats, copies, fills; /* calls that were removed before fusion */
    int64_t recomputed;   /* launches that compute values again */
    uint64_t arena_bytes, bound_bytes, eager_bytes;
    uint64_t peak_bytes;  /* of the recorded calls, without a change */
    char *text;           /* owned: the report (tn_compiled_text) */
} tn__replayed;

/* Options of tn_compile. */
typedef struct tn__replay_options {
    bool fuse, freeze;
    double memory;
    uint64_t donate;
} tn__replay_options;

/* Makes a program of a capture, which it takes over, also on failure. Records an
 * error and returns NULL if memory runs out or a kernel cannot be built. */
tn__replayed *tn__replayed_make(tn__capture *capture,
                                const tn__replay_options *options,
                                const char *name);
void tn__replayed_free(tn__replayed *program);

/* Returns whether instances of a program may run at the same time: it writes
 * nothing but its outputs and its arena. */
bool tn__replayed_is_shared(const tn__replayed *program);

/* Runs the program. The inputs have the dtypes, shapes and strides of those of
 * the capture. Bit i of `donated` says that an output may be in the memory of input
 * i, which nothing else uses. Stores new outputs in out[], owned by the open scope;
 * on failure out[] is all NULL. */
tn_status tn__replayed_run(tn__replayed *program, tn_tensor *const *in,
                           uint64_t donated, tn_tensor **out);

#endif
