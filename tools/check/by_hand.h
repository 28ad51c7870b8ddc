/* by_hand.h: a plugin opened without the loader, with a small host table:
 * whoever opens it chooses what the table says and which slots are seen. */
#ifndef TN_CHECK_BY_HAND_H
#define TN_CHECK_BY_HAND_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* How a plugin is opened; zero is the usual way. */
typedef struct by_hand_how {
    const char *path;                       /* of its file */
    const char *(*option)(const char *key); /* NULL: no option is set */
    const char *mask;    /* "slot,conv": optional slots and extensions taken
                            for absent; lent as long as the plugin is used */
    uint32_t device;     /* which one */
    uint32_t host_major; /* what the table says; 0: TN_ABI_MAJOR */
    uint32_t host_size;  /* likewise; 0: sizeof(tn_host) */
    bool no_interpreter; /* the plugin may not run the host's */
    /* What stands between: the table that the plugin is given, and the slots
     * of its own; NULL: nothing does. */
    const tn_host *(*lend_host)(const tn_host *host, uint32_t bytes);
    void (*dress)(tn_plugin *table);
    uint32_t group;      /* programs are planned for groups of at most so many
                            work-items; 0: as many as the device has */
} by_hand_how;

typedef struct by_hand {
    const tn_plugin *plugin; /* lent: the plugin's, or its masked copy */
    tn_plugin_device *device;
    tn_queue *queue;
    tn_device_info info;
    bool is_hostile; /* primitive_case calls with by_hand_fpu(true) */
} by_hand;

/* Opens the file and asks for its table; in a process once, and never closed.
 * False with by_hand_failure() set. */
bool by_hand_load(by_hand *h, const by_hand_how *how);
/* Then its device, and a queue. */
bool by_hand_open_device(by_hand *h, uint32_t device);
bool by_hand_open(by_hand *h, const by_hand_how *how); /* both */
void by_hand_close(by_hand *h); /* the queue and the device */

/* The calling thread's last text given to host->fail; "" if there is none
 * since by_hand_forget. */
const char *by_hand_failure(void);
void by_hand_forget(void);
/* How many plans of programs had several steps: rows shared by groups. */
int64_t by_hand_shared(void);
/* How often the plugin ran the host's interpreter. */
int64_t by_hand_interpreted(void);

/* Is this the name of an optional slot, or of an extension? */
bool by_hand_is_optional(const char *slot, size_t length);
/* The i-th of those names, NULL after the last one. */
const char *by_hand_optional(int i);

/* The calling thread's floating-point state: that of a program that rounds
 * upward and has switched subnormals off, or the usual one. */
void by_hand_fpu(bool hostile);
/* The state's control bits, of which none may change. */
uint64_t by_hand_fpu_bits(void);

/* Copies between a buffer, from this byte, and host memory, and waits. */
tn_status by_hand_copy(const by_hand *h, tn_buffer *buffer, uint64_t from,
                       void *memory, size_t bytes, bool to_device);

#endif
