/* by_hand.h: opens a plugin without the loader, with a small host table. The
 * caller chooses the version and size of the table and which optional slots are
 * hidden. */
#ifndef TN_CHECK_BY_HAND_H
#define TN_CHECK_BY_HAND_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* How to open a plugin. Zero fields are the defaults. */
typedef struct by_hand_how {
    const char *path;                       /* of its file */
    const char *(*option)(const char *key); /* NULL: no option is set */
    const char *mask; /* "slot,conv": optional slots and extensions treated as
                         absent; borrowed while the plugin is used */
    uint32_t device;  /* device index */
    uint32_t host_major; /* major version of the host table; 0: TN_ABI_MAJOR */
    uint32_t host_size;  /* size of the host table; 0: sizeof(tn_host) */
    bool no_interpreter; /* the plugin may not run the host's interpreter */
    /* Wrappers around the host table that the plugin is given, and around the
     * plugin's slots; NULL: none. */
    const tn_host *(*wrap_host)(const tn_host *host, uint32_t bytes);
    void (*wrap)(tn_plugin *table);
    uint32_t group;      /* programs are planned for groups of at most so many
                            work-items; 0: as many as the device has */
} by_hand_how;

typedef struct by_hand {
    const tn_plugin *plugin; /* borrowed: the plugin's, or its masked copy */
    tn_plugin_device *device;
    tn_queue *queue;
    tn_device_info info;
    bool is_hostile; /* primitive_case calls with by_hand_fpu(true) */
} by_hand;

/* Opens the file and calls tenon_plugin_v1. Only once in a process; the file is
 * never closed. False with by_hand_failure() set. */
bool by_hand_load(by_hand *h, const by_hand_how *how);
/* Opens a device and a queue of it. */
bool by_hand_open_device(by_hand *h, uint32_t device);
bool by_hand_open(by_hand *h, const by_hand_how *how); /* both of the above */
void by_hand_close(by_hand *h); /* closes the queue and the device */

/* The last text that the calling thread passed to host->fail; "" if there is
 * none since by_hand_forget. */
const char *by_hand_failure(void);
void by_hand_forget(void);
/* How many plans of programs had several steps, because work-groups share
 * rows. */
int64_t by_hand_shared(void);
/* How many launches the plugin ran by the host's interpreter. */
int64_t by_hand_interpreted(void);

/* Is this the name of an optional slot, or of an extension? */
bool by_hand_is_optional(const char *slot, size_t length);
/* The i-th of those names, NULL after the last one. */
const char *by_hand_optional(int i);

/* Sets the calling thread's floating-point state: rounding upward with
 * subnormals flushed to zero, or the default. */
void by_hand_fpu(bool hostile);
/* The control bits of that state. A plugin must not change any. */
uint64_t by_hand_fpu_bits(void);

/* Copies between host memory and a buffer from this byte on, and waits. */
tn_status by_hand_copy(const by_hand *h, tn_buffer *buffer, uint64_t from,
                       void *memory, size_t bytes, bool to_device);

#endif
