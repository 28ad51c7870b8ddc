/* engine_mute.c: an engine that moves data and knows nothing else, as MPI does:
 * plugins/local without its board, its checks and its scale. What fails in it
 * hangs. With it the tests see the control plane of lib/dist. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/comm_plugin.h>

static const tn_comm_plugin *local;
static const tn_comm_host *own_host;
static int aborted;

static tn_status start(tn_comm *comm, const tn_comm_args *args,
                       tn_comm_request **out)
{
    tn_comm_args unchecked = *args;
    unchecked.check = 0;
    return local->start(comm, &unchecked, out);
}

static tn_status test(tn_comm_request *request, uint32_t *done)
{
    if (aborted)
        return own_host->fail(TN_ERR_STATE, "mute: aborted");
    if (local->test(request, done) != TN_OK)
        *done = 0;
    return TN_OK;
}

static tn_status state(tn_comm *comm, tn_comm_state *out)
{
    (void)comm;
    out->reason = aborted ? TN_COMM_ABORTED : TN_COMM_WORKS;
    out->peer = -1;
    out->text[0] = 0;
    return TN_OK;
}

static void end(tn_comm *comm, tn_status code, const char *text)
{
    (void)comm;
    (void)code;
    (void)text;
    aborted = 1;
}

const tn_comm_plugin *tenon_comm_v1(const tn_comm_host *host)
{
    static tn_comm_plugin table;
    const char *folders = getenv("TENON_PLUGIN_PATH");
    char path[4096];
    snprintf(path, sizeof path, "%.*s/comm_local.so",
             folders ? (int)strcspn(folders, ":") : 0, folders ? folders : "");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "tenon_comm_v1") : NULL;
    if (!symbol) {
        host->fail(TN_ERR_PLUGIN, "mute: %s cannot be opened", path);
        return NULL;
    }
    const tn_comm_plugin *(*entry)(const tn_comm_host *);
    memcpy(&entry, &symbol, sizeof entry);
    local = entry(host);
    if (!local)
        return NULL;
    own_host = host;
    table = *local;
    table.size = TN_COMM_PLUGIN_SIZE_1_0;
    table.name = "mute";
    table.caps = TN_COMM_CAP_FIXED_ORDER | TN_COMM_CAP_POINT_TO_POINT |
                 TN_COMM_CAP_HOST_MEMORY;
    table.start = start;
    table.test = test;
    table.state = state;
    table.abort = end;
    return &table;
}
