/* version.c: compares what the ranks run, before the first collective: ranks of
 * another version would compare other bytes, or mean something else by them.
 *
 * Programs and libraries are known by the build ID that linkers put into them,
 * those without one by their content. */
#include <dist/dist.h>

#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its layout is the same in all versions. */
typedef struct card {
    char magic[8];
    uint64_t machine;
    uint64_t library, program; /* hashes */
    char version[32], name[64];
} card;
_Static_assert(sizeof(card) == 128, "");

static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    return h;
}

/* The content of a file without a build ID. */
static uint64_t mix_file(uint64_t h, const char *path)
{
    unsigned char part[16384];
    FILE *file = fopen(path, "re");
    for (size_t n; file && (n = fread(part, 1, sizeof part, file));)
        h = mix(h, part, n);
    if (file)
        fclose(file);
    return h;
}

static bool mix_build_id(uint64_t *h, const struct dl_phdr_info *object)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(object->dlpi_addr + part->p_vaddr);
        const char *end = at + part->p_memsz;
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            at += sizeof note;
            const size_t name = (note.n_namesz + 3u) & ~3u,
                         bytes = (note.n_descsz + 3u) & ~3u;
            if (name + bytes > (size_t)(end - at))
                break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                !memcmp(at, "GNU", 4)) {
                *h = mix(*h, at + name, note.n_descsz);
                return true;
            }
            at += name + bytes;
        }
    }
    return false;
}

static int add_object(struct dl_phdr_info *object, size_t bytes, void *context)
{
    card *c = context;
    const char *path = object->dlpi_name ? object->dlpi_name : "";
    const char *slash = strrchr(path, '/');
    const bool program = !path[0] && c->program == 0;
    const bool library = !strncmp(slash ? slash + 1 : path, "libtenon", 8);
    (void)bytes;
    if (!program && !library)
        return 0;
    uint64_t h = 0xcbf29ce484222325u;
    if (!mix_build_id(&h, object))
        h = mix_file(h, program ? "/proc/self/exe" : path);
    /* The order of libraries is not the same everywhere. */
    if (program)
        c->program = h;
    else
        c->library += h;
    return 0;
}

static void fill(card *c)
{
    memcpy(c->magic, "tenon-1", 8);
    c->machine = tn__control_machine();
    c->library = mix(0xcbf29ce484222325u, tn_version(), strlen(tn_version()));
    snprintf(c->version, sizeof c->version, "%s", tn_version());
    snprintf(c->name, sizeof c->name, "%s", program_invocation_short_name);
    dl_iterate_phdr(add_object, c);
}

tn_status tn__dist_gather(tn__dist_job *job, tn_comm *comm, const void *mine,
                          size_t bytes, void *all, uint64_t deadline)
{
    const tn_comm_plugin *engine = job->engine;
    const tn_comm_args args = {.size = sizeof args, .kind = TN_COMM_ALL_GATHER,
                               .dtype = TN_U8, .root = -1, .count = bytes,
                               .send = mine, .recv = all, .scale = 1,
                               .check = 0x676174686572u + bytes};
    tn_comm_request *request = NULL;
    uint32_t done = 0;
    tn_status status = engine->start(comm, &args, &request);
    while (status == TN_OK && !done && tn__dist_now() < deadline) {
        status = engine->wait ? engine->wait(request, 5000000, &done)
                              : engine->test(request, &done);
        if (!engine->wait && !done)
            sched_yield();
    }
    if (!done)
        engine->abort(comm, TN_ERR_STATE, "dist_init: the ranks did not meet");
    if (request)
        engine->request_close(request);
    if (done)
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_STATE, "dist_init", NULL, "rank %d of %d: %s",
        (int)job->place.rank, (int)job->place.count,
        status == TN_OK ? "the other ranks did not say in time what they run"
                        : tn__dist_engine_reason());
}

static tn_status refuse(const card *all, int32_t odd)
{
    const card *a = &all[0], *b = &all[odd];
    if (memcmp(a->magic, b->magic, sizeof a->magic) || a->library != b->library)
        return tn_error_refuse_argument(
            TN_ERR_STATE, "dist_init", NULL,
            "rank %d has another libtenon (%.31s, build %016llx) than rank 0 "
            "(%.31s, build %016llx): install the same one for all", (int)odd,
            b->version, (unsigned long long)b->library, a->version,
            (unsigned long long)a->library);
    return tn_error_refuse_argument(
        TN_ERR_STATE, "dist_init", NULL,
        "rank %d runs another program (%.63s, build %016llx) than rank 0 (%.63s, "
        "build %016llx): start the same one everywhere", (int)odd, b->name,
        (unsigned long long)b->program, a->name, (unsigned long long)a->program);
}

tn_status tn__dist_compare(tn__dist_job *job, tn_comm *comm, uint64_t deadline,
                           bool *several)
{
    const int32_t count = job->place.count;
    card own = {.machine = 0};
    card *all = calloc((size_t)count, sizeof *all);
    if (!all)
        return tn_error_refuse_argument(TN_ERR_MEMORY, "dist_init", NULL,
                                        "out of memory");
    fill(&own);
    tn_status status = tn__dist_gather(job, comm, &own, sizeof own, all, deadline);
    *several = false;
    for (int32_t r = 1; r < count && status == TN_OK; r++) {
        *several = *several || all[r].machine != all[0].machine;
        if (memcmp(all[r].magic, all[0].magic, sizeof own.magic) ||
            all[r].library != all[0].library || all[r].program != all[0].program)
            status = refuse(all, r);
    }
    free(all);
    return status;
}
