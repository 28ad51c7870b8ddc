/* by_hand.h: opens a plugin directly, without libtenon's plugin loader, and
 * gives it a small host table. The caller can change the version and size of
 * that table and hide optional functions of the plugin.
 *
 * A plugin and its host exchange tables of function pointers (tn_plugin and
 * tn_host in <tenon/plugin.h>). A slot is one function pointer of such a
 * table. */
#ifndef TN_CHECK_BY_HAND_H
#define TN_CHECK_BY_HAND_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* How to open a plugin. A field that is zero has its default value. */
typedef struct by_hand_how {
    const char *path;                       /* path of the plugin's file */
    const char *(*option)(const char *key); /* returns an option's value; NULL
                                               if no option is set */
    const char *mask; /* optional slots and extensions to treat as absent,
                         separated by commas: "buffer_map,conv"; must stay valid
                         while the plugin is used */
    uint32_t device;  /* index of the device to open */
    uint32_t host_major; /* major version in the host table; 0 means
                            TN_ABI_MAJOR */
    uint32_t host_size;  /* size in the host table in bytes; 0 means
                            sizeof(tn_host) */
    bool no_interpreter; /* if the plugin calls the host's interpreter, it gets
                            an error */
    /* Returns the host table to pass to the plugin; NULL to pass the normal
     * one. */
    const tn_host *(*wrap_host)(const tn_host *host, uint32_t bytes);
    /* Replaces functions in the plugin's table by wrappers. May be NULL. */
    void (*wrap)(tn_plugin *table);
    uint32_t group;      /* maximum work-group size for which programs are
                            planned; 0 means the device's own limit */
} by_hand_how;

typedef struct by_hand {
    const tn_plugin *plugin; /* the plugin's table without the functions that
                                by_hand_how.mask names; not owned */
    tn_plugin_device *device;
    tn_queue *queue;
    tn_device_info info;
    bool is_hostile; /* calls are made in an unusual floating-point state, which
                        by_hand_fpu(true) sets */
} by_hand;

/* Opens the plugin's file and calls its function tenon_plugin_v1. A process may
 * do this only once, because the file is never closed. On failure returns false
 * and by_hand_failure() returns the reason. */
bool by_hand_load(by_hand *h, const by_hand_how *how);
/* Opens a device and a queue on it. Returns false on failure. */
bool by_hand_open_device(by_hand *h, uint32_t device);
/* Opens the plugin, its device and a queue. Returns false on failure. */
bool by_hand_open(by_hand *h, const by_hand_how *how);
/* Closes the queue and the device. */
void by_hand_close(by_hand *h);

/* Returns the message that the plugin last passed to host->fail in the calling
 * thread. Returns "" if there was none since by_hand_forget. */
const char *by_hand_failure(void);
void by_hand_forget(void);
/* Returns how many planned launches were split into several kernels because
 * several work-groups reduce one row together. */
int64_t by_hand_shared(void);
/* Returns how many launches the plugin ran in the host's interpreter. */
int64_t by_hand_interpreted(void);

/* Returns whether this is the name of an optional slot or of an extension. */
bool by_hand_is_optional(const char *slot, size_t length);
/* Returns the i-th name of an optional slot or extension, or NULL after the
 * last one. */
const char *by_hand_optional(int i);

/* Sets the calling thread's floating-point state. If hostile is true, the state
 * rounds upward and flushes subnormals to zero. Otherwise it is the default
 * state. */
void by_hand_fpu(bool hostile);
/* Returns the control bits of the calling thread's floating-point state, which
 * a plugin must not change. */
uint64_t by_hand_fpu_bits(void);

/* Copies between host memory and a buffer, starting at byte `from` of the
 * buffer, and waits until the copy is complete. */
tn_status by_hand_copy(const by_hand *h, tn_buffer *buffer, uint64_t from,
                       void *memory, size_t bytes, bool to_device);

#endif
