/* event_file.c: makes event files and appends records to them. */
#include <media/run/event_file.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct tn_events {
    tn_object object;
    int fd;
    off_t end;  /* size of the file up to the last complete record */
    char *path; /* owned */
};

enum { MAX_TAG = 1000, MAX_TRIES = 1000 };

/* ---- records ------------------------------------------------------------- */

static uint32_t crc_table[256];

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_table[i] = crc;
    }
}

uint32_t tn__record_checksum(const void *data, size_t count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_table);
    const unsigned char *byte = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        crc = crc >> 8 ^ crc_table[(crc ^ byte[i]) & 255];
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_whole(unsigned char *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static tn_status fail(const char *call, const char *argument, const char *path,
                      int why)
{
    return tn_error_refuse_argument(why == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO,
                                    call, argument, "%s: %s", path,
                                    strerror(why));
}

static bool write_all(int fd, const unsigned char *data, size_t count)
{
    while (count) {
        const ssize_t done = write(fd, data, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        data += done;
        count -= (size_t)done;
    }
    return true;
}

/* Appends one record with a single buffer, so that a process that is killed
 * leaves at most one incomplete record, at the end. */
static tn_status append(tn_events *e, const char *call, const tn__message *m)
{
    const size_t count = TN__RECORD_HEAD + m->count + TN__RECORD_TAIL;
    unsigned char *record = m->failed ? NULL : malloc(count);
    if (!record)
        return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                        "out of memory");
    put_whole(record, m->count, 8);
    put_whole(record + 8, tn__record_checksum(record, 8), 4);
    memcpy(record + TN__RECORD_HEAD, m->data, m->count);
    put_whole(record + TN__RECORD_HEAD + m->count,
              tn__record_checksum(m->data, m->count), 4);
    tn_status status = TN_OK;
    if (write_all(e->fd, record, count)) {
        e->end += (off_t)count;
    } else {
        const int why = errno;
        /* If the file cannot be truncated, readers stop at the incomplete
         * record. */
        const int cut = ftruncate(e->fd, e->end);
        (void)cut;
        status = fail(call, "events", e->path, why);
    }
    free(record);
    return status;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

tn_status tn__events_append(tn_events *events, const char *call, int64_t step,
                            tn__message *value)
{
    tn__message event = {0}, summary = {0};
    tn__message_double(&event, EVENT_WALL_TIME, now_s());
    if (step)
        tn__message_whole(&event, EVENT_STEP, (uint64_t)step);
    tn__message_put(&summary, SUMMARY_VALUE, value);
    tn__message_put(&event, EVENT_SUMMARY, &summary);
    tn_status status = TN_ERR_ARGUMENT;
    if (event.count > TN__RECORD_MAX)
        tn_error_refuse_argument(status, call, NULL,
                                 "the event has %zu bytes; at most 1 GiB can "
                                 "be written", event.count);
    else
        status = append(events, call, &event);
    tn__message_free(&event);
    return status;
}

/* ---- files --------------------------------------------------------------- */

static void release(void *object)
{
    tn_events *e = object;
    if (e->path && e->fd >= 0)
        close(e->fd);
    free(e->path);
}

static const tn_object_class events_class = {.size = sizeof events_class,
                                             .name = "events",
                                             .bytes = sizeof(tn_events),
                                             .release = release};

/* Returns the number of bytes of the character at text, or 0 if it is not valid
 * UTF-8. */
static size_t character(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char first = *text;
    const int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4)
        return 0;
    uint32_t code = more ? first & (0x3fu >> more) : first;
    for (int i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    return code < least[more] || code > 0x10ffff || (code >> 11) == 0x1b
               ? 0
               : (size_t)more + 1;
}

bool tn__events_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        const size_t bytes = character(at);
        if (bytes == 0)
            return false;
        at += bytes;
    }
    return true;
}

tn_status tn__events_check(const tn_events *events, const char *call,
                           const char *tag, int64_t step)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check(events, &events_class, call, "events"))
        return tn_error_code();
    if (!tag)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "tag",
                                        "tag is NULL");
    if (!*tag || strlen(tag) > MAX_TAG)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "tag",
                                        "tag has %zu bytes; expected 1 to %d",
                                        strlen(tag), MAX_TAG);
    if (!tn__events_utf8(tag))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "tag",
                                        "tag is not valid UTF-8");
    if (step < 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "step",
                                        "step is %" PRId64 "; expected at "
                                                           "least 0",
                                        step);
    return TN_OK;
}

/* Creates a file with a name that no other process uses. Sets errno and returns
 * -1 on failure. */
static int create(char *path, size_t room, const char *folder)
{
    static _Atomic unsigned next;
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '/')
            *c = '_';
    for (int i = 0; i < MAX_TRIES; i++) {
        const int length = snprintf(
            path, room, "%s/events.out.tfevents.%lld.%s.%ld.%u", folder,
            (long long)time(NULL), *host ? host : "localhost", (long)getpid(),
            atomic_fetch_add(&next, 1));
        if (length < 0 || (size_t)length >= room) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND |
                                      O_CLOEXEC, 0666);
        if (fd >= 0 || (errno != EEXIST && errno != EINTR))
            return fd;
    }
    return -1;
}

static tn_status begin(tn_events *e)
{
    tn__message event = {0};
    tn__message_double(&event, EVENT_WALL_TIME, now_s());
    tn__message_text(&event, EVENT_FILE_VERSION, "brain.Event:2");
    const tn_status status = append(e, "events_open", &event);
    tn__message_free(&event);
    return status;
}

tn_events *tn_events_open(const char *folder)
{
    static const char call[] = "events_open";
    if (!folder || !*folder) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "folder", "folder is %s",
                                 folder ? "empty" : "NULL");
        return NULL;
    }
    if (mkdir(folder, 0777) < 0 && errno != EEXIST) {
        fail(call, "folder", folder, errno);
        return NULL;
    }
    char path[PATH_MAX];
    const int fd = create(path, sizeof path, folder);
    if (fd < 0) {
        fail(call, "folder", folder, errno);
        return NULL;
    }
    tn_events *e = tn_object_new(&events_class, 0);
    if (e)
        e->path = strdup(path);
    if (!e || !e->path) {
        close(fd);
        unlink(path);
        if (e)
            tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                     "out of memory");
        return NULL;
    }
    e->fd = fd;
    return begin(e) < 0 ? NULL : e;
}

const char *tn_events_path(const tn_events *events)
{
    return events && tn_object_check(events, &events_class, "events_path",
                                     "events")
               ? events->path
               : NULL;
}
