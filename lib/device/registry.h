/* registry.h: the plugins that were found, and what became of each. Serves
 * the files of device alone.
 *
 *   plugin_search.c    folders -> candidates, with their manifests (manifest.c)
 *   plugin_loader.c    candidate -> table, or the reason why not
 *   spec.c      TENON_DEVICE's grammar -> which candidates to try
 *   device.c    table -> open device
 *   probe.c     looks at a plugin in a child process; report.c tells of all
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

/* tn_<name>.conf beside tn_<name>.so: lines of key=value, '#' comments. Keys
 * that we do not know are for a later version. */
typedef struct tn__manifest {
    bool present;
    char name[TN__NAME_BYTES];
    int32_t kind;     /* TN_KIND_...; -1: not said */
    int32_t priority; /* `auto` takes the greatest first; 0 and less: by name
                         alone */
    char needs[256];  /* libraries, with commas between */
    char remedy[256]; /* what to do if they are missing */
} tn__manifest;

/* False, with the reason, for a file that is there but wrong; a missing file
 * is an absent manifest. */
bool tn__manifest_read(const char *path, tn__manifest *out, char *reason,
                       size_t reason_room);

typedef struct tn__option {
    struct tn__option *next;
    char *key, *value; /* owned, for ever: plugins hold on to values */
} tn__option;

enum { TN__PLUGIN_FOUND, TN__PLUGIN_LOADED, TN__PLUGIN_REFUSED };

typedef struct tn__plugin {
    char *path;                /* owned */
    char name[TN__NAME_BYTES]; /* of the manifest, else of the file */
    bool name_is_guess;        /* a file given by path: its table names it */
    bool shadowed;             /* another file of this name came first */
    tn__manifest manifest;
    int state;
    char reason[TN__REASON_BYTES]; /* of a refusal */
    char remedy[TN__REASON_BYTES]; /* "" where none is known */
    tn_host host;
    tn_plugin table; /* full: what the plugin left out is NULL */
    _Atomic(tn__option *) options;
} tn__plugin;

/* The lock of all below; public calls take it, nothing here does. Never held
 * while another thread is waited for, never needed by a host call. */
extern tn__lock tn__registry_lock;

/* Looks through the folders, once; again where memory ran out. */
tn_status tn__registry_search(void);
int tn__registry_count(void);
tn__plugin *tn__registry_at(int i);
/* The first of that name; NULL if there is none (no error recorded). */
tn__plugin *tn__registry_find(const char *name);
/* The one of that file; NULL if it is no candidate. */
tn__plugin *tn__registry_find_path(const char *path);
/* There must be less than TN__MAX_PLUGINS. */
void tn__registry_append(tn__plugin *plugin);
/* The plugin of that file, made a candidate if it is none yet; NULL with the
 * error recorded. */
tn__plugin *tn__registry_add_file(const char *path);
/* "/a, /b": the folders looked through. */
const char *tn__registry_folders(void);

/* Opens the file and checks its table, once; false with reason and remedy
 * set. Records no error. */
bool tn__plugin_load(tn__plugin *plugin);

/* Fills the host table for this plugin, number i of the registry. */
void tn__host_fill(tn__plugin *plugin, int i);
/* Sets "key=value" of a plugin; false with the error recorded. */
bool tn__option_set(tn__plugin *plugin, const char *key, const char *value);
/* The value that was set; NULL if none was. The environment is not asked. */
const char *tn__option_value(const tn__plugin *plugin, const char *key);

/* The devices of a loaded plugin; false with the plugin's reason in `reason`.
 * A count of 0 is no failure: its reason (or "") is there too. */
bool tn__plugin_count(tn__plugin *plugin, uint32_t *count, char *reason,
                      size_t room);
bool tn__plugin_info(tn__plugin *plugin, uint32_t i, tn_device_info *info,
                     char *reason, size_t room);

/* device.c: the device, opened if it is not open yet; NULL with the reason. */
tn_device *tn__device_get(tn__plugin *plugin, uint32_t index, char *reason,
                          size_t room);
/* Did an opening fail for lack of memory? Under the lock; reset by the caller. */
extern bool tn__device_no_memory;
/* The open device, or NULL. */
tn_device *tn__device_find(const tn__plugin *plugin, uint32_t index);

/* One item of a specification. */
typedef struct tn__spec {
    char name[PATH_MAX]; /* "auto", a name, or an absolute path */
    int64_t index;       /* -1: not given */
    char words[64];      /* of the device's name or uid; "": not given */
    char options[512];   /* "key=value,key=value" */
} tn__spec;

/* Reads the next item at *text and moves it on; false with what is wrong. */
bool tn__spec_next(const char **text, tn__spec *out, char *reason,
                   size_t room);
/* The device of a whole specification; NULL with every reason in *reasons. */
tn_device *tn__spec_open(const char *specification, tn__text *reasons);

/* What a plugin says of itself, asked in a child process. */
typedef struct tn__probe {
    bool usable;
    uint32_t count; /* devices, of which info[] holds the first */
    tn_device_info info[16];
    char reason[TN__REASON_BYTES]; /* why not usable, or why none */
    char remedy[TN__REASON_BYTES];
} tn__probe;
void tn__plugin_probe(tn__plugin *plugin, tn__probe *out);

/* "gpu" for TN_KIND_GPU. */
const char *tn__kind_name(int32_t kind);

/* allocator.c */
struct tn__allocator *tn__allocator_make(tn_device *device);
/* built.c */
struct tn__builds *tn__builds_make(void);
/* launch.c */
struct tn__work *tn__work_make(void);
/* The copy, of one row; with the host it is done when this returns, for the memory
 * there is the caller's. */
tn_status tn__device_copy_now(tn_device *device, tn_copy_args *copy,
                              const char *what);
/* Waits for all work of a device, for the call `what`. */
tn_status tn__work_wait(tn_device *device, const char *what);
/* Waits for all work of a device; a failure is kept for the next call that
 * waits. */
void tn__work_drain(tn_device *device);

/* dtypes.c: keeps the dtypes that are known here; false with the reason where
 * what is stored and what is computed in do not fit together. */
bool tn__dtypes_check(tn_device_info *info, char *reason, size_t room);
/* TN_ERR_UNSUPPORTED, recorded, of a program with a dtype that the device does
 * not store or compute in. */
tn_status tn__device_check_program(const tn_device *device,
                                   const tn_program *program);

/* Fills a new device's extensions, but for those TENON_MASK names. */
tn_status tn__extensions_open(tn_device *device);
/* tn_device_has_extension and tn_device_mask, of a device. */
bool tn__device_has_extension(const tn_device *device, const char *name);
tn_status tn__device_mask(tn_device *device, const char *names);

/* plugin_errors.c */
/* Words for a failure of the plugin, unless an error was pending before; status. */
tn_status tn__device_fail(tn_device *device, const char *what, tn_status status,
                          bool was_pending);
/* Puts an extension's refusal into the log; TN_ERR_UNSUPPORTED. */
tn_status tn__extension_declined(tn_device *device, const char *what,
                                 bool was_pending);

#endif
