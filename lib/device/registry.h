/* registry.h: the plugins that were found, and the state of each. For the files
 * of this room only.
 *
 *   registry.c        the list of plugins
 *   plugin_search.c   folders -> candidates, with their manifests (manifest.c)
 *   plugin_loader.c   candidate -> function table, or why not
 *   spec.c            text of TENON_DEVICE -> candidates to try
 *   device.c          function table -> open device
 *   current.c         the current device of a thread
 *   probe.c           queries a plugin in a child process; report.c: all
 */
#ifndef TN_LIB_DEVICE_REGISTRY_H
#define TN_LIB_DEVICE_REGISTRY_H

#include <base/error.h>
#include <base/lock.h>
#include <device/device.h>

#include <limits.h>

#define TN__MAX_PLUGINS 32
#define TN__NAME_BYTES 32
#define TN__REASON_BYTES 512

/* tn_<name>.conf beside tn_<name>.so: lines of key=value, '#' comments. Unknown
 * keys are ignored, for later versions. */
typedef struct tn__manifest {
    bool present;
    char name[TN__NAME_BYTES];
    int32_t kind;     /* TN_KIND_...; -1: not given */
    int32_t priority; /* `auto` tries the greatest first; 0 and less: only by
                         name */
    char needs[256];  /* libraries, separated by commas */
    char remedy[256]; /* what to do if they are missing */
} tn__manifest;

/* False, with the reason, if the file has an error. A missing file is an absent
 * manifest, not an error. */
bool tn__manifest_read(const char *path, tn__manifest *out, char *reason,
                       size_t reason_room);

typedef struct tn__option {
    struct tn__option *next;
    char *key, *value; /* never freed: plugins may keep pointers to values */
} tn__option;

enum { TN__PLUGIN_FOUND, TN__PLUGIN_LOADED, TN__PLUGIN_REFUSED };

typedef struct tn__plugin {
    char *path;                /* owned */
    char name[TN__NAME_BYTES]; /* from the manifest, else from the file name */
    bool name_is_guess;        /* file given by path: its table has the name */
    bool shadowed;             /* another file of this name came first */
    tn__manifest manifest;
    int state;
    char reason[TN__REASON_BYTES]; /* why it was refused */
    char remedy[TN__REASON_BYTES]; /* "" if none is known */
    tn_host host;
    tn_plugin table; /* complete: functions that the plugin lacks are NULL */
    _Atomic(tn__option *) options;
} tn__plugin;

/* Guards all below. Public functions take it, the functions here do not. Host
 * calls do not need it, and its holder waits for no other thread. */
extern tn__lock tn__registry_lock;

/* Searches the folders, once; again if memory ran out. */
tn_status tn__registry_search(void);
int tn__registry_count(void);
tn__plugin *tn__registry_at(int i);
/* The first plugin of that name; NULL if there is none, with no error
 * recorded. */
tn__plugin *tn__registry_find(const char *name);
/* The plugin of that file; NULL if it is not in the list. */
tn__plugin *tn__registry_find_path(const char *path);
/* The list must have fewer than TN__MAX_PLUGINS. */
void tn__registry_append(tn__plugin *plugin);
/* The plugin of that file, added to the list if necessary; NULL with the error
 * recorded. */
tn__plugin *tn__registry_add_file(const char *path);
/* "/a, /b": the folders that were searched. */
const char *tn__registry_folders(void);

/* Opens the file and checks its table, once. False, with reason and remedy set,
 * if it cannot be used. Records no error. */
bool tn__plugin_load(tn__plugin *plugin);

/* Fills the host table of this plugin, which is number i of the list. */
void tn__host_fill(tn__plugin *plugin, int i);
/* Sets "key=value" of a plugin; false with the error recorded. */
bool tn__option_set(tn__plugin *plugin, const char *key, const char *value);
/* The value that was set; NULL if none was. Does not read the environment. */
const char *tn__option_value(const tn__plugin *plugin, const char *key);

/* The number of devices of a loaded plugin; false with the plugin's reason. A
 * count of 0 is not a failure; then, too, `reason` has the plugin's reason, or
 * "". */
bool tn__plugin_count(tn__plugin *plugin, uint32_t *count, char *reason,
                      size_t room);
bool tn__plugin_info(tn__plugin *plugin, uint32_t i, tn_device_info *info,
                     char *reason, size_t room);

/* device.c: the device, opened if necessary; NULL with the reason. */
tn_device *tn__device_get(tn__plugin *plugin, uint32_t index, char *reason,
                          size_t room);
/* Did opening a device fail for lack of memory? Under the lock; reset by the
 * caller. */
extern bool tn__device_no_memory;
/* The open device, or NULL. */
tn_device *tn__device_find(const tn__plugin *plugin, uint32_t index);

/* One item of a specification. */
typedef struct tn__spec {
    char name[PATH_MAX]; /* "auto", a name, or an absolute path */
    int64_t index;       /* -1: not given */
    char words[64];      /* part of the device's name or uid; "": not given */
    char options[512];   /* "key=value,key=value" */
} tn__spec;

/* Parses the next item at *text and advances *text; false with the reason. */
bool tn__spec_next(const char **text, tn__spec *out, char *reason,
                   size_t room);
/* The device for a whole specification; NULL with all reasons in *reasons. */
tn_device *tn__spec_open(const char *specification, tn__text *reasons);

/* What a plugin reports about itself, queried in a child process. */
typedef struct tn__probe {
    bool usable;
    uint32_t count; /* devices; info[] has the first ones */
    tn_device_info info[16];
    char reason[TN__REASON_BYTES]; /* why it is not usable or has no device */
    char remedy[TN__REASON_BYTES];
} tn__probe;
void tn__plugin_probe(tn__plugin *plugin, tn__probe *out);
/* How long a probe may take before its process is killed; a test shortens it. */
extern int32_t tn__probe_timeout_ms;

/* "gpu" for TN_KIND_GPU. */
const char *tn__kind_name(int32_t kind);

/* allocator.c */
struct tn__allocator *tn__allocator_make(tn_device *device);
/* built.c */
struct tn__builds *tn__builds_make(void);
/* launch.c */
struct tn__work *tn__work_make(void);
/* A copy of one row. A copy from or to host memory, which is the caller's, is
 * complete on return. */
tn_status tn__device_copy_now(tn_device *device, tn_copy_args *copy,
                              const char *what);
/* Waits for all work of a device and reports failures, as the call `what`. */
tn_status tn__work_wait(tn_device *device, const char *what);
/* Waits for all work of a device; a failure is stored and reported by the next
 * call that waits. */
void tn__work_drain(tn_device *device);

/* dtypes.c: removes unknown dtypes from info; false with the reason if its
 * storage and compute dtypes are inconsistent. */
bool tn__dtypes_check(tn_device_info *info, char *reason, size_t room);
/* TN_ERR_UNSUPPORTED, recorded, if the program has a dtype that the device does
 * not store or compute in. */
tn_status tn__device_check_program(const tn_device *device,
                                   const tn_program *program);

/* Sets a new device's extensions, except those in TENON_MASK. */
tn_status tn__extensions_open(tn_device *device);
/* tn_device_has_extension and tn_device_mask, of a device. */
bool tn__device_has_extension(const tn_device *device, const char *name);
tn_status tn__device_mask(tn_device *device, const char *names);

/* plugin_errors.c */
/* Records the error for a failed call of the plugin, unless an error was
 * pending before the call; returns status. */
tn_status tn__device_fail(tn_device *device, const char *what, tn_status status,
                          bool was_pending);
/* Logs that an extension declined; returns TN_ERR_UNSUPPORTED. */
tn_status tn__extension_declined(tn_device *device, const char *what,
                                 bool was_pending);

#endif
