/* registry.h: the list of plugins that were found, and the state of each. Only
 * the files of this folder include it.
 *
 *   registry.c        keeps the list of plugins
 *   plugin_search.c   searches folders for plugins and reads their manifests
 *                     (manifest.c)
 *   plugin_loader.c   opens a plugin and checks its function table
 *   spec.c            parses TENON_DEVICE into devices to try
 *   device.c          opens a device of a plugin
 *   current.c         the current device of a thread
 *   probe.c           queries a plugin in a child process
 *   report.c          reports all plugins */
#ifndef TN_LIB_DEVICE_REGISTRY_H
#define TN_LIB_DEVICE_REGISTRY_H

#include <base/error.h>
#include <base/lock.h>
#include <device/device.h>

#include <limits.h>

#define TN__MAX_PLUGINS 32
#define TN__NAME_BYTES 32
#define TN__REASON_BYTES 512

/* A plugin's manifest: the file tn_<name>.conf beside tn_<name>.so, with lines
 * key=value and '#' comments. Unknown keys are ignored, for later versions. */
typedef struct tn__manifest {
    bool present;
    char name[TN__NAME_BYTES];
    int32_t kind;     /* TN_KIND_...; -1 if not given */
    int32_t priority; /* TENON_DEVICE=auto tries the greatest first; plugins
                       * with 0 or less are opened only by name */
    char needs[256];  /* names of needed libraries, separated by commas */
    char remedy[256]; /* what to do if a needed library is missing */
} tn__manifest;

/* Reads a manifest. Returns false with the reason if the file has an error. If
 * there is no file, out->present is false and that is no error. */
bool tn__manifest_read(const char *path, tn__manifest *out, char *reason,
                       size_t reason_room);

typedef struct tn__option {
    struct tn__option *next;
    char *key, *value; /* never freed, since plugins may keep pointers to
                        * values */
} tn__option;

enum { TN__PLUGIN_FOUND, TN__PLUGIN_LOADED, TN__PLUGIN_REFUSED };

typedef struct tn__plugin {
    char *path;                /* owned */
    char name[TN__NAME_BYTES]; /* name from the manifest, else from the file
                                * name */
    bool name_is_guess;        /* the file was given by its path; its function
                                * table has the name */
    bool shadowed;             /* another plugin file with this name was found
                                * first */
    tn__manifest manifest;
    int state;
    char reason[TN__REASON_BYTES]; /* why the plugin was refused */
    char remedy[TN__REASON_BYTES]; /* how to make the plugin usable; "" if not
                                    * known */
    tn_host host;
    tn_plugin table; /* table of the full size; functions that the plugin lacks
                      * are NULL */
    _Atomic(tn__option *) options;
} tn__plugin;

/* This lock guards everything declared below. Public functions take it; the
 * functions declared here expect it to be held. Host calls do not need it, and
 * its holder waits for no other thread. */
extern tn__lock tn__registry_lock;

/* Searches the folders for plugins once; the next call searches again only if
 * memory ran out. */
tn_status tn__registry_search(void);
int tn__registry_count(void);
tn__plugin *tn__registry_at(int i);
/* Returns the first plugin of that name; NULL if there is none, with no error
 * recorded. */
tn__plugin *tn__registry_find(const char *name);
/* Returns the plugin of that file; NULL if it is not in the list. */
tn__plugin *tn__registry_find_path(const char *path);
/* Appends a plugin to the list, which must have fewer than TN__MAX_PLUGINS. */
void tn__registry_append(tn__plugin *plugin);
/* Returns the plugin of that file and adds it to the list if necessary; NULL
 * with the error recorded on failure. */
tn__plugin *tn__registry_add_file(const char *path);
/* Returns the searched folders as "/a, /b". */
const char *tn__registry_folders(void);

/* Opens a plugin's file and checks its function table; a later call returns the
 * same result. Returns false with plugin->reason and remedy set if the plugin
 * cannot be used. Records no error. */
bool tn__plugin_load(tn__plugin *plugin);

/* Fills plugin->host. The plugin is number i of the list. */
void tn__host_fill(tn__plugin *plugin, int i);
/* Sets an option of a plugin. Returns false with the error recorded on
 * failure. */
bool tn__option_set(tn__plugin *plugin, const char *key, const char *value);
/* Returns the value that tn__option_set gave an option; NULL if there is none.
 * Does not read the environment. */
const char *tn__option_value(const tn__plugin *plugin, const char *key);

/* Sets *count to the number of devices of a loaded plugin. `reason` gets the
 * plugin's explanation of a failure, or of a count of 0, which is no failure;
 * or "". Returns false on failure. */
bool tn__plugin_count(tn__plugin *plugin, uint32_t *count, char *reason,
                      size_t room);
bool tn__plugin_info(tn__plugin *plugin, uint32_t i, tn_device_info *info,
                     char *reason, size_t room);

/* Returns a device and opens it if necessary (device.c); NULL with the reason
 * on failure. */
tn_device *tn__device_get(tn__plugin *plugin, uint32_t index, char *reason,
                          size_t room);
/* Set if opening a device failed for lack of memory. The registry's lock guards
 * the flag; the caller resets it. */
extern bool tn__device_no_memory;
/* Returns a device that is already open, else NULL. */
tn_device *tn__device_find(const tn__plugin *plugin, uint32_t index);

/* One item of a device specification, such as TENON_DEVICE="cuda:0". */
typedef struct tn__spec {
    char name[PATH_MAX]; /* "auto", a plugin's name, or the absolute path of a
                          * plugin */
    int64_t index;       /* -1 if not given */
    char words[64];      /* part of the device's name or uid; "" if not given */
    char options[512];   /* options as "key=value,key=value" */
} tn__spec;

/* Parses the next item at *text and advances *text. Returns false with the
 * reason on failure. */
bool tn__spec_next(const char **text, tn__spec *out, char *reason,
                   size_t room);
/* Opens the device that a specification selects. Returns NULL with all reasons
 * in *reasons if no device can be opened. */
tn_device *tn__spec_open(const char *specification, tn__text *reasons);

/* What a plugin reports about itself, queried in a child process. */
typedef struct tn__probe {
    bool usable;
    uint32_t count; /* number of devices; info[] has the first of them */
    tn_device_info info[16];
    char reason[TN__REASON_BYTES]; /* why the plugin is not usable or has no
                                    * device */
    char remedy[TN__REASON_BYTES];
} tn__probe;
void tn__plugin_probe(tn__plugin *plugin, tn__probe *out);
/* Most milliseconds that a probe may take before its process is killed. A test
 * shortens the time. */
extern int32_t tn__probe_timeout_ms;

/* Returns the name of a device kind: "gpu" for TN_KIND_GPU. */
const char *tn__kind_name(int32_t kind);

/* Makes a device's caching allocator (memory/allocator.c). */
struct tn__allocator *tn__allocator_make(tn_device *device);
/* Makes the table of a device's compiled programs (built.c). */
struct tn__builds *tn__builds_make(void);
/* Makes the record of a device's submitted work (launch.c). */
struct tn__work *tn__work_make(void);
/* Makes a contiguous copy. If it is from or to host memory, which is the
 * caller's, the copy is complete on return. */
tn_status tn__device_copy_now(tn_device *device, tn_copy_args *copy,
                              const char *what);
/* Waits for all work of a device and reports failures as those of the call
 * `what`. */
tn_status tn__work_wait(tn_device *device, const char *what);
/* Waits for all work of a device. A failure is stored, and the next call that
 * waits reports it. */
void tn__work_drain(tn_device *device);

/* Removes from info the dtypes that this version does not know. Returns false
 * with the reason if the storage and compute dtypes contradict each other
 * (dtypes.c). */
bool tn__dtypes_check(tn_device_info *info, char *reason, size_t room);
/* Checks that the device stores and computes in all dtypes of a program.
 * Records and returns TN_ERR_UNSUPPORTED otherwise. */
tn_status tn__device_check_program(const tn_device *device,
                                   const tn_program *program);

/* Sets the extension tables of a new device, except the extensions in
 * TENON_MASK. */
tn_status tn__extensions_open(tn_device *device);
/* These functions do the work of tn_device_has_extension and tn_device_mask. */
bool tn__device_has_extension(const tn_device *device, const char *name);
tn_status tn__device_mask(tn_device *device, const char *names);

/* Records the error for a failed call of the plugin, unless an error was
 * pending before the call; returns status. */
tn_status tn__device_fail(tn_device *device, const char *what, tn_status status,
                          bool was_pending);
/* Logs that an extension declined; returns TN_ERR_UNSUPPORTED. */
tn_status tn__extension_declined(tn_device *device, const char *what,
                                 bool was_pending);

#endif
