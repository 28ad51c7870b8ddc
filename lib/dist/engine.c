/* engine.c: finds and opens communication plugins. They are in the folders of
 * the device plugins, as comm_NAME.so: TENON_PLUGIN_PATH, tenon-1/ beside this
 * library, and the folder that configure set. */
#include <dist/dist.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The engines that are tried if none was named, best first. */
static const char *const order[] = {"local", "mpi"};

/* Why a call of an engine failed. It is short because libraries that are opened by
 * dlopen share a small block of thread-local memory. */
enum { REASON = 448 };
static _Thread_local char reason[REASON];

__attribute__((format(printf, 2, 3))) static tn_status
fail(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return code;
}

const char *tn__dist_engine_reason(void)
{
    return reason;
}

/* Stores the path of the file comm_NAME.so in a folder, if it is there. */
static bool look_in(const char *folder, size_t length, const char *name,
                    char *path, size_t room)
{
    if (!length || folder[0] != '/')
        return false;
    int used = snprintf(path, room, "%.*s/comm_%s.so", (int)length, folder, name);
    return used > 0 && (size_t)used < room && !access(path, R_OK);
}

static bool find_file(const char *name, char *path, size_t room)
{
    if (strchr(name, '/'))
        return (size_t)snprintf(path, room, "%s", name) < room;
    const char *folders = secure_getenv("TENON_PLUGIN_PATH");
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        if (look_in(folders, length, name, path, room))
            return true;
        folders += length + (folders[length] == ':');
    }
    Dl_info info;
    char own[PATH_MAX], folder[PATH_MAX + 16];
    static const char here;
    if (dladdr(&here, &info) && info.dli_fname && realpath(info.dli_fname, own)) {
        char *slash = strrchr(own, '/');
        int length = snprintf(folder, sizeof folder, "%.*s/tenon-1",
                              (int)(slash - own), own);
        if (look_in(folder, (size_t)length, name, path, room))
            return true;
    }
#ifdef TENON_PLUGIN_DIR
    return look_in(TENON_PLUGIN_DIR, strlen(TENON_PLUGIN_DIR), name, path, room);
#else
    return false;
#endif
}

/* "mpi" is the engine for the implementation of MPI that has started this
 * process. Returns its name, or NULL if none has. */
static const char *name_of_mpi(void)
{
    static const char *const variable[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
                                           "PMI_RANK", "PMI_FD", "PMI_PORT"};
    for (int i = 0; i < 5; i++)
        if (secure_getenv(variable[i]))
            return i < 2 ? "openmpi" : "mpich";
    fail(TN_ERR_PLUGIN, "mpi: no mpirun has started this process%s",
         secure_getenv("SLURM_PROCID")
             ? "; give srun the option --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
             : "");
    return NULL;
}

/* Returns the table with NULL for the slots that it does not have. The copies are
 * as long as the plugins: until the process ends. */
static const tn_comm_plugin *complete(const tn_comm_plugin *table)
{
    enum { MOST = 8 };
    static const tn_comm_plugin *known[MOST];
    static tn_comm_plugin copy[MOST];
    for (int i = 0; i < MOST; i++) {
        if (known[i] == table)
            return &copy[i];
        if (known[i])
            continue;
        known[i] = table;
        memcpy(&copy[i], table, table->size < sizeof *table ? table->size
                                                            : sizeof *table);
        return &copy[i];
    }
    fail(TN_ERR_PLUGIN, "more than %d engines were opened", MOST);
    return NULL;
}

static const tn_comm_plugin *load(const char *name)
{
    static const tn_comm_host host = {.size = sizeof host,
                                      .abi_major = TN_COMM_ABI_MAJOR,
                                      .abi_minor = TN_COMM_ABI_MINOR,
                                      .fail = fail};
    char path[PATH_MAX + 300];
    const bool mpi = !strcmp(name, "mpi");
    if (mpi && !(name = name_of_mpi()))
        return NULL;
    if (!find_file(name, path, sizeof path)) {
        fail(TN_ERR_PLUGIN, "there is no engine %s: no file comm_%s.so in the "
             "plugin folders (TENON_PLUGIN_PATH)%s%s%s", name, name,
             mpi ? "; install lib" : "", mpi ? name : "",
             mpi ? "-dev and build Tenon again (configure --with-mpi)" : "");
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "tenon_comm_v1") : NULL;
    if (!symbol) {
        const char *text = dlerror();
        fail(TN_ERR_PLUGIN, "%s cannot be opened: %s", path,
             text ? text : "no symbol tenon_comm_v1");
        return NULL;
    }
    /* ISO C does not allow an object pointer to be converted to a function
     * pointer; POSIX does. */
    const tn_comm_plugin *(*entry)(const tn_comm_host *);
    memcpy(&entry, &symbol, sizeof entry);
    const tn_comm_plugin *table = entry(&host);
    if (!table)
        return NULL;
    if (table->abi_major != TN_COMM_ABI_MAJOR ||
        table->size < TN_COMM_PLUGIN_SIZE_1_0) {
        fail(TN_ERR_PLUGIN, "%s has version %u of the communication ABI, in %u "
             "bytes; expected version %u: build it again", path,
             table->abi_major, table->size, TN_COMM_ABI_MAJOR);
        return NULL;
    }
    if (!(table = complete(table)))
        return NULL;
    const bool board = (table->caps & TN_COMM_CAP_CHECKS) &&
                       (table->caps & TN_COMM_CAP_BOARD);
    if (!(table->caps & TN_COMM_CAP_HOST_MEMORY) ||
        (board && (!table->peer || !table->publish))) {
        fail(TN_ERR_PLUGIN, "%s cannot move host memory, or has no peer and "
             "publish; this version of libtenon-parallel needs that of an engine",
             path);
        return NULL;
    }
    return table;
}

const tn_comm_plugin *tn__dist_engine_find(const char *name,
                                           const tn_comm_place *place)
{
    char tried[TN_COMM_TEXT] = "";
    size_t used = 0;
    for (size_t i = 0; i < (name ? 1 : sizeof order / sizeof *order); i++) {
        const tn_comm_plugin *table = load(name ? name : order[i]);
        if (table && table->probe(place) == TN_OK)
            return table;
        int length = snprintf(tried + used, sizeof tried - used, "%s%s",
                              used ? "; " : "", reason);
        used += (size_t)length < sizeof tried - used ? (size_t)length : 0;
    }
    tn_error_refuse_argument(TN_ERR_PLUGIN, "dist_init", "engine", "%s", tried);
    return NULL;
}
