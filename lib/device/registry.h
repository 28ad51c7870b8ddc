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

/* A plugin's manifest, which describes the plugin without opening it. It is the
 * file tn_<name>.conf beside tn_<name>.so, with lines key=value and '#'
 * comments. Unknown keys are ignored, so that later versions can add keys. */
typedef struct tn__manifest {
    bool present;
    char name[TN__NAME_BYTES];
    int32_t kind;     /* TN_KIND_...; -1 if the manifest does not say */
    int32_t priority; /* TENON_DEVICE=auto tries plugins in falling priority; a
                       * plugin with 0 or less is opened only by name */
    char needs[256];  /* names of needed libraries, separated by commas */
    char remedy[256]; /* what to do if a needed library is missing */
} tn__manifest;

/* Reads a manifest. Returns false with the reason if the file has an error. A
 * missing file is not an error; then out->present is false. */
bool tn__manifest_read(const char *path, tn__manifest *out, char *reason,
                       size_t reason_room);

typedef struct tn__option {
    struct tn__option *next;
    char *key, *value; /* Owned but never freed, since plugins may keep pointers
                        * to values. */
} tn__option;

enum { TN__PLUGIN_FOUND, TN__PLUGIN_LOADED, TN__PLUGIN_REFUSED };

typedef struct tn__plugin {
    char *path;                /* path of the plugin's file, owned */
    char name[TN__NAME_BYTES]; /* name from the manifest, else from the file
                                * name */
    bool name_is_guess;        /* true if the plugin was given by its path; its
                                * function table then has the true name */
    bool shadowed;             /* true if another file with the same name was
                                * found first, so this plugin is not used */
    tn__manifest manifest;
    int state;
    char reason[TN__REASON_BYTES]; /* why the plugin was rejected */
    char remedy[TN__REASON_BYTES]; /* how to make the plugin usable; "" if not
                                    * known */
    tn_host host;
    tn_plugin table; /* A copy of the plugin's function table, as tn_plugin is
                      * declared in this version. Functions that the plugin
                      * lacks are NULL. */
    _Atomic(tn__option *) options;
} tn__plugin;

/* Guards the list of plugins and everything declared below. Public functions
 * take the lock; the functions declared here expect it to be held. The
 * functions that the core offers to plugins do not need it. A thread that holds
 * it must not wait for other threads. */
extern tn__lock tn__registry_lock;

/* Searches the folders for plugins on the first call. Later calls do nothing,
 * unless memory ran out before. */
tn_status tn__registry_search(void);
int tn__registry_count(void);
tn__plugin *tn__registry_at(int i);
/* Returns the first plugin of that name. Returns NULL, with no error recorded,
 * if there is none. */
tn__plugin *tn__registry_find(const char *name);
/* Returns the plugin with that file; NULL if it is not in the list. */
tn__plugin *tn__registry_find_path(const char *path);
/* Appends a plugin to the list. The list must have fewer than
 * TN__MAX_PLUGINS. */
void tn__registry_append(tn__plugin *plugin);
/* Returns the plugin with that file, and adds it to the list if necessary.
 * Returns NULL with the error recorded on failure. */
tn__plugin *tn__registry_add_file(const char *path);
/* Returns the searched folders as one string, "/a, /b". */
const char *tn__registry_folders(void);

/* Opens a plugin's file and checks its function table. A later call returns the
 * same result. If the plugin cannot be used, sets plugin->reason and remedy and
 * returns false. Records no error. */
bool tn__plugin_load(tn__plugin *plugin);

/* Fills the table of functions that the core offers to the plugin
 * (plugin->host). i is the plugin's index in the list. */
void tn__host_fill(tn__plugin *plugin, int i);
/* Sets an option of a plugin. Returns false with the error recorded on
 * failure. */
bool tn__option_set(tn__plugin *plugin, const char *key, const char *value);
/* Returns the value that tn__option_set gave an option; NULL if none was set.
 * Does not read the environment. */
const char *tn__option_value(const tn__plugin *plugin, const char *key);

/* Sets *count to the number of devices of a loaded plugin. Returns false on
 * failure. `reason` gets the plugin's explanation of a failure, or of a count
 * of 0, which is not a failure; else "". */
bool tn__plugin_count(tn__plugin *plugin, uint32_t *count, char *reason,
                      size_t room);
bool tn__plugin_info(tn__plugin *plugin, uint32_t i, tn_device_info *info,
                     char *reason, size_t room);

/* Returns device `index` of a plugin, and opens it if necessary. Returns NULL
 * with the reason on failure. */
tn_device *tn__device_get(tn__plugin *plugin, uint32_t index, char *reason,
                          size_t room);
/* True after a device could not be opened for lack of memory. The caller resets
 * it to false. The registry's lock guards it. */
extern bool tn__device_no_memory;
/* Returns the device if it is already open, else NULL. */
tn_device *tn__device_find(const tn__plugin *plugin, uint32_t index);

/* One item of a device specification, such as TENON_DEVICE="cuda:0". */
typedef struct tn__spec {
    char name[PATH_MAX]; /* "auto", a plugin's name, or the absolute path of a
                          * plugin's file */
    int64_t index; /* index of the device within the plugin; -1 if not given */
    char words[64];      /* part of the device's name or uid; "" if not given */
    char options[512];   /* options as "key=value,key=value" */
} tn__spec;

/* Parses the next item at *text and advances *text. Returns false with the
 * reason on failure. */
bool tn__spec_next(const char **text, tn__spec *out, char *reason,
                   size_t room);
/* Opens the first device of a specification that can be opened. If none can,
 * returns NULL and appends to *reasons why each of them failed. */
tn_device *tn__spec_open(const char *specification, tn__text *reasons);

/* What a plugin reports about itself when it is queried in a child process. */
typedef struct tn__probe {
    bool usable;
    uint32_t count; /* number of devices; info[] describes the first 16 */
    tn_device_info info[16];
    char reason[TN__REASON_BYTES]; /* why the plugin is not usable or has no
                                    * device */
    char remedy[TN__REASON_BYTES];
} tn__probe;
void tn__plugin_probe(tn__plugin *plugin, tn__probe *out);
/* Longest time in milliseconds that a query in a child process may take before
 * the process is killed. A test shortens it. */
extern int32_t tn__probe_timeout_ms;

/* Returns the name of a device kind: "gpu" for TN_KIND_GPU. */
const char *tn__kind_name(int32_t kind);

/* Makes a device's caching allocator (memory/allocator.c). */
struct tn__allocator *tn__allocator_make(tn_device *device);
/* Makes the table of a device's compiled programs (built.c). */
struct tn__builds *tn__builds_make(void);
/* Makes the record of a device's submitted work (launch.c). */
struct tn__work *tn__work_make(void);
/* Copies between contiguous ranges of memory. If the copy is from or to host
 * memory, it is complete on return, because that memory is the caller's. */
tn_status tn__device_copy_now(tn_device *device, tn_copy_args *copy,
                              const char *what);
/* Waits for all work of a device. Reports a failure as an error of the call
 * `what`. */
tn_status tn__work_wait(tn_device *device, const char *what);
/* Waits for all work of a device. A failure is stored, and the next call that
 * waits for the device reports it. */
void tn__work_drain(tn_device *device);

/* Removes the dtypes that this version does not support from the device's
 * description. Returns false with the reason if the device computes in dtypes
 * that it cannot store. */
bool tn__dtypes_check(tn_device_info *info, char *reason, size_t room);
/* Checks that the device supports all dtypes that a program stores and computes
 * in. If not, records and returns TN_ERR_UNSUPPORTED. */
tn_status tn__device_check_program(const tn_device *device,
                                   const tn_program *program);

/* Sets the pointers to the extension tables of a new device. The pointers of
 * extensions that TENON_MASK lists are NULL. */
tn_status tn__extensions_open(tn_device *device);
/* Implement the public functions tn_device_has_extension and tn_device_mask. */
bool tn__device_has_extension(const tn_device *device, const char *name);
tn_status tn__device_mask(tn_device *device, const char *names);

/* Records an error for a failed call of the plugin, unless an error was already
 * pending before the call. Returns the status. */
tn_status tn__device_fail(tn_device *device, const char *what, tn_status status,
                          bool was_pending);
/* Logs that an extension declined the work, and returns TN_ERR_UNSUPPORTED. */
tn_status tn__extension_declined(tn_device *device, const char *what,
                                 bool was_pending);

#endif
